"""Two-level mechanisms for numbers: piecewise, its hybrid with Duchi's, and square wave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.privacy.mechanisms.design import Design, two_level_density
from tacit.privacy.mechanisms.response import centre_and_half_width, duchi

if TYPE_CHECKING:
    from tacit.privacy.prior import Prior
    from tacit.privacy.scale import RatingScale

# Below this epsilon the hybrid mechanism of Wang et al. (2019) is Duchi's alone.
_HYBRID_FROM = 0.61


def piecewise(scale: RatingScale, epsilon: float, _prior: Prior) -> Design:
    """Design the piecewise mechanism of Wang et al. (2019): unbiased, on a range wider than the scale."""
    centre, half_width = centre_and_half_width(scale)
    position = (scale.ratings - centre) / half_width
    reach = 1.0 / np.tanh(epsilon / 4)
    left = (reach + 1) / 2 * position - (reach - 1) / 2
    design = two_level_density(np.column_stack([left, left + reach - 1]), (-reach, reach), epsilon)
    return Design(centre + half_width * design.values, design.probabilities)


def hybrid(scale: RatingScale, epsilon: float, prior: Prior) -> Design:
    """Design the hybrid mechanism of Wang et al. (2019): piecewise or Duchi's, by a coin of known bias."""
    one_bit = duchi(scale, epsilon, prior)
    if epsilon <= _HYBRID_FROM:
        return one_bit
    fine = piecewise(scale, epsilon, prior)
    share = -np.expm1(-epsilon / 2)
    return Design.sorted_by_value(
        np.concatenate([fine.values, one_bit.values]),
        np.column_stack([share * fine.probabilities, (1 - share) * one_bit.probabilities]),
    )


def square_wave(scale: RatingScale, epsilon: float, _prior: Prior) -> Design:
    """Design the square wave mechanism of Li et al. (2020): a window of half-width b around the rating."""
    position = np.linspace(0.0, 1.0, scale.size)
    grown = np.expm1(epsilon)
    half_window = (epsilon * (grown + 1) - grown) / (2 * (grown + 1) * (grown - epsilon))
    windows = np.column_stack([position - half_window, position + half_window])
    design = two_level_density(windows, (-half_window, 1 + half_window), epsilon)
    return Design(float(scale.low) + float(scale.width) * design.values, design.probabilities)
