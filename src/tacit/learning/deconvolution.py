"""Deconvolution: the rating histogram behind reports, as far as they tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import PriorError
from tacit.privacy.prior import Prior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tacit.privacy.channel import Channel
    from tacit.privacy.scale import RatingScale

    Observation = tuple[Channel, NDArray[np.int64]]

# Up to 13 ratings any histogram can be reached: MovieLens' half stars, rarer than whole ones, need all of 9 degrees.
_MOST_DEGREES = 12

# How far the logarithm of a histogram may stray from the generic bell, in standard deviations of a belief. On five
# stars a tilt of 0.35 moves the bell's mean by 0.07 of the width, a bend of 0.3 its spread by a factor of 1.14. Higher
# degrees are believed in less: what reports under a small epsilon do not fix keeps the generic shape.
_TILT_BELIEF = 0.35
_BEND_BELIEF = 0.3


@dataclass(frozen=True, eq=False)
class _Family:
    """Histograms whose logarithm is a polynomial of the rank, within a constant.

    Coordinates count standard deviations of the belief about each degree from the generic prior on.
    """

    generic: Prior
    directions: NDArray[np.float64]

    @classmethod
    def on(cls, scale: RatingScale) -> _Family:
        degree = np.arange(1, min(scale.size - 1, _MOST_DEGREES) + 1)
        belief = np.where(degree == 1, _TILT_BELIEF, _BEND_BELIEF * (2.0 / degree) ** 2)
        return cls(Prior.generic(scale), _orthonormal_polynomials(scale.size, len(degree)) * belief)

    def probabilities(self, coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
        logarithms = np.log(self.generic.probabilities) + self.directions @ coordinates
        weights = np.exp(logarithms - logarithms.max())
        return np.asarray(weights / weights.sum())

    def surprise(
        self, coordinates: NDArray[np.float64], observations: Sequence[Observation]
    ) -> tuple[float, NDArray[np.float64]]:
        """Return the negative logarithm of the posterior density, and its gradient."""
        probabilities = self.probabilities(coordinates)
        value, by_probability = 0.5 * float(coordinates @ coordinates), np.zeros(len(probabilities))
        for channel, counts in observations:
            expected = probabilities @ channel.likelihood
            value -= float(counts @ np.log(expected))
            by_probability -= channel.likelihood @ (counts / expected)
        by_logarithm = probabilities * (by_probability - probabilities @ by_probability)
        return value, coordinates + self.directions.T @ by_logarithm


def fit_prior(observations: Sequence[Observation]) -> Prior:
    """Estimate the rating histogram behind reports from how often each of their channels gave each symbol.

    The logarithm of the histogram is a polynomial of the rank. A belief around the generic prior is weak about its
    tilt and bend and firmer with every degree, so the shape follows the reports where they speak, stays generic where
    one bit or a small epsilon leaves it open, and has no zero.

    >>> from tacit.privacy.mechanisms import build_channel
    >>> from tacit.privacy.scale import RatingScale
    >>> channel = build_channel("randomized-response", RatingScale.parse("1:3:1"), 20)
    >>> fit_prior([(channel, np.array([100_000, 600_000, 300_000]))]).probabilities.round(3).tolist()
    [0.1, 0.6, 0.3]
    """
    from scipy.optimize import minimize  # noqa: PLC0415 - a slow import that only fitting needs

    scale = _scale_of(observations)
    family = _Family.on(scale)
    start = np.zeros(family.directions.shape[1])
    found = minimize(family.surprise, start, args=(observations,), jac=True, method="BFGS")
    return Prior.of(scale, family.probabilities(found.x))


def _scale_of(observations: Sequence[Observation]) -> RatingScale:
    scales = list(dict.fromkeys(channel.scale for channel, _ in observations))
    if not scales:
        raise PriorError("there are no reports to estimate a prior from; give those of one policy at least")
    if len(scales) > 1:
        raise PriorError(f"the reports are on the scales {scales[0]} and {scales[1]}; use reports on one scale")
    return scales[0]


def _orthonormal_polynomials(ranks: int, degrees: int) -> NDArray[np.float64]:
    """Return polynomials of degree 1 up, one a column, whose squares average 1 over the ranks."""
    powers = np.vander(np.linspace(-1.0, 1.0, ranks), degrees + 1, increasing=True)
    return np.asarray(np.linalg.qr(powers).Q[:, 1:] * np.sqrt(ranks))
