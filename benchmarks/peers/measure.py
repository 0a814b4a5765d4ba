"""What every driver does: load the ratings, fit twice, and say in one line of JSON what it took.

An iteration is measured as the difference of a long and a short fit, so that whatever a library does once
a fit, such as transposing or checking its input, is not in it. Time and memory count every process the driver
starts; both are read from Linux's `/proc`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Ids = NDArray[np.int32]
    Floats = NDArray[np.float32]
    # Predicted ratings of users and items.
    Predict = Callable[[Ids, Ids], NDArray[Any]]
    # Fits that many iterations; what only ranks predicts no ratings.
    Fit = Callable[[int], Predict | None]
    # That many items for everybody, best first, one row a person.
    Recommend = Callable[[int], Ids]

LIST_LENGTH = 10

_TICKS = os.sysconf("SC_CLK_TCK")
_MIB = 1024  # /proc counts in KiB
_SAMPLE = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Ratings:
    """The ratings every driver reads, by user and then by item."""

    users: Ids
    items: Ids
    values: Floats
    shape: tuple[int, int]
    scale: str

    @classmethod
    def load(cls, folder: Path) -> Ratings:
        """Read what `save` wrote."""
        facts = json.loads((folder / "ratings.json").read_text(encoding="utf-8"))
        users, items, values = (np.load(folder / f"{name}.npy") for name in ("users", "items", "values"))
        return cls(users, items, values, (facts["people"], facts["items"]), facts["scale"])

    def save(self, folder: Path) -> None:
        """Write one file an array, and one with the rest."""
        for name in ("users", "items", "values"):
            np.save(folder / f"{name}.npy", getattr(self, name))
        facts = {"people": self.shape[0], "items": self.shape[1], "scale": self.scale}
        (folder / "ratings.json").write_text(json.dumps(facts), encoding="utf-8")

    def sample(self) -> tuple[Ids, Ids, Floats]:
        """Return users, items and values of some of the ratings, always the same ones."""
        chosen = np.random.default_rng(0).integers(0, len(self.values), _SAMPLE)
        return self.users[chosen], self.items[chosen], self.values[chosen]


@dataclass(frozen=True, slots=True)
class Job:
    """What one driver is asked to do."""

    data: Path
    rank: int
    threads: int
    short: int
    long: int
    variant: str

    @classmethod
    def from_command_line(cls) -> Job:
        """Read the arguments a driver is started with."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--data", type=Path, required=True, help="folder with the ratings")
        parser.add_argument("--rank", type=int, required=True)
        parser.add_argument("--threads", type=int, default=2)
        parser.add_argument("--short", type=int, default=1, help="iterations of the short fit")
        parser.add_argument("--long", type=int, default=2, help="iterations of the long fit")
        parser.add_argument("--variant", default="", help="which of a library's solvers")
        return cls(**vars(parser.parse_args()))


def _processes() -> list[int]:
    """Return this process and all it started, directly or not, that still run."""
    found = [os.getpid()]
    for pid in found:  # grows while it is walked
        found += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split())
    return found


def cpu_seconds() -> float:
    """Return the processor time, user and system, of all processes so far."""
    ticks = 0
    for pid in _processes():
        # The name, in brackets, may hold spaces; user and system time are the 12th and 13th fields after it.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def _memory(field: str) -> float:
    """Return a memory field of all processes, in MiB."""
    lines = [
        line
        for pid in _processes()
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        if line.startswith(field)
    ]
    return sum(int(line.split()[1]) for line in lines) / _MIB


class Memory:
    """The most memory in use since this was made, beyond what was in use then."""

    def __init__(self) -> None:
        """Forget this process's earlier peak."""
        self.forget_peak()
        self._before = _memory("VmRSS:")

    def forget_peak(self) -> None:
        """Go on from what is in use now, still counting from what was in use at first."""
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")

    def peak(self) -> float:
        """Return the peak in MiB."""
        return _memory("VmHWM:")

    def above(self) -> float:
        """Return the peak in MiB beyond what was in use before."""
        return self.peak() - self._before


@dataclass(frozen=True, slots=True)
class Spent:
    """What a piece of work took."""

    wall: float
    cpu: float

    @classmethod
    def on(cls, work: Callable[[], object]) -> Spent:
        """Do it and return what it took."""
        wall, cpu = time.perf_counter(), cpu_seconds()
        work()
        return cls(round(time.perf_counter() - wall, 4), round(cpu_seconds() - cpu, 4))


def say(library: str, **figures: object) -> None:
    """Print the one line a driver is read by."""
    versions = {name: version(name) for name in (library, "numpy")}
    print(json.dumps({"versions": versions, "python": platform.python_version(), **figures}))


def report_fit(library: str, prepare: Callable[[Ratings, Job], Fit]) -> None:
    """Measure a library: `prepare` turns the ratings into its own form and returns how to fit them."""
    job = Job.from_command_line()
    ratings = Ratings.load(job.data)
    memory = Memory()
    start = time.perf_counter()
    fit = prepare(ratings, job)
    prepared = time.perf_counter() - start
    above_while_preparing = round(memory.above())
    memory.forget_peak()
    fit(job.short)  # the first fit pays for threads, caches and compilers
    short = Spent.on(lambda: fit(job.short))
    predict: list[Predict | None] = []
    long = Spent.on(lambda: predict.append(fit(job.long)))
    say(
        library,
        iterations=job.long - job.short,
        prepare_seconds=round(prepared, 2),
        short=[short.wall, short.cpu],
        long=[long.wall, long.cpu],
        above_while_preparing_mib=above_while_preparing,
        above_input_mib=round(memory.above()),
        peak_mib=round(memory.peak()),
        sample_rmse=_sample_rmse(predict[0], ratings),
    )


def report_recommend(library: str, prepare: Callable[[Ratings, Floats, Floats, Job], Recommend]) -> None:
    """Measure ten items for everybody: `prepare` makes a library's model of the factors of people and items."""
    job = Job.from_command_line()
    people, items = (np.load(job.data / f"{side}_factors.npy") for side in ("people", "items"))
    recommend = prepare(Ratings.load(job.data), people, items, job)
    memory = Memory()
    lists: list[Ids] = []
    spent = Spent.on(lambda: lists.append(recommend(LIST_LENGTH)))
    figures = {"wall": spent.wall, "cpu": spent.cpu, "above_model_mib": round(memory.above())}
    np.save(job.data / f"lists_{library}.npy", lists[0])
    say(library, **figures, peak_mib=round(memory.peak()))


def _sample_rmse(predict: Predict | None, ratings: Ratings) -> float | None:
    """Return the error on some of the ratings fitted: the proof that a fit was one."""
    if predict is None:
        return None
    users, items, values = ratings.sample()
    return round(float(np.sqrt(np.mean((predict(users, items) - values) ** 2))), 4)
