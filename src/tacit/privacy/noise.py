"""The noise law of the paper (Eqs. 4 and 5), for any mechanism and rating histogram.

Noise is the reported value minus the rating. The paper asks for the probability
of every interval one rating step long. As printed, the conditional probabilities
under Eqs. 4 and 5 lack the division by b in their exponents (the second also its
minus signs), keep 1/(2 b C) where integration leaves 1/(2 C), and Eq. 5 leaves
out t = 1; the law here is derived from the density again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tacit.privacy.continuous import bounded_laplace_cdf, draw_laplace_noise, laplace_cdf
from tacit.privacy.exact import parse_epsilon
from tacit.privacy.mechanisms import build_channel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.privacy.channel import Channel
    from tacit.privacy.prior import Prior
    from tacit.privacy.scale import RatingScale

UNBOUNDED = "laplace"
NO_NOISE = "none"

_LEAST_EXPECTED = 5.0


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """Probabilities of noise intervals [from, to): as derived, and as drawn.

    `edges` has one entry more than the probabilities; for unbounded noise the
    outermost two are infinite.
    """

    mechanism: str
    edges: NDArray[np.float64]
    derived: NDArray[np.float64]
    drawn: NDArray[np.float64]
    p_value: float


def compare_noise(
    mechanism: str, epsilon: str, histogram: Prior, *, samples: int, rng: np.random.Generator
) -> NoiseLaw:
    """Derive a mechanism's noise law for a rating histogram, and draw from it as many times as asked."""
    if mechanism == NO_NOISE:
        return NoiseLaw(mechanism, np.array([0.0, float(histogram.scale.step)]), np.ones(1), np.ones(1), 1.0)
    if mechanism == UNBOUNDED:
        edges = _unbounded_edges(histogram.scale)
        derived = laplace_noise_law(histogram.scale, float(parse_epsilon(epsilon)), edges)
        noise = draw_laplace_noise(samples, histogram.scale, float(epsilon), rng)
        counts = np.histogram(noise, bins=edges)[0]
    else:
        channel = build_channel(mechanism, histogram.scale, epsilon, histogram)
        interval = _intervals(channel)
        edges = (np.arange(interval.max() + 2) + _first_interval(channel)) * float(histogram.scale.step)
        derived = channel_noise_law(channel, histogram)
        ranks = rng.choice(histogram.scale.size, p=histogram.probabilities, size=samples).astype(np.uint16)
        symbols = channel.draw(ranks, rng.integers(0, 2**64, samples, dtype=np.uint64))
        counts = np.bincount(interval[ranks, symbols], minlength=len(derived))
    return NoiseLaw(mechanism, edges, derived, counts / samples, goodness_of_fit(counts, derived))


def channel_noise_law(channel: Channel, histogram: Prior) -> NDArray[np.float64]:
    """Return the probability of every step-long noise interval, exactly from the channel's table."""
    joint = histogram.probabilities[:, np.newaxis] * channel.likelihood
    return np.bincount(_intervals(channel).ravel(), weights=joint.ravel()).astype(np.float64)


def bounded_laplace_noise_law(
    scale: RatingScale, epsilon: float, histogram: Prior, edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the paper's closed form, Eqs. 4 and 5 corrected, for continuous bounded Laplace."""
    cdf = bounded_laplace_cdf(edges, scale.ratings[:, np.newaxis], scale, epsilon)
    return np.asarray(histogram.probabilities @ np.diff(cdf, axis=1))


def laplace_noise_law(scale: RatingScale, epsilon: float, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability of every interval under unbounded Laplace noise."""
    return np.diff(laplace_cdf(edges, float(scale.width) / epsilon))


def goodness_of_fit(counts: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """Return the p-value of a chi-squared test that the counts follow the probabilities.

    Neighbouring intervals are pooled until each expects at least five draws.
    """
    from scipy.special import chdtrc  # noqa: PLC0415 - a slow import that only this test needs

    expected = probabilities * counts.sum()
    pool = _pools(expected)
    observed, wanted = np.bincount(pool, weights=counts), np.bincount(pool, weights=expected)
    if len(wanted) == 1:
        return 1.0
    return float(chdtrc(len(wanted) - 1, ((observed - wanted) ** 2 / wanted).sum()))


def _pools(expected: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number the pools of neighbouring intervals; what is left at the end joins the last full pool."""
    pools, filled, in_pool = [], 0, 0.0
    for count in expected:
        pools.append(filled)
        in_pool += count
        if in_pool >= _LEAST_EXPECTED:
            filled, in_pool = filled + 1, 0.0
    return np.minimum(pools, max(filled - 1, 0))


def _intervals(channel: Channel) -> NDArray[np.int64]:
    """Return the interval, counted from the first, that each rank and symbol's noise falls in."""
    return _steps(channel) - _first_interval(channel)


def _first_interval(channel: Channel) -> int:
    return int(_steps(channel).min())


def _steps(channel: Channel) -> NDArray[np.int64]:
    """Return the noise in whole steps, rounded down; exactly, for noise often lies on an edge."""
    scale = channel.scale
    below = [math.floor(Fraction(value - scale.low) / Fraction(scale.step)) for value in channel.values]
    return np.array(below) - np.arange(scale.size)[:, np.newaxis]


def _unbounded_edges(scale: RatingScale) -> NDArray[np.float64]:
    reach = 2 * (scale.size - 1)
    return np.concatenate([[-np.inf], np.arange(-reach, reach + 1) * float(scale.step), [np.inf]])
