"""Posterior sweeps and sums of rows on a cluster, from rows that the driver keeps.

Where they are not too large, they are sent whole to every worker; else each chunk gets those it needs (`relay`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.learning.kernels import padded, posterior_sweep, row_sums
from tacit.learning.spark.broadcast import Table, sent_to_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray
    from pyspark import Broadcast

    from tacit.learning.engine import PosteriorProblem
    from tacit.learning.matrix import Rows
    from tacit.learning.spark.chunks import Chunk
    from tacit.learning.spark.layout import Layout
    from tacit.learning.spark.relay import Relay

    Floats = NDArray[np.float32]
    Route = Callable[[int], Relay | None]  # for so many bytes; none where they are sent whole
    Posterior = tuple[Floats, Floats, float]  # means, variances, and the squares that are left


@dataclass(frozen=True, eq=False, slots=True)
class SparkPosteriorSweeper:
    """Reports on a cluster, how they are read, and how rows get there."""

    layout: Layout
    route: Route
    table: Floats
    weights: Floats
    threads: int

    def sweep(self, problem: PosteriorProblem, *, by_item: bool) -> float:
        """Solve the rows of users or items."""
        squares = 0.0
        for here, (rows, variances, left) in self._solved(problem, by_item=by_item):
            problem.solved[here, : rows.shape[1]], problem.variances[here] = rows, variances
            squares += left
        return squares

    def _solved(self, problem: PosteriorProblem, *, by_item: bool) -> Iterable[tuple[slice, Posterior]]:
        held = problem.fixed[:, : problem.coordinates], problem.fixed_variances
        own = problem.solved[:, : problem.coordinates], problem.centres
        solving = _Solving(self.table, self.weights, problem.coordinates, problem.precision, self.threads)
        relay = self.route(sum(array.nbytes for array in (*held, *own)))
        if relay is None:
            return self._solved_everywhere(problem, solving, by_item=by_item)
        return relay.each(solving.relayed, np.hstack(held), np.hstack(own), by_item=by_item)

    def _solved_everywhere(
        self, problem: PosteriorProblem, solving: _Solving, *, by_item: bool
    ) -> list[tuple[slice, Posterior]]:
        small = replace(problem, fixed=problem.fixed[:0], variances=problem.variances[:0])
        with sent_to_workers(self.layout.context, (Table(problem.fixed), small)) as sent:
            return self.layout.side(by_item=by_item).each(_Everywhere(sent, solving))


def sums_of_rows(layout: Layout, route: Route, dense: Floats, threads: int, *, by_item: bool) -> Floats:
    """Sum, for every user or item, the rows of `dense` of those on the other side it has reports with."""
    side, relay = layout.side(by_item=by_item), route(dense.nbytes)
    if relay is None:
        with sent_to_workers(layout.context, dense) as sent:
            return np.concatenate(side.each(_SumsEverywhere(sent, threads)))
    nothing = np.empty((int(side.edges[-1]), 0), dtype=np.float32)
    return np.concatenate([sums for _, sums in relay.each(_Sums(threads), dense, nothing, by_item=by_item)])


@dataclass(frozen=True, eq=False, slots=True)
class _Solving:
    """Finds the posterior of a chunk's rows, in a worker."""

    table: Floats
    weights: Floats
    coordinates: int
    precision: Floats
    threads: int

    def relayed(self, reports: Rows, held: Floats, own: Floats) -> Posterior:
        """Solve from the rows that the chunk needs: held ones with their variances, its own with their centres."""
        fixed, fixed_variances = np.hsplit(held, [self.coordinates])
        start, centres = np.hsplit(own, [self.coordinates])
        return self.solve(reports, padded(fixed), np.ascontiguousarray(fixed_variances), start, centres)

    def solve(self, reports: Rows, fixed: Floats, fixed_variances: Floats, start: Floats, centres: Floats) -> Posterior:
        solved, free = padded(start), len(self.precision)
        variances = np.empty((len(solved), free), dtype=np.float32)
        left = posterior_sweep(
            reports,
            self.table,
            self.weights,
            fixed,
            solved,
            variances,
            coordinates=self.coordinates,
            precision=self.precision,
            centres=np.ascontiguousarray(centres),
            fixed_variances=fixed_variances,
            threads=self.threads,
        )
        return solved[:, :free].copy(), variances, left


@dataclass(frozen=True, eq=False, slots=True)
class _Everywhere:
    """Solves the rows of a chunk from rows that every worker has."""

    sent: Broadcast[tuple[Table, PosteriorProblem]]
    solving: _Solving

    def __call__(self, chunk: Chunk) -> tuple[slice, Posterior]:
        fixed, problem = self.sent.value
        start, centres = problem.solved[chunk.here, : problem.coordinates], problem.centres[chunk.here]
        return chunk.here, self.solving.solve(chunk.rows, fixed.rows, problem.fixed_variances, start, centres)


@dataclass(frozen=True, eq=False, slots=True)
class _Sums:
    """Sums up the rows that a chunk needs, in a worker."""

    threads: int

    def __call__(self, reports: Rows, dense: Floats, _: Floats) -> Floats:
        return row_sums(reports, dense, self.threads)


@dataclass(frozen=True, eq=False, slots=True)
class _SumsEverywhere:
    """Sums up rows that every worker has."""

    sent: Broadcast[Floats]
    threads: int

    def __call__(self, chunk: Chunk) -> Floats:
        return row_sums(chunk.rows, self.sent.value, self.threads)
