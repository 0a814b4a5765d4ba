"""Posterior sweeps and sums of rows on a cluster, from rows on the driver that are sent whole."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.kernels import padded, posterior_sweep, row_sums
from tacit.learning.spark.broadcast import Table
from tacit.learning.spark.session import failures_in_one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyspark import Broadcast, SparkContext

    from tacit.learning.engine import PosteriorProblem
    from tacit.learning.spark.chunks import Chunk
    from tacit.learning.spark.layout import Layout

    Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False, slots=True)
class SparkPosteriorSweeper:
    """Reports on a cluster, and how they are read."""

    layout: Layout
    table: Floats
    weights: Floats
    threads: int

    def sweep(self, problem: PosteriorProblem, *, by_item: bool) -> float:
        """Solve the rows of users or items."""
        side, squares = self.layout.side(by_item=by_item), 0.0
        held = Table(problem.fixed), replace(problem, fixed=problem.fixed[:0])
        with _sent(self.layout.context, held) as sent:
            for here, rows, variances, left in side.each(_Posterior(sent, self.table, self.weights, self.threads)):
                problem.solved[here, : rows.shape[1]], problem.variances[here] = rows, variances
                squares += left
        return squares


def sums_of_rows(layout: Layout, dense: Floats, threads: int, *, by_item: bool) -> Floats:
    """Sum, for every user or item, the rows of `dense` of those on the other side it has reports with."""
    side = layout.side(by_item=by_item)
    with _sent(layout.context, dense) as sent:
        return np.concatenate(side.each(_Sums(sent, threads)))


@dataclass(frozen=True, eq=False, slots=True)
class _Posterior:
    """Finds the posterior of a chunk's rows, in a worker."""

    sent: Broadcast[tuple[Table, PosteriorProblem]]
    table: Floats
    weights: Floats
    threads: int

    def __call__(self, chunk: Chunk) -> tuple[slice, Floats, Floats, float]:
        """Return where the rows are, their means and variances, and the squares they leave."""
        fixed, problem = self.sent.value
        solved = padded(problem.solved[chunk.here])
        variances = np.empty((len(solved), len(problem.precision)), dtype=np.float32)
        left = posterior_sweep(
            chunk.rows,
            self.table,
            self.weights,
            fixed.rows,
            solved,
            variances,
            coordinates=problem.coordinates,
            precision=problem.precision,
            centres=problem.centres[chunk.here],
            fixed_variances=problem.fixed_variances,
            threads=self.threads,
        )
        return chunk.here, solved[:, : len(problem.precision)].copy(), variances, left


@dataclass(frozen=True, eq=False, slots=True)
class _Sums:
    """Sums up rows for a chunk, in a worker."""

    sent: Broadcast[Floats]
    threads: int

    def __call__(self, chunk: Chunk) -> Floats:
        """Return one sum for each row."""
        return row_sums(chunk.rows, self.sent.value, self.threads)


@contextmanager
def _sent(context: SparkContext, value: Any) -> Iterator[Broadcast[Any]]:  # noqa: ANN401 - whatever workers need
    """Send something to the workers for a while."""
    with failures_in_one_line():
        sent = context.broadcast(value)
    try:
        yield sent
    finally:
        with suppress(Exception):  # what went wrong before says more
            sent.destroy()
