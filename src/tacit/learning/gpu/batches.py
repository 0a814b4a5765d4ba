"""Batches: neighbouring rows of about equal length, so many that their equations fit into a given memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Counts = NDArray[np.int64]

# Reports of one row that are summed up in single precision: beside a longer sum one more report would vanish.
SEGMENT = 1 << 14
_LONGER = 1.25  # rows of a batch are filled up to the longest of them, which is at most so much longer,
_SHORT = 8  # or shorter than this more
_MOST_ROWS = (1 << 16) - 1  # matrices that libraries for GPUs are sure to take at once
_LEAST_WIDTH = 320  # more than there are coordinates: a row with fewer reports than unknowns is one part


class Run(NamedTuple):
    """Rows from `first` up to, not including, `last`, the longest of them with `length` reports."""

    first: int
    last: int
    length: int


class Batch(NamedTuple):
    """Rows of a run that are solved at once, `width` reports of each at a time."""

    rows: slice
    length: int
    width: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What a batch takes: rows of so many coordinates, equations of so many unknowns, numbers of so many bytes."""

    coordinates: int
    free: int
    itemsize: int
    memory: int

    @property
    def report(self) -> int:
        """Bytes for a report: its factors, plain and weighted, and some numbers."""
        return self.itemsize * (2 * self.coordinates + 16) + 32

    @property
    def row(self) -> int:
        """Bytes for a row beside its reports: the equations, in single precision once more in doubles."""
        return self.itemsize * (6 * self.free * self.free + 8 * self.free + self.coordinates)

    @property
    def least(self) -> int:
        """Bytes below which no batch can be cut."""
        return self.row + _LEAST_WIDTH * self.report


def runs(counts: Counts, least: int) -> tuple[Run, ...]:
    """Find neighbours of about equal length among rows with at least so many reports, and at least one."""
    # Every length has a level; a run is one level. Rows come by falling length, so there are few.
    level = np.floor(np.log(np.maximum(-(-counts // _SHORT), 1)) / np.log(_LONGER))
    level[counts < max(least, 1)] = -1
    edges = np.flatnonzero(np.diff(level)) + 1
    bounds = np.concatenate([[0], edges, [len(counts)]]).tolist()
    return tuple(
        Run(first, last, int(counts[first:last].max()))
        for first, last in pairwise(bounds)
        if last > first and level[first] >= 0
    )


def batches(among: tuple[Run, ...], cost: Cost) -> Iterator[Batch]:
    """Cut runs into batches."""
    for run in among:
        fitting = max((cost.memory - cost.row) // cost.report, _LEAST_WIDTH)
        width = min(run.length, SEGMENT, fitting)
        at_once = min(max(cost.memory // (cost.row + width * cost.report), 1), _MOST_ROWS)
        for first in range(run.first, run.last, at_once):
            yield Batch(slice(first, min(first + at_once, run.last)), run.length, width)
