"""Mechanisms: rules that build a channel for a scale and an epsilon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import TypeAlias

from tacit.errors import MechanismError, PriorError, PrivacyClaimError
from tacit.privacy.channel import Channel
from tacit.privacy.exact import parse_epsilon
from tacit.privacy.mechanisms.design import Design
from tacit.privacy.mechanisms.laplace import bounded_laplace, clamped_laplace
from tacit.privacy.mechanisms.piecewise import hybrid, piecewise, square_wave
from tacit.privacy.mechanisms.response import duchi, randomized_response
from tacit.privacy.mechanisms.tailored import tailored
from tacit.privacy.prior import Prior
from tacit.privacy.scale import RatingScale
from tacit.privacy.weights import round_to_weights

__all__ = ["MECHANISMS", "TAILORED", "Design", "build_channel"]

_Rule: TypeAlias = Callable[[RatingScale, float, Prior], Design]

TAILORED = "tailored"

MECHANISMS: Mapping[str, _Rule] = MappingProxyType(
    {
        "bounded-laplace": bounded_laplace,
        "clamped-laplace": clamped_laplace,
        "randomized-response": randomized_response,
        "duchi": duchi,
        "piecewise": piecewise,
        "hybrid": hybrid,
        "square-wave": square_wave,
        TAILORED: tailored,
    }
)

_NO_CHANNEL = {
    "laplace": "its unbounded output has no finite table that could be verified; use clamped-laplace",
    "none": "it sends the true rating; it exists only as the non-private baseline of evaluations",
}

# Shares of epsilon given up so that rounding to integers cannot push the loss
# over it: the first that the exact check accepts is used.
_SLACKS = tuple(2.0**-bits for bits in (40, 30, 20, 14, 10))


def build_channel(
    mechanism: str, scale: RatingScale, epsilon: str | float | Decimal, prior: Prior | None = None
) -> Channel:
    """Build the channel of a mechanism; only `tailored` looks at the prior.

    >>> channel = build_channel("randomized-response", RatingScale.parse("1:5:1"), 1)
    >>> round(channel.exact_loss, 9)
    1.0
    """
    rule = _rule_of(mechanism)
    claimed = parse_epsilon(epsilon)
    belief = prior if prior is not None else Prior.generic(scale)
    if belief.scale != scale:
        msg = f"the prior is for scale {belief.scale}, the channel for {scale}; use a prior on that scale"
        raise PriorError(msg)
    for slack in _SLACKS:
        design = rule(scale, float(claimed) * (1 - slack), belief)
        try:
            return _exact_channel(scale, claimed, design)
        except PrivacyClaimError:
            continue
    msg = f"{mechanism} at epsilon {claimed} on scale {scale} cannot be rounded to 2^-64; choose a smaller epsilon"
    raise MechanismError(msg)


def _rule_of(mechanism: str) -> _Rule:
    if mechanism in _NO_CHANNEL:
        msg = f"mechanism {mechanism} makes no policy: {_NO_CHANNEL[mechanism]}"
        raise MechanismError(msg)
    if mechanism not in MECHANISMS:
        msg = f"mechanism {mechanism!r} is not known; choose one of {', '.join(MECHANISMS)}"
        raise MechanismError(msg)
    return MECHANISMS[mechanism]


def _exact_channel(scale: RatingScale, epsilon: Decimal, design: Design) -> Channel:
    values = tuple(Decimal(f"{value:.12g}") for value in design.values)
    return Channel(scale, epsilon, values, round_to_weights(design.probabilities))
