"""The joined plan: factors stay on the cluster, too many to be sent whole, and chunks send each other what they need.

The driver has sums only, and the factors when somebody asks for them. Factors and mixture are those of the broadcast
plan, bit for bit: rows are solved from the same numbers in the same order, and sums added up in the order of chunks.

What a sweep finds depends on what the one before found, and so on back to the start. So that a machine that is lost
costs a few iterations of the rows it had and not all of them, factors are written down now and then.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.factors import FactorPair
from tacit.learning.kernels import padded
from tacit.learning.spark.broadcast import total
from tacit.learning.spark.exchange import Home, Links, Seat, SeatSums, Solving, homes_of, links_to, sent
from tacit.learning.spark.failures import failures_in_one_line
from tacit.learning.spark.layout import kept
from tacit.learning.spark.relay import Relay
from tacit.learning.spark.written import Checkpoints, forget_shuffles, without_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray
    from pyspark import RDD, SparkContext

    from tacit.learning.factors import Ridge
    from tacit.learning.mixture import MixtureStatistics, NoiseMixture
    from tacit.learning.spark.layout import Layout, SideLayout

    Floats = NDArray[np.float32]

# Factors are written down after so many iterations.
CHECKPOINT_EVERY = 4

# Factors come and go in waves of chunks, so that Java never holds all of them in one place.
_WAVE_BYTES = 1 << 28


@dataclass(frozen=True, eq=False, slots=True)
class JoinedSide:
    """What stays the same of one side: reports of its chunks, who needs their rows, and which rows these are."""

    homes: RDD[tuple[int, Home]]
    links: RDD[tuple[int, Links]]
    ends: list[tuple[int, int]]

    @classmethod
    def of(cls, side: SideLayout, other: SideLayout) -> JoinedSide:
        """Find out who needs whose rows, when it is first asked for."""
        return cls(kept(homes_of(side)), kept(links_to(other, side)), list(pairwise(side.edges.tolist())))

    def waves(self, row_bytes: int) -> Iterator[range]:
        """Cut the chunks into waves of bounded size."""
        first = 0
        for chunk, (_, last) in enumerate(self.ends):
            if chunk + 1 == len(self.ends) or (last - self.ends[first][0]) * row_bytes >= _WAVE_BYTES:
                yield range(first, chunk + 1)
                first = chunk + 1

    def send(self, rows: Floats, make: Callable[[Floats], Any], checkpoints: Checkpoints) -> RDD[tuple[int, Any]]:
        """Put the driver's rows where their chunks are; they are written down, so that Java need not remember them."""
        context, waves = self.homes.context, []
        for wave in self.waves(rows[0].nbytes):
            parts = [(chunk, rows[slice(*self.ends[chunk])]) for chunk in wave]
            made = context.parallelize(parts, len(parts)).mapValues(make)
            checkpoints.write(made, made.count)
            waves.append(without_history(made))
        return context.union(waves).partitionBy(len(self.ends))

    def brought(self, chunks: RDD[tuple[int, Any]], row_bytes: int) -> Iterator[tuple[slice, Any]]:
        """Bring what chunks have to the driver: where each one's rows are, and what it has, in their order."""
        context = chunks.context
        for wave in self.waves(row_bytes):
            with failures_in_one_line():
                found = dict(context.runJob(chunks, _listed, list(wave)))
            yield from ((slice(*self.ends[chunk]), found[chunk]) for chunk in wave)


class JoinedPlan:
    """What all fits to the same reports share: who needs whose rows."""

    def __init__(self, layout: Layout, threads: int) -> None:
        """Take a layout, and how many threads a task has."""
        by_user, by_item = layout.by_user, layout.by_item
        self._sides = {False: JoinedSide.of(by_user, by_item), True: JoinedSide.of(by_item, by_user)}
        self._context, self._symbol_values = layout.context, layout.alphabet.symbol_values
        self._threads = threads
        self._alive: weakref.WeakSet[JoinedFactors] = weakref.WeakSet()

    def sweeper(self, pair: FactorPair, mean: float, ridge: Ridge) -> JoinedSweeper:
        """Start alternating sweeps from these factors."""
        factors = JoinedFactors(self._context, self._sides, pair.rank, offsets=pair.offsets)
        self._alive.add(factors)
        factors.take(pair)
        return JoinedSweeper(factors, self._symbol_values - np.float32(mean), ridge, ridge.of(pair), self._threads)

    @property
    def relay(self) -> Relay:
        """The way of rows that stay with the driver."""
        return Relay(self._context, self._sides)

    def close(self) -> None:
        """Let the cluster forget it, and what is left of fits: an error that is told of may hold on to one."""
        for factors in tuple(self._alive):
            factors.forget()
        for side in self._sides.values():
            side.homes.unpersist()
            side.links.unpersist()


