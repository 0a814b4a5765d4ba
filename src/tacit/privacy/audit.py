"""Auditing: the exact verdict from the integers, and a lower bound from watching the sampler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from tacit.errors import InvalidInputError
from tacit.privacy.exact import exp_lower_bound, log_ratio
from tacit.privacy.weights import operating_system_words

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal
    from fractions import Fraction

    from numpy.typing import NDArray

    from tacit.privacy.policy import PolicyClaim
    from tacit.privacy.weights import WeightTable

FEWEST_SAMPLES = 1000
MOST_SAMPLES = 10**9
LEAST_CONFIDENCE = 0.9

_SEARCH_SHARE = 0.2
_CHUNK = 10**6
_Z = 3.0


@dataclass(frozen=True)
class Audit:
    """What is known of a policy's privacy loss, from above and from below."""

    policy: str
    epsilon: Decimal
    worst_ratio: Fraction
    lower_bound: float
    confidence: float
    samples: int

    @property
    def exact_loss(self) -> float:
        """The loss computed from the integers."""
        return log_ratio(self.worst_ratio)

    @property
    def verdict(self) -> Literal["holds", "violated"]:
        """Whether both the integers and the draws agree with the claim."""
        proven = self.worst_ratio <= exp_lower_bound(self.epsilon)
        return "holds" if proven and self.lower_bound <= self.epsilon else "violated"


@dataclass(frozen=True)
class Finding:
    """The event that best tells two inputs apart, and how much loss it proves."""

    lower_bound: float
    likely_under: int
    unlikely_under: int
    events: tuple[int, ...]


class _Choice(NamedTuple):
    likely: int
    unlikely: int
    events: tuple[int, ...]


def audit_policy(claim: PolicyClaim, *, samples: int = 10**6, confidence: float = 0.99) -> Audit:
    """Audit a policy with the sampler and the randomness that devices use."""
    if not FEWEST_SAMPLES <= samples <= MOST_SAMPLES:
        msg = f"{samples} samples are not between {FEWEST_SAMPLES} and {MOST_SAMPLES}; a million is a good choice"
        raise InvalidInputError(msg)
    if not LEAST_CONFIDENCE <= confidence < 1:
        msg = f"confidence {confidence} is not at least {LEAST_CONFIDENCE} and below 1; 0.99 is a good choice"
        raise InvalidInputError(msg)
    table = claim.weights
    finding = find_loss(
        lambda rank, count: _count_symbols(table, rank, count),
        table.ranks,
        samples=samples,
        confidence=confidence,
        expected=table.probabilities,
    )
    return Audit(claim.id, claim.epsilon, table.worst_ratio, finding.lower_bound, confidence, samples)


def find_loss(
    count_events: Callable[[int, int], NDArray[np.int64]],
    inputs: int,
    *,
    samples: int,
    confidence: float,
    expected: NDArray[np.float64] | None = None,
) -> Finding:
    """Bound the privacy loss of a black box from below.

    `count_events(input, draws)` says how often each event occurred. A fifth of
    the samples chooses two inputs and a set of events; where it is known what to
    expect, that chooses a second set. The rest, drawn afresh, measures the
    choices, so choosing cannot flatter the bound: Clopper-Pearson on both sides,
    the error shared between all that is measured.
    """
    per_input = max(1, int(samples * _SEARCH_SHARE) // inputs)
    seen = np.array([count_events(rank, per_input) for rank in range(inputs)], dtype=np.float64)
    choices = [_most_telling(seen)]
    draws = (samples - per_input * inputs) // (2 if expected is None else 4)
    if expected is not None:
        choices.append(_most_telling(expected * draws))
    error = (1 - confidence) / (2 * len(choices))
    return max(
        (_measure(count_events, choice, draws, error) for choice in choices), key=lambda found: found.lower_bound
    )


def _measure(
    count_events: Callable[[int, int], NDArray[np.int64]], choice: _Choice, draws: int, error: float
) -> Finding:
    likely, unlikely, events = choice
    often = int(count_events(likely, draws)[list(events)].sum())
    seldom = int(count_events(unlikely, draws)[list(events)].sum())
    return Finding(_log_ratio_bound(often, seldom, draws, error), likely, unlikely, events)


def _count_symbols(table: WeightTable, rank: int, count: int) -> NDArray[np.int64]:
    counts = np.zeros(table.symbols, dtype=np.int64)
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        symbols = table.draw(np.full(size, rank, dtype=np.uint16), operating_system_words(size))
        counts += np.bincount(symbols, minlength=table.symbols)
    return counts


def _most_telling(counts: NDArray[np.float64]) -> _Choice:
    """Choose the pair of inputs and the events whose ratio is largest beyond its sampling error."""
    best_score, best = -np.inf, _Choice(0, 1, (0,))
    for likely in range(len(counts)):
        order = np.argsort(-(counts[likely] + 0.5) / (counts + 0.5), axis=1, kind="stable")
        often = np.cumsum(counts[likely][order], axis=1) + 0.5
        seldom = np.cumsum(np.take_along_axis(counts, order, axis=1), axis=1) + 0.5
        scores = np.log(often / seldom) - _Z * np.sqrt(1 / often + 1 / seldom)
        scores[likely] = -np.inf
        unlikely, last = np.unravel_index(np.argmax(scores), scores.shape)
        if scores[unlikely, last] > best_score:
            best_score = scores[unlikely, last]
            best = _Choice(likely, int(unlikely), tuple(int(event) for event in order[unlikely, : last + 1]))
    return best


def _log_ratio_bound(often: int, seldom: int, draws: int, error: float) -> float:
    """Bound the logarithm of the ratio of two proportions from below, each wrong with probability `error`."""
    from scipy.special import betaincinv  # noqa: PLC0415 - a slow import that only audits need

    lowest = betaincinv(often, draws - often + 1, error) if often else 0.0
    highest = betaincinv(seldom + 1, draws - seldom, 1 - error) if seldom < draws else 1.0
    return float(max(0.0, np.log(lowest / highest))) if lowest > 0 else 0.0
