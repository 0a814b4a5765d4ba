"""The servers that are measured: a service in a process of its own, and a PostgreSQL of our own that loses nothing."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import create_engine, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LISTENING = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")
_TICKS = os.sysconf("SC_CLK_TCK")
_SECONDS_TO_START = 60


@dataclass(frozen=True, slots=True)
class Server:
    """A running service."""

    process: subprocess.Popen[bytes]
    port: int

    def rss_mib(self) -> float:
        """Return how much memory it holds now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return round(int(status.partition("VmRSS:")[2].split()[0]) / 1024, 1)

    def cpu_seconds(self) -> float:
        """Return how much processor time it has used."""
        return cpu_seconds(self.process.pid)

    def policy(self) -> str:
        """Return the id of the policy to report under."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/policy", timeout=10) as answer:
            json.load(answer)
            return str(answer.headers["etag"]).strip('"')


def cpu_seconds(process: int) -> float:
    """Return the processor time of a process and of its children that ended."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def cpu_seconds_of_children(process: int) -> float:
    """Return the processor time of a process and all its children, those that ended included."""
    return cpu_seconds(process) + sum(cpu_seconds(child) for child in _children(process))


def peak_of_children(process: int) -> int:
    """Return the most bytes that one of a process's children held so far."""
    peaks = [0]
    for child in _children(process):
        with suppress(OSError, IndexError):  # it may end at any moment
            status = Path(f"/proc/{child}/status").read_text(encoding="utf-8")
            peaks.append(int(status.partition("VmHWM:")[2].split()[0]) * 1024)
    return max(peaks)


def _children(process: int) -> list[int]:
    """List the children of all threads of a process."""
    threads = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text(encoding="utf-8").split()]


@contextmanager
def server(command: Sequence[str], log: Path) -> Iterator[Server]:
    """Start a service that says where it listens, and stop it at the end."""
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stderr=errors)  # noqa: S603 - this project's own programs
    try:
        yield Server(process, _port_of(process, log))
    finally:
        process.terminate()
        process.wait(_SECONDS_TO_START)


def _port_of(process: subprocess.Popen[bytes], log: Path) -> int:
    until = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < until and process.poll() is None:
        found = _LISTENING.search(log.read_text(encoding="utf-8"))
        if found:
            return int(found[1])
        time.sleep(0.05)
    raise RuntimeError(f"the service did not start: {log.read_text(encoding='utf-8')[-500:]}")


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running PostgreSQL."""

    folder: Path

    @property
    def process(self) -> int:
        """The number of its first process."""
        return int((self.folder / "data" / "postmaster.pid").read_text(encoding="utf-8").split()[0])

    def new_database(self) -> str:
        """Make an empty database, and return its address."""
        name = f"t{secrets.token_hex(6)}"
        engine = create_engine(self._address("postgres", "+psycopg"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return self._address(name)

    def _address(self, name: str, driver: str = "") -> str:
        return f"postgresql{driver}://tacit@/{name}?host={self.folder}"


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a PostgreSQL as it is installed: every commit is on the disk before it is answered."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    programs = found[-1].parent if found else Path(str(shutil.which("initdb"))).parent
    folder = Path(tempfile.mkdtemp(prefix="tacit-pg-"))
    owner: list[str] = []
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, "postgres")
        owner = ["runuser", "-u", "postgres", "--"]

    def call(program: str, *arguments: str) -> None:
        command = [*owner, str(programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, timeout=120)  # noqa: S603 - as found

    data = str(folder / "data")
    try:
        call("initdb", "-D", data, "-A", "trust", "-U", "tacit", "-E", "UTF8", "--locale=C")
        options = f"-k {folder} -c listen_addresses= -c fsync=on -c synchronous_commit=on"
        call("pg_ctl", "-D", data, "-w", "-o", options, "-l", str(folder / "log"), "start")
        try:
            yield Postgres(folder)
        finally:
            call("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
