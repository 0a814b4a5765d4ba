"""What the device can do at best, measured: products and copies; and what that makes of an EM iteration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

    from tacit.learning import ReportMatrix

_SIZE = 8192
_COPY_BYTES = 1 << 32
_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Rates:
    """What a device does at best: operations of a large product in single precision, and bytes copied, a second."""

    flops: float
    copied: float

    @classmethod
    def measured(cls) -> Rates:
        """Measure both."""
        return cls(product_rate(), copy_rate())


@dataclass(frozen=True, slots=True)
class Floor:
    """The least that one EM iteration takes, in milliseconds.

    A row is solved for its unknowns or for its ratings, whichever are fewer operations: half of a symmetric matrix for
    every rating, or for every unknown, and a Cholesky factorisation. Every rating's row of factors is fetched once a
    side, and once more for the sums at the new factors, as fast as memory is copied. Small tables may come faster, from
    the cache between.
    """

    gflop: float
    gathered_gb: float
    arithmetic: float
    gathers: float

    @property
    def overlapped(self) -> float:
        """Return the floor of a program that fetches while it computes."""
        return max(self.arithmetic, self.gathers)

    def record(self) -> dict[str, float]:
        """Return the figures to write down."""
        return {name: round(number, 3) for name, number in (asdict(self) | {"overlapped": self.overlapped}).items()}


def floor_of(matrix: ReportMatrix, rank: int, rates: Rates) -> Floor:
    """Count the work."""
    flops = sum(_flops(rows.counts(), rank) for rows in (matrix.by_user, matrix.by_item))
    gathered = 3 * 4.0 * rank * matrix.reports
    return Floor(flops / 1e9, gathered / 1e9, 1e3 * flops / rates.flops, 1e3 * gathered / rates.copied)


def _flops(counts: NDArray[np.int64], rank: int) -> float:
    """Count the operations of a half-sweep over rows of so many ratings."""
    ratings = counts.astype(np.float64)
    in_unknowns = ratings * rank * (rank + 1) + _solved(np.full_like(ratings, rank))
    in_ratings = rank * ratings * (ratings + 1) + _solved(ratings) + 2 * ratings * rank
    return float((np.minimum(in_unknowns, in_ratings) + 4 * ratings * rank).sum())


def _solved(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = sizes**3 / 3 + 2 * sizes**2
    return found


def product_rate() -> float:
    """Measure matrix products in single precision, in operations a second."""
    left = torch.randn((_SIZE, _SIZE), device="cuda")
    return 2 * _SIZE**3 / best_seconds(lambda: left @ left)


def copy_rate() -> float:
    """Measure copies within the device's memory, bytes read and written, a second."""
    source = torch.randn(_COPY_BYTES // 4, device="cuda")
    target = torch.empty_like(source)
    return 2 * _COPY_BYTES / best_seconds(lambda: target.copy_(source))


def best_seconds(work: Callable[[], Tensor]) -> float:
    """Return the best of a few runs, by the device's own clock."""
    work()
    found = []
    for _ in range(_REPEATS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        found.append(float(start.elapsed_time(end)) / 1e3)
    return min(found)
