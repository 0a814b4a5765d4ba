"""One training iteration side by side with the peers, on two threads, in one run.

Ours weighs every report by a mixture of four noise components and solves both sides exactly; no peer does the first
half of that. The rounds go through all libraries in turn, so that a slow minute of the machine falls on all of them,
and the best of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import floor
from peers.processes import RESULTS, SHAPES, THREADS, Driver, Rounds, machine, progress, save_world, warn_if_busy

OURS = "tacit"
DRIVERS = {
    OURS: Driver("tacit EM, 4 components, exact", "ours", "fit", ours=True),
    "lenskit": Driver("LensKit explicit ALS, exact, unweighted", "peers.lenskit_als"),
    "cmfrec": Driver("cmfrec explicit ALS, exact, weights given", "peers.cmfrec_als"),
    "implicit-cg": Driver("implicit ALS, CG: another problem, inexact", "peers.implicit_als", "cg"),
    "implicit-cholesky": Driver("implicit ALS, Cholesky: another problem", "peers.implicit_als", "cholesky"),
    "spark": Driver("Spark explicit ALS, local, exact, unweighted", "peers.spark_als"),
}
# How many iterations the long fit has more than the short one: enough that their difference outweighs the noise.
SHORT = 1
MORE = {OURS: 10, "lenskit": 5, "cmfrec": 3, "implicit-cg": 5, "implicit-cholesky": 3, "spark": 2}
MORE_WHEN_SMALL = 10


@dataclass(frozen=True, slots=True)
class Result:
    """What the rounds of one library at one rank come to."""

    seconds: float
    cpu_seconds: float
    prepare_seconds: float
    fixed_seconds: float
    above_while_preparing_mib: int
    above_input_mib: int
    peak_mib: int
    sample_rmse: float | None

    @classmethod
    def of(cls, rounds: list[dict[str, Any]]) -> Result:
        """Take the best of the rounds: noise only ever slows a fit down, so the difference is taken last."""
        more = rounds[0]["iterations"]
        short, long = ([min(one[fit][clock] for one in rounds) for clock in range(2)] for fit in ("short", "long"))
        wall, cpu = ((late - early) / more for early, late in zip(short, long, strict=True))
        return cls(
            seconds=wall,
            cpu_seconds=cpu,
            prepare_seconds=min(one["prepare_seconds"] for one in rounds),
            fixed_seconds=short[0] - SHORT * wall,
            above_while_preparing_mib=min(one["above_while_preparing_mib"] for one in rounds),
            above_input_mib=min(one["above_input_mib"] for one in rounds),
            peak_mib=min(one["peak_mib"] for one in rounds),
            sample_rmse=rounds[-1]["sample_rmse"],
        )

    def record(self, ours: Result, least: floor.Floor) -> dict[str, float | None]:
        """Return the figures to write down."""
        return {
            "seconds": round(self.seconds, 4),
            "cpu_seconds": round(self.cpu_seconds, 4),
            "times_ours": round(self.seconds / ours.seconds, 2),
            "times_serial_floor": round(self.seconds / least.serial, 1),
            "above_while_preparing_mib": self.above_while_preparing_mib,
            "above_input_mib": self.above_input_mib,
            "peak_mib": self.peak_mib,
            "prepare_seconds": self.prepare_seconds,
            "fixed_seconds_per_fit": round(self.fixed_seconds, 2),
            "sample_rmse": self.sample_rmse,
        }


def measure(folder: Path, chosen: argparse.Namespace) -> tuple[Rounds, dict[str, Any]]:
    """Run all rounds; return what the drivers said, and the best rates of the machine."""
    rounds = Rounds()
    longer = MORE_WHEN_SMALL if chosen.ratings == "small" else 1
    for one in range(chosen.repeats):
        progress(f"round {one + 1} of {chosen.repeats}")
        rounds.measure("floor", floor.DRIVER, data=folder, ranks=",".join(map(str, chosen.ranks)))
        for rank in chosen.ranks:
            progress(f" rank {rank}")
            for name in [OURS, *chosen.peers]:
                long = SHORT + MORE[name] * longer
                options = {"data": folder, "rank": rank, "threads": THREADS, "short": SHORT, "long": long}
                rounds.measure((rank, name), DRIVERS[name], **options)
    return rounds, floor.best_rates(rounds.figures["floor"])


def results_of(rounds: Rounds, rank: int) -> dict[str, Result]:
    """Return what was measured at a rank."""
    keys = {name: (rank, name) for name in DRIVERS if (rank, name) in rounds.figures}
    return {name: Result.of(rounds.figures[key]) for name, key in keys.items()}


def print_rank(rank: int, results: dict[str, Result], least: floor.Floor) -> None:
    """Print the table of one rank."""
    ours = results.get(OURS)
    heads = (
        f"{'s/iteration':>12}{'CPU s':>8}{'x ours':>8}{'x floor':>9}{'MiB set-up':>11}{'MiB fit':>9}{'set-up s':>10}"
    )
    print(f"\n{f'rank {rank}':46}{heads}")
    for name, one in results.items():
        times = f"{one.seconds / ours.seconds:8.2f}" if ours else f"{'-':>8}"
        set_up = max(0.0, one.prepare_seconds + one.fixed_seconds)
        print(
            f"{DRIVERS[name].title:46}{one.seconds:12.4f}{one.cpu_seconds:8.3f}{times}{one.seconds / least.serial:9.1f}"
            f"{one.above_while_preparing_mib:11,}{one.above_input_mib:9,}{set_up:10.1f}"
        )


def parse_peers(text: str) -> list[str]:
    """Read peers from `lenskit,spark`."""
    names = [name for name in text.split(",") if name]
    if unknown := set(names) - (DRIVERS.keys() - {OURS}):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    return names


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ratings", choices=SHAPES, default="libimseti")
    parser.add_argument("--ranks", type=floor.parse_ranks, default=[10, 32])
    parser.add_argument("--peers", type=parse_peers, default=[name for name in DRIVERS if name != OURS])
    parser.add_argument("--repeats", type=int, default=3, help="rounds, of which the best counts")
    return parser.parse_args()


def record_rank(results: dict[str, Result], least: floor.Floor) -> dict[str, object]:
    """Return the figures of one rank to write down."""
    libraries = {name: one.record(results[OURS], least) for name, one in results.items()}
    return {"floor": least.record(), **libraries}


def main() -> int:
    """Measure, print and keep the figures."""
    chosen = arguments()
    load = warn_if_busy()
    with tempfile.TemporaryDirectory() as folder:
        progress("making the ratings")
        shape = save_world(chosen.ratings, Path(folder))
        rounds, rates = measure(Path(folder), chosen)
    print(f"{shape.ratings:,} ratings of {shape.items:,} items by {shape.people:,} people")
    floor.describe(rates, shape, chosen.ranks)
    floors = {rank: floor.floor_of(rates, shape, rank) for rank in chosen.ranks}
    results = {rank: results_of(rounds, rank) for rank in chosen.ranks}
    for rank in chosen.ranks:
        print_rank(rank, results[rank], floors[rank])
    if DRIVERS[OURS] in rounds.failed:
        return 1
    record = {
        **asdict(shape),
        "threads": THREADS,
        "rounds": chosen.repeats,
        "load_before": load,
        "machine": machine(),
        "libraries": rounds.versions(),
        "rates": rates,
        "ranks": {rank: record_rank(results[rank], floors[rank]) for rank in chosen.ranks},
    }
    if chosen.ratings == "libimseti":
        (RESULTS / "fit.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
