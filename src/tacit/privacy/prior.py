"""Rating histograms: what is known of ratings before any report arrives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import PriorError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from tacit.privacy.scale import RatingScale

# Across public rating sets the mean lies at 0.53 to 0.63 of the width and the
# standard deviation at 0.25 to 0.34 of it: these two stand for all of them.
GENERIC_MEAN = 0.6
GENERIC_DEVIATION = 0.3


@dataclass(frozen=True, eq=False)
class Prior:
    """A probability for every rank of a scale, none of them zero."""

    scale: RatingScale
    probabilities: NDArray[np.float64]

    @classmethod
    def of(cls, scale: RatingScale, weights: ArrayLike) -> Prior:
        """Normalise non-negative weights, one per rank; an empty rank gets a hundredth of an even share."""
        counts = np.asarray(weights, dtype=np.float64)
        if counts.shape != (scale.size,):
            msg = f"a prior for scale {scale} needs {scale.size} weights, not {counts.size}; give one per rating"
            raise PriorError(msg)
        if not np.isfinite(counts).all() or (counts < 0).any() or not counts.max() > 0:
            msg = "prior weights must be finite, not negative and not all zero; count ratings, or use 'uniform'"
            raise PriorError(msg)
        # Dividing by the largest first keeps the sum of huge weights finite.
        shares = counts / counts.max()
        shares = np.maximum(shares, 0.01 / scale.size * shares.sum())
        probabilities = shares / shares.sum()
        probabilities.setflags(write=False)
        return cls(scale, probabilities)

    @classmethod
    def uniform(cls, scale: RatingScale) -> Prior:
        """Hold every rating equally likely."""
        return cls.of(scale, np.ones(scale.size))

    @classmethod
    def generic(cls, scale: RatingScale) -> Prior:
        """Assume the usual shape of ratings: a bell at 0.6 of the width, 0.3 of it wide."""
        return cls.bell(scale, GENERIC_MEAN, GENERIC_DEVIATION)

    @classmethod
    def bell(cls, scale: RatingScale, mean: float, deviation: float) -> Prior:
        """Assume a normal curve cut to the scale; both parameters are shares of its width."""
        position = np.linspace(0.0, 1.0, scale.size)
        exponent = -0.5 * ((position - mean) / deviation) ** 2
        return cls.of(scale, np.exp(exponent - exponent.max()))

    @cached_property
    def mean(self) -> float:
        """The expected rating."""
        return float(self.probabilities @ self.scale.ratings)

    @cached_property
    def variance(self) -> float:
        """The variance of the rating."""
        return float(self.probabilities @ (self.scale.ratings - self.mean) ** 2)
