"""Randomized response over the ratings, and Duchi's one-bit mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.privacy.mechanisms.design import Design

if TYPE_CHECKING:
    from tacit.privacy.prior import Prior
    from tacit.privacy.scale import RatingScale


def randomized_response(scale: RatingScale, epsilon: float, _prior: Prior) -> Design:
    """Design k-ary randomized response: the true rating e^epsilon times as likely as each other one."""
    mass = np.full((scale.size, scale.size), np.exp(-epsilon))
    np.fill_diagonal(mass, 1.0)
    return Design(scale.ratings, mass / mass.sum(axis=1, keepdims=True))


def duchi(scale: RatingScale, epsilon: float, _prior: Prior) -> Design:
    """Design the one-bit mechanism of Duchi, Jordan and Wainwright: two values beyond the ends, mean unbiased."""
    shrink = np.tanh(epsilon / 2)
    centre, half_width = centre_and_half_width(scale)
    position = (scale.ratings - centre) / half_width
    upper = 0.5 * (1.0 + position * shrink)
    values = centre + half_width * np.array([-1.0, 1.0]) / shrink
    return Design(values, np.column_stack([0.5 * (1.0 - position * shrink), upper]))


def centre_and_half_width(scale: RatingScale) -> tuple[float, float]:
    """Return what maps the scale to [-1, 1]."""
    return float(scale.low + scale.high) / 2, float(scale.width) / 2
