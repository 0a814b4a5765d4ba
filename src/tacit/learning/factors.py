"""Factors of both sides, as the kernels want them, and the sweeps that move them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.learning.kernels import padded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tacit.learning.engine import ReportSummary

    Floats = NDArray[np.float32]

_DOT_LENGTH = 1 << 13


@dataclass(frozen=True, eq=False, slots=True)
class FactorPair:
    """Rows of factors for users and items whose products are the predictions, less the mean.

    With offsets, two more coordinates: a user's row ends in its offset and 1, an item's in 1 and its offset.
    The arrays are changed by every sweep.
    """

    users: Floats
    items: Floats
    rank: int
    offsets: bool

    @property
    def coordinates(self) -> int:
        """How many coordinates of a row are in use."""
        return self.rank + 2 * self.offsets

    @classmethod
    def of(cls, user_factors: NDArray[np.float64], item_factors: NDArray[np.float64], *, offsets: bool) -> FactorPair:
        """Take plain factors; offsets start at zero."""
        rank = user_factors.shape[1]
        if offsets:
            user_factors = np.column_stack([user_factors, np.zeros(len(user_factors)), np.ones(len(user_factors))])
            item_factors = np.column_stack([item_factors, np.ones(len(item_factors)), np.zeros(len(item_factors))])
        return cls(padded(user_factors), padded(item_factors), rank, offsets)

    def home(self) -> FactorPair:
        """Return the factors, which are here already."""
        return self

    def take(self, pair: FactorPair) -> None:
        """Go on from these instead."""
        self.users[:], self.items[:] = pair.users, pair.items

    @contextmanager
    def turned(self) -> Iterator[FactorPair]:
        """Let the sides change places for a while: what is solved for is called users, and its offset comes first."""
        turned = replace(self, users=self.items, items=self.users)
        self._exchange_offsets()
        try:
            yield turned
        finally:
            self._exchange_offsets()

    def _exchange_offsets(self) -> None:
        if self.offsets:
            columns = [self.rank, self.rank + 1]
            for rows in (self.users, self.items):
                rows[:, columns] = rows[:, columns[::-1]]

    def user_offsets(self) -> Floats:
        """Return the users' offsets, zeros if there are none."""
        return self.users[:, self.rank].copy() if self.offsets else np.zeros(len(self.users), dtype=np.float32)

    def item_offsets(self) -> Floats:
        """Return the items' offsets, zeros if there are none."""
        return self.items[:, self.rank + 1].copy() if self.offsets else np.zeros(len(self.items), dtype=np.float32)


FIRST_GUESS = 0.1


def random_pair(
    summary: ReportSummary, rank: int, *, offsets: bool, rng: np.random.Generator, explained: float = FIRST_GUESS
) -> FactorPair:
    """Draw a start (Algorithm 2, line 3) whose products lie around the mean report, or around zero with offsets.

    The products vary by the share `explained` of the variance of reports. Users and items without a report stay at
    zero: nothing will ever move them.
    """
    mean = 0.0 if offsets else summary.mean
    level, spread = np.sqrt(abs(mean) / rank), (explained * max(summary.variance, 1e-12) / rank) ** 0.25
    users, items = (rng.standard_normal((size, rank)) for size in summary.shape)
    for rows, middle in ((users, level), (items, np.copysign(1.0, mean) * level)):
        np.add(np.multiply(rows, spread, out=rows), middle, out=rows)
    users[summary.user_counts == 0] = 0.0
    items[summary.item_counts == 0] = 0.0
    return FactorPair.of(users, items, offsets=offsets)


@dataclass(frozen=True, eq=False, slots=True)
class Ridge:
    """How strongly factors and offsets are pulled to zero."""

    factors: float
    offsets: float = 0.0

    def of(self, pair: FactorPair) -> Floats:
        """Return the ridge of every coordinate that is solved for."""
        return np.array([self.factors] * pair.rank + [self.offsets] * pair.offsets, dtype=np.float32)

    def penalty(self, pair: FactorPair) -> float:
        """Return what the ridge adds to the objective of least squares."""
        factors = squares(pair.users[:, : pair.rank]) + squares(pair.items[:, : pair.rank])
        return self.factors * factors + self.offsets * (squares(pair.user_offsets()) + squares(pair.item_offsets()))


def relative_change(before: Floats, after: Floats) -> float:
    """Return how far factors moved beside their size; `before` is spoiled."""
    size = max(squares(before), np.finfo(np.float64).tiny)
    before -= after
    return float(np.sqrt(squares(before) / size))


def squares(values: Floats) -> float:
    """Return the sum of squares, in parts too short for BLAS to share out among threads, and those in doubles."""
    flat = values.ravel()
    parts = (flat[start : start + _DOT_LENGTH] for start in range(0, len(flat), _DOT_LENGTH))
    return sum(float(np.dot(part, part)) for part in parts)
