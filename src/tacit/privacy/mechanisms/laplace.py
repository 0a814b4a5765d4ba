"""Bounded Laplace, the paper's mechanism, and clamped Laplace, its rival from ISGD."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.privacy.mechanisms.design import Design

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.privacy.prior import Prior
    from tacit.privacy.scale import RatingScale

_FEWEST_CELLS = 64


def cells_per_step(scale: RatingScale) -> int:
    """Return how many output cells one step of the scale is cut into.

    A power of two, so that every rating lies on a cell's edge and every cell's
    middle is a short decimal; enough of them for 64 cells over the width.
    """
    cells = 1
    while cells * (scale.size - 1) < _FEWEST_CELLS:
        cells *= 2
    return cells


def bounded_laplace(scale: RatingScale, epsilon: float, _prior: Prior) -> Design:
    """Design the paper's mechanism: Laplace noise of scale b = width / epsilon, conditioned on the scale.

    The output is the middle of the cell the paper's continuous output falls in,
    so every interval between two ratings keeps the probability the paper gives
    it. A cell lies wholly on one side of every rating, hence its probability is
    proportional to e^(-distance / b), and the normalisation takes care of C(r).
    """
    middles, distances = _cells(scale)
    mass = np.exp(-distances * epsilon / float(scale.width))
    return Design(middles, mass / mass.sum(axis=1, keepdims=True))


def clamped_laplace(scale: RatingScale, epsilon: float, _prior: Prior) -> Design:
    """Design Laplace noise of scale b = width / epsilon whose output is clamped to the scale.

    What falls beyond an end is reported as that end, the rest as in bounded Laplace.
    """
    b = float(scale.width) / epsilon
    middles, distances = _cells(scale)
    cell = float(scale.step) / cells_per_step(scale)
    inside = -0.5 * np.expm1(-cell / b) * np.exp(-distances / b)
    low, high = float(scale.low), float(scale.high)
    at_low = 0.5 * np.exp(-(scale.ratings - low) / b)
    at_high = 0.5 * np.exp(-(high - scale.ratings) / b)
    return Design(
        np.concatenate([[low], middles, [high]]),
        np.column_stack([at_low, inside, at_high]),
    )


def _cells(scale: RatingScale) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the middle of every cell, and the distance of its nearer edge from every rating."""
    per_step = cells_per_step(scale)
    cell = float(scale.step) / per_step
    index = np.arange((scale.size - 1) * per_step)
    first_above = np.arange(scale.size)[:, np.newaxis] * per_step
    cells_between = np.where(index >= first_above, index - first_above, first_above - 1 - index)
    return np.asarray(float(scale.low) + (index + 0.5) * cell), np.asarray(cells_between * cell)
