"""Accounting: what a person has given away in all, over any mix of policies.

The pure total is the sum of the epsilons and is what a lifetime cap is enforced
on. The (epsilon, delta) total is smaller and is information only: it holds for a
sequence of policies fixed beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from tacit.privacy.channel import Channel
    from tacit.privacy.policy import Policy

# Privacy losses are placed on a grid: this many steps for the smallest epsilon, at most this many for the
# largest. A coarser grid is never less sound, only less tight.
_FINEST_GRID = 200
_LARGEST_GRID = 10_000


@dataclass(frozen=True)
class Totals:
    """A person's privacy loss over all reports, by two notions.

    `approximate` is the epsilon that goes with `delta`.
    """

    reports: int
    pure: Decimal
    approximate: float
    delta: float


def pure_total(spends: Mapping[Policy, int]) -> Decimal:
    """Add up the epsilons of all reports, exactly."""
    return sum((policy.epsilon * count for policy, count in spends.items()), Decimal(0))


def total_loss(spends: Mapping[Policy, int], *, delta: float = 1e-6) -> Totals:
    """Compose the reports made under each policy, both ways.

    The (epsilon, delta) total composes privacy-loss distributions. Per channel
    the distribution is the one that dominates every ordered pair of ratings: the
    pointwise maximum of their hockey-stick curves.
    """
    if not 0 < delta < 1:
        raise InvalidInputError(f"delta {delta} is not between 0 and 1; 1e-6 is a good choice")
    if any(count < 0 for count in spends.values()):
        raise InvalidInputError("a number of reports is negative; count the reports made under each policy")
    made = {policy: count for policy, count in spends.items() if count}
    pure = pure_total(made)
    approximate = min(float(pure), _composed_epsilon(made, delta)) if made else 0.0
    return Totals(sum(made.values()), pure, approximate, delta)


def hockey_stick(channel: Channel, losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest delta(loss) = sum of (p - e^loss q) where positive, over ordered pairs of ratings."""
    likelihood = channel.likelihood
    worst = np.zeros(len(losses))
    for p in likelihood:
        for q in likelihood:
            worst = np.maximum(worst, _pair_curve(p, q, losses))
    return np.where(losses >= channel.exact_loss, 0.0, worst)


def _pair_curve(p: NDArray[np.float64], q: NDArray[np.float64], losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the hockey-stick curve of one ordered pair: symbols count while their own loss exceeds the given one."""
    own_loss = np.log(p / q)
    order = np.argsort(own_loss)
    counted = np.searchsorted(own_loss[order], losses, side="right")
    mass_p = np.append(np.cumsum(p[order][::-1])[::-1], 0.0)
    mass_q = np.append(np.cumsum(q[order][::-1])[::-1], 0.0)
    return np.asarray(np.maximum(mass_p[counted] - np.exp(losses) * mass_q[counted], 0.0))


def _composed_epsilon(made: Mapping[Policy, int], delta: float) -> float:
    epsilons = [float(policy.epsilon) for policy in made]
    interval = max(min(epsilons) / _FINEST_GRID, max(epsilons) / _LARGEST_GRID)
    composed: Any = None
    for policy, count in made.items():
        part = _loss_distribution(policy.channel, interval).self_compose(count)
        composed = part if composed is None else composed.compose(part)
    return float(composed.get_epsilon_for_delta(delta))


@lru_cache(maxsize=32)
def _loss_distribution(channel: Channel, interval: float) -> Any:  # noqa: ANN401 - the accounting library is untyped
    try:
        from dp_accounting.pld import pld_pmf  # noqa: PLC0415 - an optional library
    except ImportError as error:
        msg = "(epsilon, delta) totals need the accounting extra; install tacit[accounting]"
        raise MissingExtraError(msg) from error
    reach = int(np.ceil(channel.exact_loss / interval)) + 1
    steps = np.arange(-reach, reach + 1)
    deltas = hockey_stick(channel, np.asarray(steps * interval))
    return pld_pmf.create_pmf_pessimistic_connect_dots(interval, steps, deltas)
