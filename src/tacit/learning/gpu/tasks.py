"""Tasks of the fused kernels: which reports of which rows one program takes, and which rows are solved in which way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import torch

from tacit.learning.gpu.batches import SEGMENT as LONGEST_SEGMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from torch import Tensor

    from tacit.learning.gpu.reports import Block

SEGMENT = 2048  # reports of one row that one program sums up,
_ENOUGH_SEGMENTS = 256  # or more where that makes more segments than keep a GPU busy
MOST_FEW = 128  # reports: the largest system that one program holds
NARROWEST = 16  # numbers: what units for products take at least


@dataclass(frozen=True, eq=False, slots=True)
class Tasks:
    """Segments of rows: the row of each, where its reports start and end; the rows, and each one's first segment."""

    rows: Tensor
    starts: Tensor
    ends: Tensor
    solved: Tensor
    slot_starts: Tensor
    edges: NDArray[np.int64]  # `slot_starts`, kept here

    @classmethod
    def of(cls, block: Block, chosen: NDArray[np.int64], device: torch.device) -> Tasks:
        """Cut chosen rows of a block, all of which have reports, into segments."""
        starts, counts = np.concatenate([[0], np.cumsum(block.counts)]), block.counts[chosen]
        length = segment_lengths(counts)
        edges = np.concatenate([[0], np.cumsum(-(-counts // length))])
        place = np.repeat(np.arange(len(chosen)), np.diff(edges))
        rows = chosen[place]
        begins = starts[rows] + length[place] * (np.arange(len(rows)) - edges[place])
        ends = np.minimum(begins + length[place], starts[rows + 1])
        arrays = rows.astype(np.int32), begins, ends, chosen.astype(np.int32), edges
        there = [torch.from_numpy(array).to(device) for array in arrays]
        return cls(there[0], there[1], there[2], there[3], there[4], edges)

    def __len__(self) -> int:
        return int(self.edges[-1])

    @property
    def segments(self) -> tuple[Tensor, Tensor, Tensor]:
        """What a program must know of its task."""
        return self.rows, self.starts, self.ends

    def runs(self, most: int) -> Iterator[tuple[slice, slice]]:
        """Go through rows and their tasks in runs of at most so many tasks, but at least one row."""
        first, rows = 0, len(self.edges) - 1
        while first < rows:
            fitting = int(np.searchsorted(self.edges, self.edges[first] + most, side="right")) - 1
            last = max(fitting, first + 1)
            yield slice(first, last), slice(int(self.edges[first]), int(self.edges[last]))
            first = last


@dataclass(frozen=True, eq=False, slots=True)
class Shares:
    """The rows of a block that have reports: all, those solved for their unknowns, for their reports, and not at all.

    A row with fewer reports than unknowns is a smaller system in its reports; those are sorted by what power of two
    they are filled up to. What is too large for that, and not determined in its unknowns either, is left to others.
    """

    every: Tasks
    many: Tasks
    few: tuple[tuple[int, Tasks], ...]
    left: Tensor

    @classmethod
    def of(cls, block: Block, few_below: int, least: int, device: torch.device) -> Shares:
        """Sort the rows of a block; with fewer than `least` reports they are not determined in their unknowns."""
        heard = np.flatnonzero(block.counts)
        counts = block.counts[heard]
        sizes = np.where((counts < few_below) & (counts <= MOST_FEW), filled_up(counts), 0)
        groups = {size: Tasks.of(block, heard[sizes == size], device) for size in np.unique(sizes).tolist() if size}
        many, left = (heard[(sizes == 0) & those] for those in (counts >= least, counts < least))
        return cls(
            Tasks.of(block, heard, device),
            Tasks.of(block, many, device),
            tuple(groups.items()),
            torch.from_numpy(left).to(device),
        )


_SHARES: WeakKeyDictionary[Block, tuple[tuple[int, int], Shares]] = WeakKeyDictionary()


def shares_of(block: Block, few_below: int, least: int, device: torch.device) -> Shares:
    """Return how a block's rows are shared out, see `Shares.of`; it is the same in every sweep of a fit."""
    known = _SHARES.get(block)
    if known is None or known[0] != (few_below, least):
        known = _SHARES[block] = (few_below, least), Shares.of(block, few_below, least, device)
    return known[1]


def segment_lengths(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many reports of a row with so many make a segment: more for the longest rows, to a limit."""
    length: NDArray[np.int64] = np.clip(-(-counts // _ENOUGH_SEGMENTS), SEGMENT, LONGEST_SEGMENT)
    return length


def filled_up(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the powers of two that systems of such sizes are filled up to."""
    filled: NDArray[np.int64] = 1 << np.ceil(np.log2(np.maximum(sizes, NARROWEST))).astype(np.int64)
    return filled


def room_for_row(reports: int, coordinates: int) -> int:
    """Return how many bytes the equations of a row with so many reports take at most, however it is solved."""
    counts, width = np.array([max(reports, 1)]), int(filled_up(np.array([coordinates]))[0])
    segments = int((-(-counts // segment_lengths(counts)))[0])
    return segments * room_for_slot(width, np.dtype(np.float64).itemsize)


def room_for_slot(width: int, itemsize: int) -> int:
    """Return how many bytes the equations of one segment take: a matrix, inverses of its blocks, and two columns."""
    return itemsize * width * (width + NARROWEST + 2)


def room_for_notes(rows: int, reports: int) -> int:
    """Return how many bytes the tasks of rows with so many reports altogether take at most: all, and all but a few."""
    return 64 * (rows + reports // SEGMENT)
