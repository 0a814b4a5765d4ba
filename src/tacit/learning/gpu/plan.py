"""Plans: what a fit takes of a device's memory, foreseen before anything is put there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import EngineError
from tacit.learning.gpu.batches import Cost
from tacit.learning.gpu.reports import cut, value_type
from tacit.learning.gpu.tasks import room_for_notes, room_for_row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.matrix import ReportMatrix, Rows

MOST_BLOCK = 1 << 26  # reports
_LEAST_BLOCK = 1 << 10
_LINE = 16  # floats; rows of factors are a multiple of it
_SPARE = 0.05  # of a device's memory: what allocators round up, and the libraries' own
_TIGHTER = 4  # times less scratch memory is still enough to keep a device busy, and better than to stream reports
_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Plan:
    """Where reports are, and how many bytes everything takes."""

    device: str
    limit: int
    count: int
    resident: bool
    most: int
    reports: int
    factors: int
    notes: int
    scratch: int
    pinned: int
    pinnable: int

    @property
    def pins(self) -> bool:
        """Whether what is streamed is kept where a device can read it by itself, in memory that cannot be swapped."""
        return 0 < self.pinned <= self.pinnable

    @property
    def need(self) -> int:
        """How many bytes that is altogether."""
        return self.reports + self.factors + self.notes + self.scratch

    def describe(self) -> str:
        """Say it in a line."""
        where = "stay there" if self.resident else f"are streamed there, at most {self.most} at a time"
        sizes = {"reports": self.reports, "factors": self.factors, "scratch": self.notes + self.scratch}
        parts = ", ".join(f"{name} {_shown(size)}" for name, size in sizes.items())
        said = f"on {self.device}: {self.count} reports {where}; {_shown(self.need)} of {_shown(self.limit)} ({parts})"
        if not self.pinned:
            return said
        if self.pins:
            return f"{said}, and a copy of {_shown(self.pinned)} in this machine's own memory"
        there, wanted = _shown(self.pinnable), _shown(self.pinned)
        return f"{said}, slowly: of this machine's own memory, {there} may be used, not {wanted}"


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked of a plan: rows of so many coordinates, so many arrays of such rows, and scratch memory.

    `pinnable` is how many bytes of this machine's memory may hold a copy of what is streamed; None where that is of no
    use.
    """

    coordinates: int
    arrays: int
    scratch: int
    pinnable: int | None = None

    def beside(self, coordinates: int, arrays: int) -> Demand:
        """Ask for that too, if not at the same time."""
        return replace(self, coordinates=max(self.coordinates, coordinates), arrays=max(self.arrays, arrays))


def foresee(matrix: ReportMatrix, demand: Demand, device: str, limit: int) -> Plan:
    """Plan for reports that stay on the device if they fit, else for blocks as large as fit."""
    usable = int(limit * (1 - _SPARE))
    longest = max(int(rows.counts().max(initial=0)) for rows in (matrix.by_user, matrix.by_item))
    least = Cost(demand.coordinates, demand.coordinates, 8, 0).least
    least = max(least, room_for_row(longest, demand.coordinates))
    most, scratch = MOST_BLOCK, max(demand.scratch, least)
    for tight in (scratch, max(scratch // _TIGHTER, least)):
        plan = _plan(matrix, demand, device, limit, resident=True, most=most, scratch=tight)
        if plan.need <= usable:
            return plan
    while True:
        for resident in (True, False):  # with so little scratch memory reports may have room after all
            at_once = MOST_BLOCK if resident else most
            plan = _plan(matrix, demand, device, limit, resident=resident, most=at_once, scratch=scratch)
            if plan.need <= usable:
                return plan
        if most > _LEAST_BLOCK and (plan.reports > scratch or scratch == least):
            most //= 2
        elif scratch > least:
            scratch = max(scratch // 2, least)
        else:
            break
    raise EngineError(
        f"the fit needs at least {_shown(int(plan.need / (1 - _SPARE)))} on {device}, and {_shown(limit)} may be used; "
        "lower the rank, or use the local engine"
    )


def _plan(  # noqa: PLR0913 - what is tried
    matrix: ReportMatrix, demand: Demand, device: str, limit: int, *, resident: bool, most: int, scratch: int
) -> Plan:
    sides = matrix.by_user, matrix.by_item
    held = sum(map(_bytes, sides)) if resident else 2 * max(_buffer(rows, most) for rows in sides)
    notes = sum(room_for_notes(len(rows), len(rows.columns)) for rows in sides)
    stride = -(-demand.coordinates // _LINE) * _LINE
    copied = max(int(_blocks(rows, most)[0].max()) for rows in sides)  # to see how far a block's rows moved
    factors = 4 * stride * (demand.arrays * sum(matrix.shape) + copied)
    pinned = 0 if resident or demand.pinnable is None else sum(_pinned(rows, most) for rows in sides)
    pinnable = demand.pinnable or 0
    return Plan(device, limit, matrix.reports, resident, most, held, factors, notes, scratch, pinned, pinnable)


def _bytes(rows: Rows) -> int:
    return 8 * (len(rows) + 1) + len(rows.columns) * (4 + int(value_type(rows).itemsize))


def _blocks(rows: Rows, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many rows and how many reports each block has."""
    bounds = np.array(cut(rows.starts, most))
    return bounds[:, 1] - bounds[:, 0], rows.starts[bounds[:, 1]] - rows.starts[bounds[:, 0]]


def _buffer(rows: Rows, most: int) -> int:
    """Return the bytes of a buffer for any block."""
    counts, reports = _blocks(rows, most)
    return int(8 * (counts.max() + 1) + reports.max() * (4 + value_type(rows).itemsize))


def _pinned(rows: Rows, most: int) -> int:
    """Return the bytes of all blocks in memory that is given out in powers of two."""
    counts, reports = _blocks(rows, most)
    arrays = 8 * (counts + 1), 4 * reports, value_type(rows).itemsize * reports
    return sum(int((1 << np.ceil(np.log2(np.maximum(size, 1))).astype(np.int64)).sum()) for size in arrays)


def _shown(size: int) -> str:
    return f"{size / _MEBIBYTE:.1f} MiB" if size < 1 << 30 else f"{size / (1 << 30):.1f} GiB"
