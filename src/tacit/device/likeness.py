"""How alike items are by who rates them: whoever likes an item better than expected likes those most like it, too.

The embedding's directions alone would say so along a line. Likeness falls off faster, so that a rating speaks of its
neighbours and of little else. It is a covariance of tastes, as wide as what the embedding is believed to explain along
lines, and is written as columns for some of the person's own items.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tacit.device.cholesky import lower_root

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Reals = NDArray[np.float64]
    Real = TypeVar("Real", np.float32, np.float64)

MOST_LANDMARKS = 256
"""Of a person with more ratings, those of the items with most reports speak of their neighbours."""

# Likeness is the cosine, moved to 0 to 1, squared so often: to the power 8.
_SQUARINGS = 3
# Added to each landmark's likeness to itself: items that the same people rated are one and the same here.
_RIDGE = 1e-3
# So many items at a time: likeness of all at once would take 250 times the memory of their scores.
_BLOCK = 4096


def likeness(directions: NDArray[Real], others: NDArray[Real]) -> NDArray[Real]:
    """Return how alike items are, from 0 to 1: a row for each, a column for each of the others.

    >>> axes = np.eye(2, dtype=np.float32)
    >>> likeness(axes, axes)
    array([[1.        , 0.00390625],
           [0.00390625, 1.        ]], dtype=float32)
    """
    alike = directions @ (others.T * others.dtype.type(0.5))
    alike += alike.dtype.type(0.5)
    for _ in range(_SQUARINGS):
        np.square(alike, out=alike)
    return alike


def pulled(directions: Floats, landmarks: Floats, pulls: Reals) -> Floats:
    """Return by how much the scores of items with these directions are moved by landmarks that pull so much."""
    moved, narrow = np.empty(len(directions), dtype=np.float32), pulls.astype(np.float32)
    for first in range(0, len(directions), _BLOCK):
        block = slice(first, first + _BLOCK)
        moved[block] = likeness(directions[block], landmarks) @ narrow
    return moved


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Some of a person's items, of independent columns that have the likeness between items as their products."""

    directions: Floats
    root: Reals
    """The lower Cholesky factor of the likeness among them."""

    @classmethod
    def of(cls, directions: Floats) -> Landmarks:
        """Take items by their directions."""
        exact = directions.astype(np.float64)  # rounding to single precision can outweigh the ridge
        return cls(directions, lower_root(likeness(exact, exact), np.full(len(exact), _RIDGE)))

    def columns(self, directions: Floats) -> Reals:
        """Return the columns of items with these directions, one for each landmark."""
        from scipy.linalg import solve_triangular  # noqa: PLC0415 - a slow import

        alike = likeness(directions, self.directions).astype(np.float64)
        return np.asarray(solve_triangular(self.root, alike.T, lower=True).T)

    def pulls(self, weights: Reals) -> Reals:
        """Return what a person's weights on the columns give each landmark to multiply its likeness with."""
        from scipy.linalg import solve_triangular  # noqa: PLC0415 - a slow import

        return np.asarray(solve_triangular(self.root, weights, lower=True, trans=1))
