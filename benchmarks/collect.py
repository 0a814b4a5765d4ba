"""Collecting reports under load: `tacit serve` side by side with the plain form, in one run, on this machine alone.

Batches of 10 reports, all different, of many devices; every request is answered after its commit, and every answer is
checked against the database afterwards. SQLite writes with synchronous=FULL, PostgreSQL with fsync and
synchronous_commit on. The floors: how often this disk can be made to write (one write and one fsync after the other),
and what the same server answers when nothing has to be stored.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from load import traffic
from load.sending import WARM_UP, start_load
from load.servers import Postgres, Server, cpu_seconds_of_children, postgres, server
from peers.processes import BENCHMARKS, RESULTS, machine, progress, warn_if_busy
from tacit.provider.store import ReportStore

if TYPE_CHECKING:
    from collections.abc import Sequence

OURS, PLAIN, ONE_WRITER = "tacit", "plain", "plain, one writer"
CONTENDERS = {"sqlite": (OURS, PLAIN, ONE_WRITER), "postgresql": (OURS, PLAIN)}
CONNECTIONS = (16, 64)
ROUNDS = 2
FLOOR_SECONDS = 5.0
FASTER, CALMER = 1.5, 3.0

_UNKNOWN_POLICY = "0" * 64


@dataclass(frozen=True)
class Bench:
    """Where and how long it is measured."""

    folder: Path
    seconds: float
    cluster: Postgres | None

    def measure(self, database: str, contender: str, connections: int) -> dict[str, Any]:
        """Measure one server on a new database."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder = Path(name)
            address = self._address(database, folder)
            with server(self.command(contender, address, folder), folder / "log") as running:
                empty = _size(address)
                figures = self._under_load(running, database, connections, folder)
            return figures | _stored(address, folder, empty)

    def floors(self) -> dict[str, float]:
        """Measure what bounds every server here."""
        found: dict[str, float] = {"fsyncs_per_second": round(fsyncs_per_second(self.folder))}
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            folder = Path(name)
            address = f"sqlite:///{folder / 'x.db'}"
            with server(self.command(OURS, address, folder), folder / "log") as running:
                live = start_load(
                    running, folder, CONNECTIONS[0], FLOOR_SECONDS, path="/health/live"
                ).wait_for_figures()
                refused = start_load(
                    running, folder, CONNECTIONS[0], FLOOR_SECONDS, policy=_UNKNOWN_POLICY, status=422
                ).wait_for_figures()
        found["health_requests_per_second"] = live["requests_per_second"]
        found["refused_batches_per_second"] = refused["requests_per_second"]
        return found

    def _address(self, database: str, folder: Path) -> str:
        return (
            self.cluster.new_database() if database == "postgresql" and self.cluster else f"sqlite:///{folder / 'x.db'}"
        )

    def command(self, contender: str, address: str, folder: Path) -> list[str]:
        """Say how a server is started."""
        listed = str(self.folder / "items.csv")
        if contender == OURS:
            serve = [str(Path(sys.executable).with_name("tacit")), "serve", "--port", "0", "--rate-limit", "0"]
            return [*serve, "--db", address, "--items", listed, "--models", str(folder / "models")]
        plain = [sys.executable, str(BENCHMARKS / "plain_service.py"), "--db", address, "--items", listed]
        return [*plain, "--one-writer"] if contender == ONE_WRITER else plain

    def _under_load(self, running: Server, database: str, connections: int, folder: Path) -> dict[str, Any]:
        load = start_load(running, folder, connections, self.seconds, policy=running.policy())
        time.sleep(WARM_UP)
        memory, used, began = [running.rss_mib()], self._used(running, database), time.monotonic()
        for _ in range(2):
            time.sleep(self.seconds / 2)
            memory.append(running.rss_mib())
        took = time.monotonic() - began
        cores = {name: round((now - used[name]) / took, 2) for name, now in self._used(running, database).items()}
        figures = load.wait_for_figures()
        each = 1000 * cores["server_cores"] / max(figures["requests_per_second"], 1)
        return figures | cores | {"server_ms_per_request": round(each, 3), "rss_mib": memory}

    def _used(self, running: Server, database: str) -> dict[str, float]:
        used = {"server_cores": running.cpu_seconds()}
        if database == "postgresql" and self.cluster:
            used["database_cores"] = cpu_seconds_of_children(self.cluster.process)
        return used


def _size(address: str) -> int:
    store = ReportStore.open(address)
    try:
        return store.size()
    finally:
        store.close()


def _stored(address: str, folder: Path, empty: int) -> dict[str, Any]:
    """Say what is in the database, and what each report takes there, its device's share and indices included."""
    store = ReportStore.open(address)
    try:
        checked = traffic.check(store, np.load(folder / "acknowledged.npy"))
        each = (store.size() - empty) / max(store.count("reports"), 1)
    finally:
        store.close()
    return {"check": asdict(checked), "bytes_per_report": round(each, 1)}


