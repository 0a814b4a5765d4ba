"""Factors of both sides, as the kernels want them, and the sweeps that move them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.learning.kernels import SweepResult, half_sweep, padded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.matrix import ReportMatrix
    from tacit.learning.mixture import NoiseMixture

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

    def user_offsets(self) -> Floats:
        """Return the users' offsets, zeros if there are none."""
        return self.users[:, self.rank].copy() if self.offsets else np.zeros(len(self.users), dtype=np.float32)

    def item_offsets(self) -> Floats:
        """Return the items' offsets, zeros if there are none."""
        return self.items[:, self.rank + 1].copy() if self.offsets else np.zeros(len(self.items), dtype=np.float32)


FIRST_GUESS = 0.1


def random_pair(
    matrix: ReportMatrix, rank: int, *, offsets: bool, rng: np.random.Generator, explained: float = FIRST_GUESS
) -> FactorPair:
    """Draw a start (Algorithm 2, line 3) whose products lie around the mean report, or around zero with offsets.

    The products vary by the share `explained` of the variance of reports. Users and items without a report stay at
    zero: nothing will ever move them.
    """
    mean = 0.0 if offsets else matrix.mean
    level, spread = np.sqrt(abs(mean) / rank), (explained * max(matrix.variance, 1e-12) / rank) ** 0.25
    users = level + spread * rng.standard_normal((matrix.shape[0], rank))
    items = np.copysign(1.0, mean) * level + spread * rng.standard_normal((matrix.shape[1], rank))
    users[matrix.by_user.counts() == 0] = 0.0
    items[matrix.by_item.counts() == 0] = 0.0
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


@dataclass(frozen=True, eq=False, slots=True)
class Sweeper:
    """What both half-sweeps of a fit share: the reports, less `mean`, and the ridge."""

    matrix: ReportMatrix
    mean: float
    ridge: Ridge
    threads: int

    def users(self, pair: FactorPair, mixture: NoiseMixture) -> SweepResult:
        """Solve for the users' factors, the items' held (Eq. 10)."""
        return self._solve(pair, mixture, statistics=False)

    def items(self, pair: FactorPair, mixture: NoiseMixture) -> SweepResult:
        """Solve for the items' factors, the users' held (Eq. 10), and sum up what Eq. 9 needs."""
        turned = replace(pair, users=pair.items, items=pair.users)
        self._turn(turned)
        try:
            return self._solve(turned, mixture, statistics=True, by_item=True)
        finally:
            self._turn(turned)

    def _solve(
        self, pair: FactorPair, mixture: NoiseMixture, *, statistics: bool, by_item: bool = False
    ) -> SweepResult:
        rows = self.matrix.by_item if by_item else self.matrix.by_user
        if self.matrix.symbol_values is None and self.mean:
            rows = replace(rows, values=rows.values - np.float32(self.mean))
        return half_sweep(
            rows,
            None if self.matrix.symbol_values is None else self.matrix.symbol_values - np.float32(self.mean),
            pair.items,
            pair.users,
            coordinates=pair.coordinates,
            ridge=self.ridge.of(pair),
            mixture=mixture,
            statistics=statistics,
            threads=self.threads,
        )

    @staticmethod
    def _turn(pair: FactorPair) -> None:
        """Exchange the two offset columns: what is solved for must come first."""
        if pair.offsets:
            columns = [pair.rank, pair.rank + 1]
            for rows in (pair.users, pair.items):
                rows[:, columns] = rows[:, columns[::-1]]


def squares(values: Floats) -> float:
    """Return the sum of squares, in parts too short for BLAS to share out among threads, and those in doubles."""
    flat = values.ravel()
    parts = (flat[start : start + _DOT_LENGTH] for start in range(0, len(flat), _DOT_LENGTH))
    return sum(float(np.dot(part, part)) for part in parts)
