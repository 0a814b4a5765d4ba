"""Starting the drivers: one process a measurement, with the threads and libraries it is meant to have."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peers.measure import Ratings
from tacit import RatingScale
from tacit.evaluation.world import LIBIMSETI_SHAPE, WorldShape, make_world

if TYPE_CHECKING:
    from collections.abc import Hashable

BENCHMARKS = Path(__file__).resolve().parents[1]
RESULTS = BENCHMARKS / "results"
PEERS_PYTHON = BENCHMARKS.parent / ".venv-peers" / "bin" / "python"
THREADS = 2
MOST_SECONDS = 3600
BUSY = 0.5

# Two threads each, whoever makes them; a BLAS called from two threads must not start more.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": str(THREADS),
    "OMP_WAIT_POLICY": "passive",
    "RAYON_NUM_THREADS": str(THREADS),
    "NUMBA_NUM_THREADS": str(THREADS),
    "LK_NUM_THREADS": str(THREADS),
    "TACIT_THREADS": str(THREADS),
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONPATH": str(BENCHMARKS),
}

SHAPES = {"libimseti": LIBIMSETI_SHAPE, "small": WorldShape(6_040, 3_706, 1_000_209)}
SCALES = {"libimseti": "1:10:1", "small": "1:5:1"}


@dataclass(frozen=True, slots=True)
class Driver:
    """A module that measures one library and prints one line of JSON."""

    title: str
    module: str
    variant: str = ""
    ours: bool = False
    blas_threads: int = 1

    def run(self, **options: object) -> dict[str, Any]:
        """Run it in a process of its own; raise DriverError, with the last line it said, when it fails."""
        python = Path(sys.executable) if self.ours else PEERS_PYTHON
        if not python.exists():
            raise DriverError(f"{python.parents[1].name} is missing; `make peers` makes it")
        arguments = [f"--{name}={value}" for name, value in {**options, "variant": self.variant}.items()]
        environment = os.environ | _ENVIRONMENT | {"OPENBLAS_NUM_THREADS": str(self.blas_threads)}
        try:
            done = subprocess.run(  # noqa: S603 - this project's own modules
                [python, "-m", self.module, *arguments],
                env=environment,
                capture_output=True,
                text=True,
                timeout=MOST_SECONDS,
                check=True,
            )
        except subprocess.TimeoutExpired as error:
            raise DriverError(f"not finished after {MOST_SECONDS} s") from error
        except subprocess.CalledProcessError as error:
            raise DriverError((error.stderr.strip() or f"status {error.returncode}").splitlines()[-1]) from error
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return figures


class DriverError(RuntimeError):
    """A driver that did not get to its end; the message says why."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """What the drivers said, round by round, by whatever key the caller asks under."""

    figures: dict[Hashable, list[dict[str, Any]]] = field(default_factory=dict)
    failed: set[Driver] = field(default_factory=set)

    def measure(self, key: Hashable, driver: Driver, **options: object) -> None:
        """Run a driver once more; one that fails is named and not tried again."""
        if driver in self.failed:
            return
        progress(f"  {driver.title}")
        try:
            self.figures.setdefault(key, []).append(driver.run(**options))
        except DriverError as error:
            progress(f"  ... left out: {error}")
            self.failed.add(driver)
            self.figures.pop(key)

    def versions(self) -> dict[str, str]:
        """Return the versions of all libraries measured."""
        found = (one["versions"].items() for rounds in self.figures.values() for one in rounds)
        return dict(sorted(pair for pairs in found for pair in pairs))


def save_world(name: str, folder: Path) -> WorldShape:
    """Make the named world and write it where the drivers read it."""
    shape = SHAPES[name]
    world = make_world(RatingScale.parse(SCALES[name]), shape=shape)
    Ratings(world.users, world.items, world.ratings, (shape.people, shape.items), SCALES[name]).save(folder)
    return shape


def warn_if_busy() -> float:
    """Return the load of the machine before it is measured, and say so when it is not quiet."""
    load = round(os.getloadavg()[0], 2)
    if load > BUSY:
        progress(f"the machine is busy (load {load}): processor seconds will tell more than seconds")
    return load


def machine() -> dict[str, object]:
    """Describe what this runs on."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": (names or [platform.processor()])[0],
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
    }


def progress(message: str) -> None:
    """Say on standard error what is being measured."""
    print(message, file=sys.stderr, flush=True)
