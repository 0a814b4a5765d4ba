"""The pattern: which items each user rated, seen by the provider anyway, as popularity and a low-rank embedding.

The embedding is a truncated singular value decomposition of the rated-or-not matrix, its rows scaled by count^-1/4 and
its columns by count^-0.4: a heavy user or a popular item would otherwise drown the rest. The first pair of vectors
says little more than popularity and is left out. Coordinates are as wide as their singular value to the power 3/2, so
that one prior variance fits all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.privacy.item_beliefs import SHARE_POWER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.engine import Engine, ReportSummary

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]

SPARE = 10  # vectors beyond those wanted that are multiplied to find these

_USER_POWER = -0.25
_WIDTH_POWER = 1.5
_POWER_ITERATIONS = 4
_LEAST_SINGULAR = 1e-4
_LEAST_DEVIATION = 1e-9  # equal counts differ by rounding
_FARTHEST = 6.0  # deviations: among items of nearly equal counts, one that differs could be anywhere


@dataclass(frozen=True, eq=False, slots=True)
class Pattern:
    """Popularity and embedding of both sides.

    Averaged over reports, the squared length of an embedded row is 1. A user's row follows from the items rated:
    `place_scale` times count^-1/4 times the sum of `shares` times those items' rows.
    """

    user_popularity: Doubles
    item_popularity: Doubles
    users: Floats
    items: Floats
    shares: Doubles
    place_scale: Doubles

    @property
    def dimensions(self) -> int:
        """How many coordinates the embedding has."""
        return len(self.place_scale)


def no_pattern(summary: ReportSummary) -> Pattern:
    """Return a pattern that says nothing."""
    people, things = summary.shape
    nothing = np.zeros(0)
    empty = np.zeros((people, 0), dtype=np.float32), np.zeros((things, 0), dtype=np.float32)
    return Pattern(np.zeros((people, 0)), np.zeros((things, 0)), *empty, np.ones(things), nothing)


def embed_pattern(engine: Engine, dimensions: int, rng: np.random.Generator) -> Pattern:
    """Decompose which items were rated by whom."""
    scaled = _Scaled(engine)
    wanted = min(dimensions, min(engine.summary.shape) - 2)
    if wanted < 1:
        return no_pattern(engine.summary)
    right, singular = scaled.leading(wanted + 1, rng)
    kept = np.flatnonzero(singular > _LEAST_SINGULAR * singular[0])[1:]
    if not len(kept):  # everybody rated everything: there is nothing to tell them apart by
        return no_pattern(engine.summary)
    right, singular = right[:, kept], singular[kept]
    items, item_width = _widened(right, singular, scaled.item_counts)
    users, user_width = _widened(scaled.times(right) / singular, singular, scaled.user_counts)
    return Pattern(
        user_popularity=popularity(scaled.user_counts),
        item_popularity=popularity(scaled.item_counts),
        users=users.astype(np.float32),
        items=items.astype(np.float32),
        shares=scaled.of_items,
        place_scale=user_width / (item_width * singular),
    )


def popularity(counts: NDArray[np.int64]) -> Doubles:
    """Return the logarithm of counts, standardised over reports, and its square less 1.

    Rows without reports, which could be any distance away, are like the least popular with one.
    """
    logarithm = np.log1p(np.maximum(counts, counts[counts > 0].min()))
    mean = np.average(logarithm, weights=counts)
    deviation = np.sqrt(np.average((logarithm - mean) ** 2, weights=counts))
    level = (logarithm - mean) / deviation if deviation > _LEAST_DEVIATION else np.zeros(len(counts))
    level = np.clip(level, -_FARTHEST, _FARTHEST)
    return np.column_stack([level, level**2 - 1])


def _widened(vectors: Doubles, singular: Doubles, counts: NDArray[np.int64]) -> tuple[Doubles, float]:
    """Make coordinates as wide as their singular value says, the average report's row of length 1."""
    wide = vectors * singular**_WIDTH_POWER
    length = np.average(np.square(wide).sum(axis=1), weights=counts)
    width = 1 / np.sqrt(length) if length > 0 else 1.0
    return wide * width, float(width)


class _Scaled:
    """The rated-or-not matrix with scaled rows and columns, never written out."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.user_counts, self.item_counts = engine.summary.user_counts, engine.summary.item_counts
        self.of_users = np.maximum(self.user_counts, 1.0) ** _USER_POWER
        self.of_items = np.maximum(self.item_counts, 1.0) ** SHARE_POWER

    def times(self, right: Doubles) -> Doubles:
        dense = (self.of_items[:, None] * right).astype(np.float32)
        return self.of_users[:, None] * self.engine.row_sums(dense, by_item=False)

    def transposed_times(self, left: Doubles) -> Doubles:
        dense = (self.of_users[:, None] * left).astype(np.float32)
        return self.of_items[:, None] * self.engine.row_sums(dense, by_item=True)

    def leading(self, wanted: int, rng: np.random.Generator) -> tuple[Doubles, Doubles]:
        """Find right singular vectors by subspace iteration from a random start."""
        width = min(wanted + SPARE, *self.engine.summary.shape)
        basis = np.linalg.qr(rng.standard_normal((self.engine.summary.shape[1], width)))[0]
        for _ in range(_POWER_ITERATIONS):
            basis = np.linalg.qr(self.transposed_times(self.times(basis)))[0]
        image = self.times(basis)
        squares, turn = np.linalg.eigh(image.T @ image)
        order = np.argsort(-squares, kind="stable")[:wanted]
        right = basis @ turn[:, order]
        signs = np.where(right.sum(axis=0) < 0, -1.0, 1.0)
        return right * signs, np.sqrt(np.maximum(squares[order], 0.0))
