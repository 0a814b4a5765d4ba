"""The broadcast plan: factors live on the driver, and every sweep sends a copy to the workers.

Factors of both sides are sent whole. Between two half-sweeps one side has changed, so each half-sweep sends one side
and finds the other where the half-sweep before left it. No half-sweep depends on another but through the factors on
the driver: whatever is lost in the middle of one is computed again from the chunks.
"""

from __future__ import annotations

import weakref
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.factors import relative_change
from tacit.learning.kernels import half_sweep, padded
from tacit.learning.mixture import MixtureStatistics
from tacit.learning.spark.failures import failures_in_one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyspark import Broadcast, SparkContext

    from tacit.learning.factors import FactorPair, Ridge
    from tacit.learning.mixture import NoiseMixture
    from tacit.learning.spark.chunks import Chunk
    from tacit.learning.spark.layout import Layout

    Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """Rows that are sent to workers; there they lie as the kernels want them."""

    rows: Floats

    def __reduce__(self) -> tuple[Any, ...]:
        """Lay the rows out once in every worker, when they come in."""
        return _laid_out, (self.rows,)


def _laid_out(rows: Floats) -> Table:
    return Table(padded(rows))


@contextmanager
def sent_to_workers(context: SparkContext, value: Any) -> Iterator[Broadcast[Any]]:  # noqa: ANN401 - whatever they need
    """Send something to the workers for a while."""
    with failures_in_one_line():
        sent = context.broadcast(value)
    try:
        yield sent
    finally:
        with suppress(Exception):  # what went wrong before says more
            sent.destroy()


class BroadcastFactors:
    """Factors on the driver, and the copies of them that workers have.

    Copies have the offset last, as the side that is held wants it.
    """

    def __init__(self, context: SparkContext, pair: FactorPair) -> None:
        """Send nothing yet."""
        self._context, self._pair = context, pair
        self._copies: dict[bool, Broadcast[Table]] = {}  # of items, of users
        weakref.finalize(self, _forget, self._copies).atexit = False  # Spark ends by itself then

    def home(self) -> FactorPair:
        """Return the factors, which are here already."""
        return self._pair

    def take(self, pair: FactorPair) -> None:
        """Go on from these instead."""
        self._pair.take(pair)
        _forget(self._copies)

    def copy(self, *, of_items: bool) -> Broadcast[Table]:
        """Send the rows of a side, unless workers can have them already."""
        if of_items not in self._copies:
            rows = self._pair.items if of_items else _exchanged(self._pair.users, self._pair)
            with failures_in_one_line():
                self._copies[of_items] = self._context.broadcast(Table(rows))
        return self._copies[of_items]

    def put(self, solved: list[Solved], *, of_items: bool) -> None:
        """Put what was solved for in its place; copies of it are out of date."""
        rows, free = (self._pair.items if of_items else self._pair.users), self._pair.rank
        for part in solved:
            rows[part.here, :free] = part.rows[:, :free]
            if self._pair.offsets:
                rows[part.here, free + of_items] = part.rows[:, free]
        with failures_in_one_line():
            self._copies.pop(of_items).destroy()


def _forget(copies: dict[bool, Broadcast[Table]]) -> None:
    """Let the workers forget their copies."""
    while copies:
        with suppress(Exception):  # a session that has ended has forgotten them
            copies.popitem()[1].destroy()


def _exchanged(rows: Floats, pair: FactorPair) -> Floats:
    """Return rows with offset and one in each other's place."""
    if not pair.offsets:
        return rows
    columns = np.arange(rows.shape[1])
    columns[[pair.rank, pair.rank + 1]] = columns[[pair.rank + 1, pair.rank]]
    return rows[:, columns]


@dataclass(frozen=True, eq=False, slots=True)
class Solved:
    """New rows of a chunk, and what the mixture's update needs of its reports."""

    here: slice
    rows: Floats
    sums: MixtureStatistics


@dataclass(frozen=True, eq=False, slots=True)
class HalfSweep:
    """Solves the rows of a chunk, in a worker."""

    own: Broadcast[Table]
    fixed: Broadcast[Table]
    pair: tuple[int, bool]  # rank, and whether there are offsets
    table: Floats
    ridge: Floats
    mixture: NoiseMixture
    statistics: bool
    threads: int

    def __call__(self, chunk: Chunk) -> Solved:
        """Return the new rows."""
        solved = padded(self.own.value.rows[chunk.here])
        rank, offsets = self.pair
        if offsets:
            solved[:, [rank, rank + 1]] = solved[:, [rank + 1, rank]]
        found = half_sweep(
            chunk.rows,
            self.table,
            self.fixed.value.rows,
            solved,
            coordinates=rank + 2 * offsets,
            ridge=self.ridge,
            mixture=self.mixture,
            statistics=self.statistics,
            threads=self.threads,
        )
        return Solved(chunk.here, solved[:, : len(self.ridge)].copy(), found.sums)


@dataclass(frozen=True, eq=False, slots=True)
class BroadcastSweeper:
    """What both half-sweeps of a fit share: the reports, less a mean, the factors and the ridge."""

    layout: Layout
    factors: BroadcastFactors
    mean: float
    ridge: Ridge
    threads: int

    def users(self, mixture: NoiseMixture) -> float:
        """Solve for the users' factors, the items' held (Eq. 10)."""
        before = self.factors.home().users.copy()
        self._solve(mixture, by_item=False)
        return relative_change(before, self.factors.home().users)

    def items(self, mixture: NoiseMixture) -> MixtureStatistics:
        """Solve for the items' factors, the users' held (Eq. 10), and sum up what Eq. 9 needs."""
        return total([part.sums for part in self._solve(mixture, by_item=True)])

    def penalty(self) -> float:
        """Return what the ridge adds to the objective of least squares."""
        return self.ridge.penalty(self.factors.home())

    def _solve(self, mixture: NoiseMixture, *, by_item: bool) -> list[Solved]:
        pair = self.factors.home()
        work = HalfSweep(
            own=self.factors.copy(of_items=by_item),
            fixed=self.factors.copy(of_items=not by_item),
            pair=(pair.rank, pair.offsets),
            table=self.layout.alphabet.symbol_values - np.float32(self.mean),
            ridge=self.ridge.of(pair),
            mixture=mixture,
            statistics=by_item,
            threads=self.threads,
        )
        solved = self.layout.side(by_item=by_item).each(work)
        self.factors.put(solved, of_items=by_item)
        return solved


def total(parts: list[MixtureStatistics]) -> MixtureStatistics:
    """Add up sums in their order, so that it does not matter who did them."""
    return MixtureStatistics(
        sum(part.log_likelihood for part in parts),
        np.sum([part.responsibility for part in parts], axis=0),
        np.sum([part.square for part in parts], axis=0),
    )
