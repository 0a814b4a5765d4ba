"""Continuous laws, for simulation and for checking the tables; no device draws from them.

Sampling them in floating point is not private: the low bits of the output tell
ratings apart (see `tacit.privacy.attacks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from tacit.privacy.scale import RatingScale


def laplace_cdf(noise: ArrayLike, b: float) -> NDArray[np.float64]:
    """Return P(n < noise) for Laplace noise of scale b."""
    x = np.asarray(noise, dtype=np.float64) / b
    return np.where(x < 0, 0.5 * np.exp(-np.abs(x)), 1.0 - 0.5 * np.exp(-np.abs(x)))


def bounded_laplace_cdf(noise: ArrayLike, rating: ArrayLike, scale: RatingScale, epsilon: float) -> NDArray[np.float64]:
    """Return P(n < noise | rating) for the paper's continuous bounded Laplace, b = width / epsilon.

    The density is e^(-|n| / b) / (2 b C(r)) where the output r + n is on the
    scale (Definition 3), with C(r) of Lemma 1 as the difference of two Laplace
    probabilities.
    """
    b = float(scale.width) / epsilon
    lowest, highest = float(scale.low) - np.asarray(rating), float(scale.high) - np.asarray(rating)
    below = laplace_cdf(lowest, b)
    normalisation = laplace_cdf(highest, b) - below
    return np.asarray((laplace_cdf(np.clip(noise, lowest, highest), b) - below) / normalisation)


def draw_laplace_noise(count: int, scale: RatingScale, epsilon: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Simulate unbounded Laplace noise of scale b = width / epsilon."""
    return rng.laplace(scale=float(scale.width) / epsilon, size=count)


def draw_bounded_laplace(
    ratings: NDArray[np.float64], scale: RatingScale, epsilon: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Simulate the paper's continuous mechanism (Algorithm 1), by inversion instead of rejection."""
    b = float(scale.width) / epsilon
    below = laplace_cdf(float(scale.low) - ratings, b)
    above = laplace_cdf(float(scale.high) - ratings, b)
    quantile = below + rng.random(len(ratings)) * (above - below)
    tail = np.minimum(quantile, 1.0 - quantile)
    noise = np.sign(quantile - 0.5) * -b * np.log(2.0 * tail)
    return np.clip(ratings + noise, float(scale.low), float(scale.high))
