from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tacit.errors import InvalidInputError
from tacit.privacy.attacks import attack_low_bits, low_bit_events
from tacit.privacy.audit import audit_policy, find_loss
from tacit.privacy.mechanisms import MECHANISMS
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.privacy.weights import operating_system_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Tests draw real randomness, so a bound that fails once in a hundred runs would fail every few builds.
ALMOST_SURE = 1 - 1e-6

STARS = RatingScale.parse("1:5:1")


@pytest.mark.parametrize("epsilon", ["0.5", "1", "3"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_million_draws_of_the_real_sampler_come_close_to_the_exact_loss_from_below(
    mechanism: str, epsilon: str
) -> None:
    audit = audit_policy(Policy.make(mechanism, STARS, epsilon).claim, samples=10**6, confidence=ALMOST_SURE)
    assert audit.verdict == "holds"
    assert 0.6 * audit.exact_loss < audit.lower_bound <= audit.exact_loss


def test_an_audit_works_on_a_long_scale() -> None:
    audit = audit_policy(
        Policy.make("piecewise", RatingScale.parse("-10:10:0.25"), "1").claim, samples=300_000, confidence=ALMOST_SURE
    )
    assert audit.verdict == "holds"
    assert audit.lower_bound > 0.8


def test_a_false_claim_is_found_by_the_integers_and_by_the_draws() -> None:
    honest = Policy.make("duchi", STARS, "2").claim
    audit = audit_policy(replace(honest, epsilon=Decimal(1)), samples=200_000)
    assert audit.verdict == "violated"
    assert audit.exact_loss == pytest.approx(2)
    assert audit.lower_bound > 1.5


def test_draws_alone_find_a_sampler_that_does_not_follow_its_table() -> None:
    """One report in fifty is the truth: the table still says epsilon 1, the draws do not."""
    channel = Policy.make("randomized-response", STARS, "1").channel

    def leaky(rank: int, count: int) -> NDArray[np.int64]:
        symbols = channel.draw(np.full(count, rank, dtype=np.uint16), operating_system_words(count))
        symbols[: count // 50] = rank
        return np.bincount(symbols, minlength=5)

    found = find_loss(leaky, 5, samples=10**6, confidence=ALMOST_SURE, expected=channel.likelihood)
    assert 1.0 < found.lower_bound < 1.2


@pytest.mark.parametrize(("samples", "confidence"), [(999, 0.99), (10**9 + 1, 0.99), (10**4, 0.4), (10**4, 1.0)])
def test_senseless_audits_are_refused(samples: int, confidence: float, policy: Policy) -> None:
    with pytest.raises(InvalidInputError, match="good choice"):
        audit_policy(policy.claim, samples=samples, confidence=confidence)


def naive_bounded_laplace(rating: float, count: int) -> NDArray[np.float64]:
    """The paper's Algorithm 1 in floating point, as anybody would write it first (epsilon 1)."""
    rng = np.random.default_rng(int(rating))
    drawn = np.empty(0)
    while len(drawn) < count:
        candidates = rating + rng.laplace(scale=4.0, size=4 * count)
        drawn = np.concatenate([drawn, candidates[(candidates >= 1) & (candidates <= 5)]])
    return drawn[:count]


def test_the_low_bit_attack_catches_a_naive_float_sampler() -> None:
    found = attack_low_bits(naive_bounded_laplace, STARS.ratings, samples=500_000)
    assert found.lower_bound > 5


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_low_bit_attack_finds_nothing_in_a_channel(mechanism: str) -> None:
    channel = Policy.make(mechanism, STARS, "1").channel

    def draw(rating: float, count: int) -> NDArray[np.float64]:
        ranks = np.repeat(STARS.ranks_of([rating]), count)
        return channel.symbol_values[channel.draw(ranks, operating_system_words(count))]

    assert attack_low_bits(draw, STARS.ratings, samples=500_000, confidence=ALMOST_SURE).lower_bound <= 1


def test_low_bits_are_read_correctly() -> None:
    events = low_bit_events(np.array([1.0, 1.5, np.nextafter(1.0, 2.0), 2.0, 0.0]))
    assert events[0] == events[1]  # a mantissa of zeros, or nearly
    assert events[2] == events[0] - 7  # the last bit is set
    assert events[3] == events[0] + 8  # the next exponent
    assert events[4] < len(range(-4, 12)) * 8
