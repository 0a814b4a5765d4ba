"""The exchange of rows between chunks: which chunk needs whose, sending them, and solving with what has come.

A chunk needs the rows of the other side that its reports name, and no others. Which these are is found once; in every
half-sweep they travel from chunk to chunk. Each chunk has a partition of its own here, with the chunk's number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.factors import squares
from tacit.learning.kernels import half_sweep, padded
from tacit.learning.matrix import Rows
from tacit.learning.spark.workers import settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray
    from pyspark import RDD

    from tacit.learning.mixture import MixtureStatistics, NoiseMixture
    from tacit.learning.spark.chunks import Chunk
    from tacit.learning.spark.layout import SideLayout

    Floats = NDArray[np.float32]
    Places = NDArray[np.int32]


@dataclass(frozen=True, eq=False, slots=True)
class Home:
    """The reports of a chunk; columns are places among the rows it needs, in rising order of their numbers."""

    rows: Rows


@dataclass(frozen=True, eq=False, slots=True)
class Links:
    """For every chunk of the other side that needs any, the places of the rows it needs from this one."""

    needed: tuple[tuple[int, Places], ...]


@dataclass(frozen=True, eq=False, slots=True)
class Sent:
    """Rows on their way from one chunk to another."""

    sender: int
    rows: Floats


@dataclass(frozen=True, eq=False, slots=True)
class Seat:
    """The factors of a chunk's rows, without padding, an offset before the one; and how it came to them."""

    rows: Floats
    sums: SeatSums


@dataclass(frozen=True, eq=False, slots=True)
class SeatSums:
    """What a chunk adds to sums over all rows: squares of factors, of offsets, of all before and of what changed."""

    factors: float
    offsets: float
    before: float = 0.0
    change: float = 0.0
    statistics: MixtureStatistics | None = None

    @classmethod
    def of(cls, rows: Floats, rank: int, *, offsets: bool) -> SeatSums:
        """Sum up rows that nothing was solved for yet."""
        return cls(squares(rows[:, :rank]), squares(rows[:, rank]) if offsets else 0.0)


def homes_of(side: SideLayout) -> RDD[tuple[int, Home]]:
    """Give every chunk a partition, and its columns new numbers."""
    placed = side.chunks.map(lambda chunk: (chunk.number, chunk.rows)).partitionBy(len(side))
    return placed.mapValues(_home_of)


def links_to(side: SideLayout, other: SideLayout) -> RDD[tuple[int, Links]]:
    """Find out which rows of the other side's chunks are needed by chunks of this one."""
    edges = other.edges
    needs = side.chunks.flatMap(lambda chunk: _needs(chunk, edges)).partitionBy(len(other))
    return needs.mapPartitionsWithIndex(_linked, preservesPartitioning=True)


def sent(links: RDD[tuple[int, Links]], rows: RDD[tuple[int, Any]], chunks: int) -> RDD[tuple[int, Sent]]:
    """Send rows to the so many chunks of the other side; links and rows of a chunk are in one place already."""
    return links.union(rows).mapPartitions(_sending).partitionBy(chunks)


def _home_of(rows: Rows) -> Home:
    _, places = np.unique(rows.columns, return_inverse=True)
    return Home(Rows(rows.starts, places.astype(np.int32), rows.values))


def _needs(chunk: Chunk, edges: NDArray[np.int64]) -> Iterator[tuple[int, tuple[int, Places]]]:
    needed = np.unique(chunk.rows.columns)
    ends = np.searchsorted(needed, edges)
    for sender in np.flatnonzero(np.diff(ends)).tolist():
        places = needed[ends[sender] : ends[sender + 1]] - np.int32(edges[sender])
        yield sender, (chunk.number, places.astype(np.int32))


def _linked(sender: int, needs: Iterable[tuple[int, tuple[int, Places]]]) -> Iterator[tuple[int, Links]]:
    yield sender, Links(tuple(sorted((need for _, need in needs), key=_number)))


def _number(need: tuple[int, Any]) -> int:
    return need[0]


def _sending(records: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Sent]]:
    sender, found = by_kind(records)
    (links,), ((own,),) = found.pop(Links), found.values()
    for receiver, places in links.needed:
        yield receiver, Sent(sender, own.rows[places])


def by_kind(records: Iterable[tuple[int, Any]]) -> tuple[int, dict[type, list[Any]]]:
    """Sort what is in a partition, which is all of one chunk, by what it is; return also the chunk's number."""
    settle()
    found: dict[type, list[Any]] = {}
    numbers = set()
    for number, record in records:
        numbers.add(number)
        found.setdefault(type(record), []).append(record)
    (chunk,) = numbers
    return chunk, found


@dataclass(frozen=True, eq=False, slots=True)
class Solving:
    """Solves the rows of a chunk, in a worker."""

    rank: int
    offsets: bool
    table: Floats
    ridge: Floats
    mixture: NoiseMixture
    statistics: bool
    threads: int

    def __call__(self, records: Iterable[tuple[int, Seat | Sent | Home]]) -> Iterator[tuple[int, Seat]]:
        """Return the new factors of a chunk, given the old ones, its reports and the rows that came in."""
        chunk, found = by_kind(records)
        (home,), (seat,) = found[Home], found[Seat]
        yield chunk, self._solved(home.rows, seat.rows, self._held(found[Sent]))

    def _held(self, came: list[Sent]) -> Floats:
        """Put rows together in rising order of their numbers; the offset is last in a row that is held."""
        came.sort(key=lambda one: one.sender)
        held = padded(np.concatenate([one.rows for one in came]))
        if self.offsets:
            held[:, [self.rank, self.rank + 1]] = held[:, [self.rank + 1, self.rank]]
        return held

    def _solved(self, reports: Rows, before: Floats, held: Floats) -> Seat:
        solved = padded(before)
        found = half_sweep(
            reports,
            self.table,
            held,
            solved,
            coordinates=before.shape[1],
            ridge=self.ridge,
            mixture=self.mixture,
            statistics=self.statistics,
            threads=self.threads,
        )
        after = solved[:, : before.shape[1]].copy()
        own = SeatSums.of(after, self.rank, offsets=self.offsets)
        return Seat(after, replace(own, before=squares(before), change=squares(before - after), statistics=found.sums))
