"""The kernels in NumPy, row by row as a textbook has them and in double precision: fallback, and oracle in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.mixture import MixtureStatistics, NoiseMixture, entry_weights, log_densities, responsibilities

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.matrix import Rows

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]

# Singular values below this share of the largest count as zero: single-precision factors carry no more than that.
_LEAST_SINGULAR = 1e-5
_USERS_AT_ONCE = 256


def half_sweep(  # noqa: PLR0913, PLR0917 - arrays in, arrays out
    rows: Rows,
    table: Floats | None,
    fixed: Floats,
    solved: Floats,
    coordinates: int,
    ridge: Floats,
    mixture: NoiseMixture,
) -> tuple[int, MixtureStatistics]:
    """Solve every row's weighted least squares; see `tacit.learning.kernels.half_sweep`."""
    singular, likelihood = 0, 0.0
    sums = np.zeros((2, len(mixture.weights)))
    for row in np.flatnonzero(rows.counts()):
        here = slice(rows.starts[row], rows.starts[row + 1])
        values = rows.values[here] if table is None else table[rows.values[here]]
        other = fixed[rows.columns[here], :coordinates].astype(np.float64)
        own = solved[row, :coordinates].astype(np.float64)
        own[: len(ridge)], rank = solve_row(values.astype(np.float64), other, own, ridge, mixture)
        solved[row, : len(ridge)] = own[: len(ridge)]
        residuals = values - other @ own
        shares = responsibilities(mixture, residuals)
        likelihood += log_densities(mixture, residuals).sum()
        sums += shares.sum(axis=0), np.square(residuals) @ shares
        singular += rank < len(ridge)
    return singular, MixtureStatistics(float(likelihood), sums[0], sums[1])


def solve_row(
    values: Doubles, other: Doubles, own: Doubles, ridge: Floats, mixture: NoiseMixture
) -> tuple[Doubles, int]:
    """Return a row's new free coordinates (Eq. 10) and the rank of its equations."""
    free = len(ridge)
    roots = np.sqrt(entry_weights(mixture, values - other @ own))
    targets = roots * (values - other[:, free:] @ own[free:])
    design = roots[:, None] * other[:, :free]
    if np.any(ridge > 0):
        design = np.vstack([design, np.diag(np.sqrt(ridge))])
        targets = np.concatenate([targets, np.zeros(free)])
    if not (np.isfinite(targets).all() and np.isfinite(design).all()):
        return np.full(free, np.nan), free
    solution, _, rank, _ = np.linalg.lstsq(design, targets, rcond=_LEAST_SINGULAR)
    return solution.astype(np.float64), int(rank)


def posterior_sweep(  # noqa: PLR0913, PLR0917 - as above
    rows: Rows,
    table: Floats | None,
    weights: Floats,
    fixed: Floats,
    solved: Floats,
    variances: Floats,
    coordinates: int,
    precision: Floats,
    centres: Floats | None,
    fixed_variances: Floats | None,
) -> float:
    """Find every row's posterior; see `tacit.learning.kernels.posterior_sweep`."""
    free, squares = len(precision), 0.0
    for row in range(len(rows)):
        here = slice(rows.starts[row], rows.starts[row + 1])
        values, columns = rows.values[here], rows.columns[here]
        noise = weights[np.zeros(len(values), dtype=np.intp) if table is None else values].astype(np.float64)
        targets = (values if table is None else table[values]).astype(np.float64)
        other = fixed[columns, :coordinates].astype(np.float64)
        targets -= other[:, free:] @ solved[row, free:coordinates]
        design, diagonal = other[:, :free], precision.astype(np.float64)
        right = design.T @ (noise * targets) + (0 if centres is None else diagonal * centres[row])
        if fixed_variances is not None:
            diagonal[free - fixed_variances.shape[1] :] += noise @ fixed_variances[columns]
        inverse = np.linalg.inv(design.T @ (noise[:, None] * design) + np.diag(diagonal))
        solved[row, :free], variances[row] = inverse @ right, np.diag(inverse)
        squares += float(noise @ np.square(targets - design @ solved[row, :free]))
    return squares


def sgd_epoch(  # noqa: PLR0913, PLR0917 - as above
    starts: NDArray[np.int64],
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    values: NDArray[Any],
    table: Floats | None,
    user_factors: Floats,
    item_factors: Floats,
    rates: Floats,
    side: int,
) -> float:
    """Take the gradient steps of one epoch, block by block along the diagonals."""
    user_keep, user_step, item_keep, item_step = rates
    squares = 0.0
    for block in ((group, (group + diagonal) % side) for diagonal in range(side) for group in range(side)):
        place = block[0] * side + block[1]
        for report in range(starts[place], starts[place + 1]):
            user, item = user_factors[users[report]].copy(), item_factors[items[report]].copy()
            value = values[report] if table is None else table[values[report]]
            residual = np.float32(value - user @ item)
            user_factors[users[report]] = user * user_keep + residual * user_step * item
            item_factors[items[report]] = item * item_keep + residual * item_step * user
            squares += float(residual) ** 2
    return squares


def top_n(
    users: Floats, items: Floats, rated: Rows | None, found_items: NDArray[np.int32], found_scores: Floats
) -> None:
    """Fill the lists of the best items, some users at a time."""
    n = min(found_items.shape[1], len(items))
    for first in range(0, len(users), _USERS_AT_ONCE):
        block = slice(first, min(first + _USERS_AT_ONCE, len(users)))
        with np.errstate(invalid="ignore"):  # some builds of BLAS raise the flag without need
            scores = users[block] @ items.T
        if rated is not None:
            part = rated.part(block.start, block.stop)
            scores[np.repeat(np.arange(len(part)), part.counts()), part.columns] = -np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, :n]
        found_scores[block, :n] = np.take_along_axis(scores, best, axis=1)
        found_items[block, :n] = np.where(np.isneginf(found_scores[block, :n]), -1, best)


def row_sums(rows: Rows, dense: Floats, sums: Floats) -> None:
    """Sum the rows of a dense matrix that every sparse row names."""
    for row in range(len(rows)):
        dense[rows.columns[rows.starts[row] : rows.starts[row + 1]]].sum(axis=0, dtype=np.float64, out=sums[row])