class JoinedFactors:
    """Factors on the cluster; a chunk's rows are in the partition with the chunk's number.

    Rows have no padding here, and those of both sides have their offset before the one.
    """

    def __init__(self, context: SparkContext, sides: dict[bool, JoinedSide], rank: int, *, offsets: bool) -> None:
        """Make room for some; there are none yet."""
        self._context, self._sides, self._checkpoints = context, sides, Checkpoints(context)
        self._seats: dict[bool, RDD[tuple[int, Seat]]] = {}
        self._shuffled: list[RDD[Any]] = []
        self.sums: dict[bool, list[SeatSums]] = {}
        self.rank, self.offsets = rank, offsets
        self.forget = weakref.finalize(self, _forget, self._seats, self._shuffled, self._checkpoints)
        self.forget.atexit = False  # when the process ends, Spark forgets what it keeps all by itself

    def home(self) -> FactorPair:
        """Bring the factors here."""
        users, items = (self._brought(by_item=by_item) for by_item in (False, True))
        return FactorPair(users, items, self.rank, self.offsets)

    @failures_in_one_line()
    def take(self, pair: FactorPair) -> None:
        """Go on from these instead; they are written down at once, so that Java need not remember them."""
        for by_item, rows in ((False, pair.users), (True, pair.items)):
            packed = rows[:, : pair.coordinates].copy()
            self._exchange_offsets(packed, exchange=by_item)
            made = self._sides[by_item].send(packed, _Seated(self.rank, self.offsets), self._checkpoints)
            self._shuffled.append(made)
            # The last step lays them out in the way of what is solved for.
            self._replace(made.mapValues(_as_it_is), by_item=by_item, write=False)
        self._checkpoints.forget_older()

    @failures_in_one_line()
    def solve(self, work: Solving, *, by_item: bool, write: bool) -> list[SeatSums]:
        """Solve for one side's rows, the other's held; return what chunks add to sums."""
        own, held = self._sides[by_item], self._sides[not by_item]
        came = sent(held.links, self._seats[not by_item], len(own.ends))
        self._shuffled.append(came)
        # All of a chunk is in one place already but for what came in, which is sent there: nothing else travels.
        gathered: RDD[Any] = self._context.union([self._seats[by_item], came, own.homes])
        self._replace(gathered.mapPartitions(work, preservesPartitioning=True), by_item=by_item, write=write)
        return self.sums[by_item]

    @failures_in_one_line()
    def forget_older(self) -> None:
        """Delete what was written down before the last time and all that was sent, now that nothing depends on it."""
        self._checkpoints.forget_older()
        forget_shuffles(self._shuffled)

    def _replace(self, seats: RDD[tuple[int, Seat]], *, by_item: bool, write: bool) -> None:
        """Compute rows, keep them in the place of those before, and learn their sums."""
        kept(seats)
        learn = seats.mapValues(_sums_of).collect
        found = dict(self._checkpoints.write(seats, learn) if write else learn())
        if by_item in self._seats:
            self._seats[by_item].unpersist()
        self._seats[by_item] = without_history(seats) if write else seats
        self.sums[by_item] = [found[chunk] for chunk in range(len(found))]

    def _brought(self, *, by_item: bool) -> Floats:
        side, coordinates = self._sides[by_item], self.rank + 2 * self.offsets
        rows = padded(np.zeros((side.ends[-1][1], coordinates), dtype=np.float32))
        for here, seat in side.brought(self._seats[by_item], 4 * coordinates):
            rows[here, :coordinates] = seat.rows
        self._exchange_offsets(rows, exchange=by_item)
        return rows

    def _exchange_offsets(self, rows: Floats, *, exchange: bool) -> None:
        if self.offsets and exchange:
            rows[:, [self.rank, self.rank + 1]] = rows[:, [self.rank + 1, self.rank]]


@dataclass(eq=False, slots=True)
class JoinedSweeper:
    """What both half-sweeps of a fit share: what symbols stand for, less a mean, the factors and the ridge."""

    factors: JoinedFactors
    table: Floats
    ridge: Ridge
    ridges: Floats
    threads: int
    iterations: int = 0

    def users(self, mixture: NoiseMixture) -> float:
        """Solve for the users' factors, the items' held (Eq. 10)."""
        sums = self._solve(mixture, by_item=False)
        size = max(sum(part.before for part in sums), np.finfo(np.float64).tiny)
        return float(np.sqrt(sum(part.change for part in sums) / size))

    def items(self, mixture: NoiseMixture) -> MixtureStatistics:
        """Solve for the items' factors, the users' held (Eq. 10), and sum up what Eq. 9 needs."""
        sums = self._solve(mixture, by_item=True)
        if self._due:
            self.factors.forget_older()
        self.iterations += 1
        return total([part.statistics for part in sums if part.statistics is not None])

    def penalty(self) -> float:
        """Return what the ridge adds to the objective of least squares."""
        parts = [part for sums in self.factors.sums.values() for part in sums]
        factors, offsets = sum(part.factors for part in parts), sum(part.offsets for part in parts)
        return self.ridge.factors * factors + self.ridge.offsets * offsets

    @property
    def _due(self) -> bool:
        """Whether the factors of this iteration are to be written down."""
        return self.iterations % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1

    def _solve(self, mixture: NoiseMixture, *, by_item: bool) -> list[SeatSums]:
        work = Solving(
            rank=self.factors.rank,
            offsets=self.factors.offsets,
            table=self.table,
            ridge=self.ridges,
            mixture=mixture,
            statistics=by_item,
            threads=self.threads,
        )
        return self.factors.solve(work, by_item=by_item, write=self._due)


@dataclass(frozen=True, slots=True)
class _Seated:
    """Sums up rows that nothing was solved for yet, in a worker."""

    rank: int
    offsets: bool

    def __call__(self, rows: Floats) -> Seat:
        return Seat(rows, SeatSums.of(rows, self.rank, offsets=self.offsets))


def _as_it_is(seat: Seat) -> Seat:
    return seat


def _sums_of(seat: Seat) -> SeatSums:
    return seat.sums


def _listed(chunks: Iterable[tuple[int, Any]]) -> list[tuple[int, Any]]:
    return list(chunks)


def _forget(seats: dict[bool, RDD[Any]], shuffled: list[RDD[Any]], checkpoints: Checkpoints) -> None:
    """Let the cluster forget factors; one that is gone has."""
    with suppress(Exception):
        for rdd in seats.values():
            rdd.unpersist()
        forget_shuffles(shuffled)
        checkpoints.close()
