"""Chunks: consecutive rows of one side, small enough to travel, cut by counts alone.

A chunk does not know which machine or partition it is in, and rows are solved independently of each other. What sums
over reports is summed chunk by chunk and then in the order of chunks. So no result depends on how many machines there
are, which of them did what, or which of them were lost on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.matrix import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Cells = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[Any]]  # rows, columns and values of reports

MOST_REPORTS = 1 << 20
MOST_ROWS = 1 << 17


@dataclass(frozen=True, eq=False, slots=True)
class Chunk:
    """The rows from `first` on of one side, with their reports; columns are numbers of the other side."""

    number: int
    first: int
    rows: Rows

    @property
    def last(self) -> int:
        """The number of the row behind the last one."""
        return self.first + len(self.rows)

    @property
    def here(self) -> slice:
        """Where the chunk's rows are among all of the side."""
        return slice(self.first, self.last)


def cut(counts: NDArray[np.int64], reports: int = MOST_REPORTS, rows: int = MOST_ROWS) -> NDArray[np.int64]:
    """Return where chunks begin, and the end: each ends as soon as it has so many reports, or so many rows."""
    ends, edges = np.cumsum(counts), [0]
    while edges[-1] < len(counts):
        first = edges[-1]
        before = int(ends[first - 1]) if first else 0
        full = int(np.searchsorted(ends, before + reports)) + 1
        edges.append(min(full, first + rows, len(counts)))
    return np.array(edges, dtype=np.int64)


def waves(partitions: range, most: int) -> Iterator[range]:
    """Cut a range into such of at most so many."""
    for first in partitions[::most]:
        yield range(first, min(first + most, partitions.stop))


def parted(cells: Cells, edges: NDArray[np.int64]) -> Iterator[tuple[int, Cells]]:
    """Part reports by the chunk their row is in."""
    chunk_of = np.searchsorted(edges, cells[0], side="right") - 1
    if len(edges) <= np.iinfo(np.int16).max:
        chunk_of = chunk_of.astype(np.int16)  # which NumPy sorts in linear time
    order = np.argsort(chunk_of, kind="stable")
    chunks, starts = np.unique(chunk_of[order], return_index=True)
    for chunk, place in zip(chunks.tolist(), np.split(order, starts)[1:], strict=True):
        yield chunk, (cells[0][place], cells[1][place], cells[2][place])


def assembled(parts: Iterable[tuple[int, Cells]], edges: NDArray[np.int64]) -> Iterator[Chunk]:
    """Put reports that were parted together again, to whole chunks in rising order."""
    by_chunk: dict[int, list[Cells]] = {}
    for chunk, cells in parts:
        by_chunk.setdefault(chunk, []).append(cells)
    for chunk in sorted(by_chunk):
        first, last = int(edges[chunk]), int(edges[chunk + 1])
        yield Chunk(chunk, first, _sorted_rows(by_chunk.pop(chunk), first, last))


def first_repeat(chunk: Chunk) -> tuple[int, int] | None:
    """Return row and column of the first pair that is there twice, if there is one."""
    starts, columns = chunk.rows.starts, chunk.rows.columns
    again = columns[1:] == columns[:-1]
    again[starts[(starts > 0) & (starts < len(columns))] - 1] = False  # from one row to the next is no repeat
    if not again.any():
        return None
    at = int(np.argmax(again))
    return chunk.first + int(np.searchsorted(starts, at, side="right")) - 1, int(columns[at])


def _sorted_rows(parts: list[Cells], first: int, last: int) -> Rows:
    """Sort reports by row and column; which rows there are is known beforehand."""
    rows, columns, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    rows -= np.int32(first)
    order = np.argsort(rows.astype(np.int64) << 32 | columns)
    starts = np.zeros(last - first + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=last - first), out=starts[1:])
    return Rows(starts, columns[order], values[order])
