"""Mechanisms compared by what a person gives away in all.

Epsilon is of one rating; whoever rates often spends it often, and mechanisms add up differently: rare outputs that say
much hide in a crowd, an output that always says the same amount does not. At an equal total the order of mechanisms
is another than at an equal epsilon.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tacit.errors import InvalidInputError
from tacit.evaluation.tailoring import FIRST_MECHANISM, FIRST_SHARE, draw_reports
from tacit.learning.deconvolution import fit_prior
from tacit.privacy.accounting import total_loss
from tacit.privacy.exact import LARGEST_EPSILON, SMALLEST_EPSILON, decimal_text, parse_epsilon
from tacit.privacy.mechanisms import TAILORED, build_channel
from tacit.privacy.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.evaluation.ratings import RatingData
    from tacit.privacy.prior import Prior

TOTALS = (2.0, 5.0, 10.0, 20.0, 30.0, 50.0)
DELTA_TEXT = "1e-6"
DELTA = float(DELTA_TEXT)

Composition: TypeAlias = Callable[[str, int], float]

_PRIOR_EPSILON = "1"
_NEIGHBOURS = 1.25  # the ratio of two epsilons between which the total is near enough to a power of epsilon


@dataclass(frozen=True, slots=True)
class UserLevel:
    """A mechanism at the epsilon at which so many ratings add up to a total at `DELTA`."""

    mechanism: str
    ratings: int
    total: float
    epsilon: float
    noise_deviation: float
    """Of one calibrated report at that epsilon."""


def user_levels(
    mechanisms: Sequence[str], counts: Sequence[int], prior: Prior, totals: Sequence[float] = TOTALS
) -> list[UserLevel]:
    """Compare mechanisms for people with these numbers of ratings, at equal totals.

    The noise is that of a report read with the prior, which `tailored` is also tailored to.
    """
    levels = []
    for mechanism in mechanisms:
        composed = composition(mechanism, prior)
        for count, total in product(counts, totals):
            epsilon = epsilon_of_total(total, count, composed)
            deviation = _policy(mechanism, epsilon, prior).channel.calibrate(prior).noise_deviation
            levels.append(UserLevel(mechanism, count, total, float(epsilon), deviation))
    return levels


def composition(mechanism: str, prior: Prior) -> Composition:
    """Return what gives the total of so many reports at an epsilon, and remembers it."""

    @cache
    def total(epsilon: str, count: int) -> float:
        return total_loss({_policy(mechanism, epsilon, prior): count}, delta=DELTA).approximate

    return total


def epsilon_of_total(total: float, count: int, composed: Composition) -> str:
    """Return the epsilon of one report at which so many of them add up to a total.

    Totals rise with epsilon, so the neighbours on a fixed ladder of epsilons are found by bisection; searches for other
    totals come by the same rungs. Where the total is out of reach at any epsilon, it is the largest.
    """
    ladder = _ladder()
    rungs = [float(epsilon) for epsilon in ladder]
    # Pure composition is a first bound. A total much beyond the one looked for would be slow to compute.
    low, high = max(bisect_right(rungs, total / count) - 1, 0), min(bisect_right(rungs, 2 * total), len(rungs) - 1)
    if composed(ladder[low], count) > total:
        raise InvalidInputError(
            f"{count} ratings at epsilon {ladder[low]} add up to more than {total:g}; choose a larger total"
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if composed(ladder[middle], count) <= total else (low, middle)
    ends = np.log([composed(ladder[low], count), composed(ladder[high], count)])
    return _text(np.exp(np.interp(np.log(total), ends, np.log([rungs[low], rungs[high]]))))


def usual_counts(data: RatingData) -> tuple[int, ...]:
    """Return how many ratings the median user has, and the user in front of nine tenths of all."""
    counts = np.bincount(data.users.codes)
    return tuple(dict.fromkeys(int(count) for count in np.quantile(counts, [0.5, 0.9], method="inverted_cdf")))


def reported_prior(data: RatingData, rng: np.random.Generator) -> Prior:
    """Return the rating histogram that reports on a tenth of the ratings tell of."""
    channel = build_channel(FIRST_MECHANISM, data.scale, _PRIOR_EPSILON)
    chosen = rng.choice(len(data), max(1, int(FIRST_SHARE * len(data))), replace=False)
    symbols = draw_reports(channel, data.ranks[chosen], rng)
    return fit_prior([(channel, np.bincount(symbols, minlength=channel.weights.symbols))])


def error_at(epsilon: float, epsilons: Sequence[float], errors: Sequence[float]) -> float | None:
    """Interpolate an error over the logarithm of epsilon; nothing outside what was measured.

    >>> error_at(1, [0.1, 10], [1.2, 0.8]), error_at(20, [0.1, 10], [1.2, 0.8])
    (1.0, None)
    """
    if not epsilons[0] <= epsilon <= epsilons[-1]:
        return None
    return round(float(np.interp(np.log(epsilon), np.log(epsilons), errors)), 6)


@cache
def _ladder() -> list[str]:
    low, high = float(SMALLEST_EPSILON), float(LARGEST_EPSILON)
    return [_text(one) for one in np.geomspace(low, high, 1 + int(np.ceil(np.log(high / low) / np.log(_NEIGHBOURS))))]


def _text(epsilon: float) -> str:
    return decimal_text(parse_epsilon(f"{epsilon:.4g}"))


@lru_cache(maxsize=256)  # on a long scale a policy takes a second, and other numbers of ratings ask for it again
def _policy(mechanism: str, epsilon: str, prior: Prior) -> Policy:
    return Policy.make(mechanism, prior.scale, epsilon, prior if mechanism == TAILORED else None)
