"""Models that need no iteration of their own: the mean, offsets, and the truncated SVD."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ModelError
from tacit.learning.factors import FactorPair, Ridge, random_pair
from tacit.learning.matrix import ReportMatrix
from tacit.learning.mixture import NoiseMixture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.engine import Engine
    from tacit.learning.options import MfAlsOptions, MogMfOptions

    Doubles = NDArray[np.float64]

_OFFSET_SWEEPS = 10
_REPORTS_AT_ONCE = 1 << 14


def starting_pair(engine: Engine, options: MogMfOptions | MfAlsOptions, rng: np.random.Generator) -> FactorPair:
    """Start at random, or from an SVD, which only this machine's own matrix has."""
    matrix = check_start(engine, options)
    if matrix is None:
        return random_pair(engine.summary, options.rank, offsets=getattr(options, "offsets", False), rng=rng)
    return svd_pair(matrix, options.rank, "item", rng)


def check_start(engine: Engine, options: MogMfOptions | MfAlsOptions) -> ReportMatrix | None:
    """Return the matrix that a start needs, None if it needs none; refuse an engine that does not have it."""
    return None if options.start == "random" else _matrix_of(engine, f"{options.model} with start={options.start}")


def _matrix_of(engine: Engine, what: str) -> ReportMatrix:
    """Return the matrix of an engine that has it in memory, or refuse what needs it."""
    matrix = engine.summary
    if not isinstance(matrix, ReportMatrix):
        raise ModelError(f"{what} needs all reports on one machine, which the engine {engine.name} does not; use local")
    return matrix


def fit_offsets(engine: Engine, regularisation: float) -> tuple[FactorPair, float, float]:
    """Fit a mean and offsets alone by alternating ridge regression; return offsets, mean and sum of squares left.

    The mean is free, so at the optimum the offsets of each side sum to zero; keeping them so on the way makes a few
    sweeps enough.
    """
    people, things = engine.summary.shape
    pair = FactorPair.of(np.zeros((people, 0)), np.zeros((things, 0)), offsets=True)
    said, heard = engine.summary.user_counts > 0, engine.summary.item_counts > 0
    mean, left = engine.summary.mean, 0.0
    for _ in range(_OFFSET_SWEEPS):
        sweeper = engine.sweeper(pair, mean, Ridge(0.0, regularisation))
        sweeper.users(NoiseMixture.single())
        left = float(sweeper.items(NoiseMixture.single()).square[0])
        pair = sweeper.factors.home()
        mean += _centre(pair.users[:, 0], said) + _centre(pair.items[:, 1], heard)
    return pair, mean, left


def _centre(offsets: NDArray[np.float32], present: NDArray[np.bool_]) -> float:
    """Make the offsets of those present sum to zero in place; return what was taken out of each."""
    level = float(offsets[present].mean(dtype=np.float64))
    offsets[present] -= np.float32(level)
    return level


def squared_error(matrix: ReportMatrix, pair: FactorPair) -> float:
    """Return the sum of squared residuals of plain factors over all reports."""
    users = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), matrix.by_user.counts())
    total = 0.0
    for start in range(0, matrix.reports, _REPORTS_AT_ONCE):
        block = slice(start, start + _REPORTS_AT_ONCE)
        products = np.einsum("rf,rf->r", pair.users[users[block]], pair.items[matrix.by_user.columns[block]])
        residuals = matrix.values_of(matrix.by_user.values[block]) - products
        total += float(np.square(residuals, dtype=np.float64).sum())
    return total


def item_means(matrix: ReportMatrix, fill: str) -> Doubles:
    """Return what fills the gaps of every item's column: its mean report, or the mean of all."""
    means = np.full(matrix.shape[1], matrix.mean)
    if fill == "item":
        rated = np.flatnonzero(matrix.by_item.counts())
        sums = np.add.reduceat(matrix.values_of(matrix.by_item), matrix.by_item.starts[rated], dtype=np.float64)
        means[rated] = sums / matrix.by_item.counts()[rated]
    return means


def svd_pair(matrix: ReportMatrix, rank: int, fill: str, rng: np.random.Generator) -> FactorPair:
    """Decompose the filled matrix, which is sparse plus a row repeated, and share the singular values out evenly."""
    people, things = matrix.shape
    most = min(people, things)
    if rank > most:
        raise ModelError(f"rank is {rank}, too much for an SVD; {people} users and {things} items allow {most} at most")
    filled = _Filled(matrix, item_means(matrix, fill))
    left, singular, right = filled.truncated(rank, rng)
    roots = np.sqrt(singular)
    return FactorPair.of(left * roots, right.T * roots, offsets=False)


class _Filled:
    """The matrix with its gaps filled, never written out: gaps + ones x fill."""

    def __init__(self, matrix: ReportMatrix, fill: Doubles) -> None:
        from scipy.sparse import csr_array  # noqa: PLC0415 - a slow import

        rows = matrix.by_user
        known = matrix.values_of(rows) - fill[rows.columns].astype(np.float32)
        self.known = csr_array((known, rows.columns, rows.starts), shape=matrix.shape)
        self.fill = fill

    def truncated(self, rank: int, rng: np.random.Generator) -> tuple[Doubles, Doubles, Doubles]:
        from scipy.sparse.linalg import LinearOperator, svds  # noqa: PLC0415 - a slow import

        people, things = self.known.shape
        if not self.known.data.any() and not self.fill.any():
            return np.zeros((people, rank)), np.zeros(rank), np.zeros((rank, things))
        if rank >= min(people, things):
            return _leading(np.linalg.svd(self.known.toarray() + self.fill, full_matrices=False), rank)
        operator = LinearOperator(
            (people, things), matvec=self._times, rmatvec=self._transposed_times, dtype=np.float64
        )
        start = rng.standard_normal(min(people, things))
        return _leading(svds(operator, k=rank, v0=start, solver="arpack"), rank)

    def _times(self, vector: Any) -> Doubles:  # noqa: ANN401 - called by SciPy
        flat = np.asarray(vector, dtype=np.float64).ravel()
        return np.asarray(self.known @ flat + self.fill @ flat)

    def _transposed_times(self, vector: Any) -> Doubles:  # noqa: ANN401 - as above
        flat = np.asarray(vector, dtype=np.float64).ravel()
        return np.asarray(self.known.T @ flat + self.fill * flat.sum())


def _leading(parts: Any, rank: int) -> tuple[Doubles, Doubles, Doubles]:  # noqa: ANN401 - SciPy's and NumPy's tuples differ
    """Put the largest singular values first, and give every pair of vectors a fixed sign."""
    left, singular, right = parts
    order = np.argsort(-singular, kind="stable")[:rank]
    left, right = left[:, order], right[order]
    signs = np.where(right.sum(axis=1) < 0, -1.0, 1.0)
    return left * signs, singular[order], right * signs[:, None]
