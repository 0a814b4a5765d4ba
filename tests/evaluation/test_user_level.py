from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import InvalidInputError
from tacit.evaluation.ratings import RatingData, rating_data
from tacit.evaluation.user_level import (
    DELTA,
    TOTALS,
    composition,
    epsilon_of_total,
    error_at,
    reported_prior,
    user_levels,
    usual_counts,
)
from tacit.evaluation.world import WorldShape, make_world
from tacit.privacy.accounting import total_loss
from tacit.privacy.mechanisms import MECHANISMS
from tacit.privacy.policy import Policy
from tacit.privacy.prior import Prior
from tacit.privacy.scale import RatingScale
from tacit.tables import Ids

STARS = RatingScale.parse("1:5:1")
GENERIC = Prior.generic(STARS)


def invented() -> RatingData:
    world = make_world(STARS, shape=WorldShape(200, 120, 6_000), seed=3)
    users, items = (Ids(np.arange(codes.max() + 1), codes) for codes in (world.users, world.items))
    return rating_data("invented", STARS, users, items, world.ratings.astype(float), sha256="0" * 64)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_totals_rise_with_epsilon_and_are_those_of_accounting(mechanism: str) -> None:
    composed = composition(mechanism, GENERIC)
    totals = [composed(epsilon, 20) for epsilon in ("0.01", "0.05", "0.2", "0.6", "0.62", "1", "2.5")]
    assert totals == sorted(totals)
    policy = Policy.make(mechanism, STARS, "1", GENERIC if mechanism == "tailored" else None)
    assert totals[-2] == total_loss({policy: 20}, delta=DELTA).approximate


@pytest.mark.parametrize("mechanism", ["bounded-laplace", "randomized-response", "tailored"])
def test_the_epsilon_found_adds_up_to_the_total(mechanism: str) -> None:
    composed = composition(mechanism, GENERIC)
    for count, total in ((30, 5.0), (65, 30.0)):
        epsilon = epsilon_of_total(total, count, composed)
        assert composed(epsilon, count) == pytest.approx(total, rel=0.02)


def test_bisection_asks_for_few_totals_and_finds_any_rising_law() -> None:
    asked: list[str] = []

    def square(epsilon: str, count: int) -> float:
        asked.append(epsilon)
        return count * float(epsilon) ** 2

    assert float(epsilon_of_total(9.0, 25, square)) == pytest.approx(0.6, rel=1e-3)
    assert len(asked) <= 9


def test_a_total_out_of_reach_is_the_largest_epsilon_or_an_error() -> None:
    composed = composition("duchi", GENERIC)
    assert epsilon_of_total(50.0, 1, composed) == "20"
    with pytest.raises(InvalidInputError, match=r"add up to more than 1e-06; choose a larger total"):
        epsilon_of_total(1e-6, 100, composed)


def test_at_an_equal_total_bounded_laplace_may_say_more_for_every_rating() -> None:
    levels = user_levels(["bounded-laplace", "duchi", "tailored"], [65], GENERIC, [10.0, 30.0])
    assert [(level.mechanism, level.ratings, level.total) for level in levels[:2]] == [
        ("bounded-laplace", 65, 10.0),
        ("bounded-laplace", 65, 30.0),
    ]
    found = {(level.mechanism, level.total): level for level in levels}
    for total in (10.0, 30.0):
        bounded, duchi, tailored = (found[name, total] for name in ("bounded-laplace", "duchi", "tailored"))
        assert bounded.epsilon > 1.5 * duchi.epsilon
        assert bounded.noise_deviation < duchi.noise_deviation
        assert tailored.noise_deviation < bounded.noise_deviation
    assert found["duchi", 10.0].noise_deviation > found["duchi", 30.0].noise_deviation
    # The known total of 65 reports at epsilon 1 is 30.6.
    assert found["bounded-laplace", 30.0].epsilon == pytest.approx(0.985, rel=0.02)


def test_people_and_their_histogram_come_from_the_data() -> None:
    data = invented()
    counts = np.sort(np.bincount(data.users.codes))
    assert usual_counts(data) == (counts[99], counts[179])
    prior = reported_prior(data, np.random.default_rng(0))
    true = np.bincount(data.ranks) / len(data)
    assert np.abs(prior.probabilities - true).max() < 0.1
    assert min(TOTALS) > 0


def test_errors_are_interpolated_and_never_beyond_what_was_measured() -> None:
    measured = ([0.5, 2.0], [1.0, 0.9])
    assert error_at(1.0, *measured) == pytest.approx(0.95)
    assert (error_at(0.5, *measured), error_at(0.4, *measured), error_at(2.1, *measured)) == (1.0, None, None)