def fsyncs_per_second(folder: Path, seconds: float = 2.0) -> float:
    """Append a page and wait until the disk has it, again and again."""
    page, count = b"\1" * 4096, 0
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            file.write(page)
            os.fsync(file.fileno())
            count += 1
        return count / (time.perf_counter() - began)


def summed(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sum the rounds of one server up: the mean rate and times, the last memory, all errors."""
    means = {
        name: round(float(np.mean([one[name] for one in rounds])), 2)
        for name in rounds[0]
        if name not in {"errors", "check", "rss_mib", "worst_ms"}
    }
    return means | {
        "worst_ms": max(one["worst_ms"] for one in rounds),
        "errors": sum(one["errors"] for one in rounds),
        "check": {name: sum(one["check"][name] for one in rounds) for name in rounds[0]["check"]},
        "rss_mib_start_middle_end": rounds[-1]["rss_mib"],
        "rounds_requests_per_second": [one["requests_per_second"] for one in rounds],
        "rounds_p99_ms": [one["p99_ms"] for one in rounds],
    }


def compared(ours: dict[str, Any], plain: dict[str, Any]) -> dict[str, Any]:
    """Hold ours against the plain form."""
    faster = ours["requests_per_second"] / plain["requests_per_second"]
    calmer = plain["p99_ms"] / ours["p99_ms"]
    is_met = faster >= FASTER and calmer >= CALMER
    return {"throughput": round(faster, 2), "p99_is_lower_by": round(calmer, 2), "bar_met": is_met}


def main() -> int:
    """Measure, print and keep the figures; the status tells whether anything acknowledged was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="under load, for each server and round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--databases", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--out", type=Path, default=RESULTS / "collect.json")
    chosen = parser.parse_args()
    before = warn_if_busy()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tacit-collect-")))
        write_items(folder / "items.csv")
        bench = Bench(folder, chosen.seconds, stack.enter_context(postgres()))
        floors, measured = _measured(bench, chosen.rounds, chosen.databases)
    results = {
        database: {str(connections): _row(measured, database, connections) for connections in CONNECTIONS}
        for database in chosen.databases
    }
    settings = {
        "seconds": chosen.seconds,
        "rounds": chosen.rounds,
        "reports_per_batch": traffic.REPORTS_PER_BATCH,
        "load_before": before,
    }
    libraries = {name: version(name) for name in ("fastapi", "sqlalchemy", "uvicorn", "uvloop", "psycopg")}
    record = {**settings, "machine": machine(), "libraries": libraries, "floors": floors, "results": results}
    chosen.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    bad = [one for one in measured.values() for round_ in one if any(_faults(round_["check"]))]
    return 1 if bad else 0


def _measured(
    bench: Bench, rounds: int, databases: Sequence[str]
) -> tuple[list[dict[str, float]], dict[tuple[str, int, str], list[dict[str, Any]]]]:
    """Run all rounds; in each, every server has its turn."""
    floors: list[dict[str, float]] = []
    measured: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for one in range(rounds):
        progress(f"round {one + 1} of {rounds}")
        floors.append(bench.floors())
        print(floors[-1], flush=True)
        for database in databases:
            for connections in CONNECTIONS:
                for contender in CONTENDERS[database]:
                    figures = bench.measure(database, contender, connections)
                    measured.setdefault((database, connections, contender), []).append(figures)
                    print(f"{database:11}{connections:4} {contender:18}", _line(figures), flush=True)
    return floors, measured


def _row(measured: dict[tuple[str, int, str], list[dict[str, Any]]], database: str, connections: int) -> dict[str, Any]:
    sums = {name: summed(measured[database, connections, name]) for name in CONTENDERS[database]}
    against = {name: compared(sums[OURS], sums[name]) for name in CONTENDERS[database][1:]}
    print(f"{database} {connections}: {against}")
    return {**sums, "tacit_against": against}


def _line(figures: dict[str, Any]) -> str:
    shown = (
        "requests_per_second",
        "p50_ms",
        "p99_ms",
        "errors",
        "server_ms_per_request",
        "rss_mib",
        "bytes_per_report",
    )
    faults = dict(zip(("lost", "partial", "foreign"), _faults(figures["check"]), strict=True))
    return " ".join(f"{name} {figures[name]}" for name in shown) + (f" {faults}" if any(faults.values()) else "")


def _faults(checked: dict[str, int]) -> list[int]:
    return [checked[name] for name in ("lost", "partial", "foreign")]


def write_items(path: Path) -> None:
    """Write the items that are reported on."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("item", "title"), *((item.id, item.title) for item in traffic.items())])


if __name__ == "__main__":
    sys.exit(main())
