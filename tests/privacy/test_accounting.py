from __future__ import annotations

import math
import sys
from decimal import Decimal
from itertools import product

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from tacit.errors import InvalidInputError, MissingExtraError
from tacit.privacy import accounting
from tacit.privacy.accounting import hockey_stick, pure_total, total_loss
from tacit.privacy.mechanisms import MECHANISMS
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

STARS = RatingScale.parse("1:5:1")


def policy_of(mechanism: str, epsilon: str = "1", scale: RatingScale = STARS) -> Policy:
    return Policy.make(mechanism, scale, epsilon)


# Epsilon at delta = 1e-6 of k reports, computed independently of this code.
KNOWN_TOTALS = [
    ("bounded-laplace", "0.1", 65, 2.08),
    ("bounded-laplace", "0.5", 65, 12.9),
    ("bounded-laplace", "1", 20, 13.4),
    ("bounded-laplace", "1", 65, 30.6),
    ("bounded-laplace", "1", 737, 192),
    ("clamped-laplace", "1", 65, 51.1),
    ("duchi", "1", 65, 58.8),
    ("duchi", "0.5", 65, 24.4),
    ("duchi", "1", 737, 451),
]


@pytest.mark.parametrize(("mechanism", "epsilon", "reports", "expected"), KNOWN_TOTALS)
def test_totals_agree_with_known_ones(mechanism: str, epsilon: str, reports: int, expected: float) -> None:
    totals = total_loss({policy_of(mechanism, epsilon): reports}, delta=1e-6)
    assert totals.pure == Decimal(epsilon) * reports
    # The known ones are for continuous outputs; cells give away up to 1.6 % less.
    assert totals.approximate == pytest.approx(expected, rel=0.02)
    assert totals.reports == reports


def test_a_total_agrees_with_the_library_on_the_pair_of_extremes() -> None:
    policy = policy_of("bounded-laplace")
    low, high = np.log(policy.channel.likelihood[[0, -1]])
    library = pld.from_two_probability_mass_functions(
        dict(enumerate(low)), dict(enumerate(high)), value_discretization_interval=1e-3
    )
    expected = library.self_compose(30).get_epsilon_for_delta(1e-6)
    assert total_loss({policy: 30}).approximate == pytest.approx(expected, rel=0.01)


def test_a_total_is_never_below_the_exact_one_of_two_reports() -> None:
    policy = policy_of("randomized-response", "2")
    likelihood = policy.channel.likelihood
    for delta in (1e-3, 0.05, 0.2):
        exact = 0.0
        for first, second in product(product(range(5), repeat=2), repeat=2):
            p = np.outer(likelihood[first[0]], likelihood[first[1]])
            q = np.outer(likelihood[second[0]], likelihood[second[1]])
            grid = np.linspace(0, 4, 401)
            curve = np.maximum(p[..., None] - np.exp(grid) * q[..., None], 0).sum(axis=(0, 1))
            exact = max(exact, float(grid[np.argmax(curve <= delta)]))
        found = total_loss({policy: 2}, delta=delta).approximate
        assert exact - 0.01 <= found <= exact + 0.05


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_curve_dominates_every_pair_of_ratings(mechanism: str) -> None:
    channel = policy_of(mechanism, "1.5").channel
    losses = np.linspace(-2, 2, 81)
    curve = hockey_stick(channel, losses)
    for p, q in product(channel.likelihood, repeat=2):
        pair = np.maximum(p - np.exp(losses)[:, np.newaxis] * q, 0).sum(axis=1)
        assert (curve >= pair - 1e-12).all()
    assert (np.diff(curve) <= 1e-15).all()
    assert (curve[losses >= channel.exact_loss] == 0).all()


def test_policies_mix_and_the_total_never_exceeds_the_pure_sum() -> None:
    mix = {policy_of("bounded-laplace", "0.1"): 40, policy_of("tailored", "3", RatingScale.parse("-10:10:0.25")): 3}
    totals = total_loss(mix)
    assert totals.pure == Decimal(13)
    alone = total_loss({next(iter(mix)): 40}).approximate
    assert alone < totals.approximate < 13
    assert total_loss({policy_of("duchi"): 2}, delta=1e-12).approximate <= 2


def test_long_scales_and_distant_epsilons_are_affordable() -> None:
    long_scale = policy_of("bounded-laplace", "1", RatingScale.parse("0:100:1"))
    assert 0.9 < total_loss({long_scale: 1}).approximate <= 1
    distant = total_loss({policy_of("duchi", "0.001"): 10, policy_of("duchi", "20"): 1})
    assert 19.9 < distant.approximate <= 20.01


def test_pure_sums_are_exact_where_floats_would_not_be() -> None:
    assert pure_total({policy_of("duchi", "0.1"): 3}) == Decimal("0.3")
    assert 0.1 * 3 != 0.3


def test_nothing_said_costs_nothing() -> None:
    assert total_loss({}).approximate == 0
    assert total_loss({policy_of("duchi"): 0}).pure == 0


@pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan])
def test_senseless_deltas_are_refused(delta: float) -> None:
    with pytest.raises(InvalidInputError, match="delta"):
        total_loss({policy_of("duchi"): 1}, delta=delta)
    with pytest.raises(InvalidInputError, match="negative"):
        total_loss({policy_of("duchi"): -1})


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    accounting._loss_distribution.cache_clear()
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(MissingExtraError, match=r"install tacit\[accounting\]"):
        total_loss({policy_of("duchi"): 1})
