"""Every mechanism on every scale at every epsilon keeps the same promises."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import opendp.prelude as dp
import pyarrow.parquet as pq
import pytest

from tacit.errors import MechanismError, PriorError
from tacit.privacy.calibration import calibrate
from tacit.privacy.continuous import bounded_laplace_cdf
from tacit.privacy.exact import exp_lower_bound
from tacit.privacy.mechanisms import MECHANISMS, build_channel
from tacit.privacy.mechanisms.laplace import cells_per_step
from tacit.privacy.policy import Policy
from tacit.privacy.prior import Prior
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCALES = ["1:5:1", "0.5:5:0.5", "1:10:1", "-10:10:0.25"]
EPSILONS = ["0.1", "0.5", "1", "2", "3"]
EXTREMES = ["0.001", "20"]
STARS = RatingScale.parse("1:5:1")


@pytest.mark.parametrize("epsilon", EPSILONS + EXTREMES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_exact_loss_recomputed_from_the_document_with_plain_fractions(mechanism: str, scale: str, epsilon: str) -> None:
    policy = Policy.make(mechanism, RatingScale.parse(scale), epsilon)
    document = json.loads(policy.to_json())
    rows = [[int(weight) for weight in row] for row in document["channel"]["weights"]]
    assert all(sum(row) == 2**64 and min(row) > 0 for row in rows)
    worst = max(Fraction(max(column), min(column)) for column in zip(*rows, strict=True))
    assert worst == policy.channel.worst_ratio
    assert worst <= exp_lower_bound(Decimal(epsilon))
    assert policy.channel.exact_loss == pytest.approx(math.log(worst), rel=1e-12)
    assert policy.channel.exact_loss <= float(epsilon)
    least = 0.98 if mechanism == "bounded-laplace" else 0.999
    assert policy.channel.exact_loss >= least * float(epsilon)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_symbols_are_distinct_rising_and_as_many_as_columns(mechanism: str) -> None:
    channel = build_channel(mechanism, STARS, 1)
    assert list(channel.values) == sorted(set(channel.values))
    assert channel.likelihood.shape == (5, len(channel.values))


@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
@pytest.mark.parametrize("scale", SCALES)
def test_bounded_laplace_integrates_the_papers_density_over_each_cell(scale: str, epsilon: float) -> None:
    ratings = RatingScale.parse(scale)
    channel = build_channel("bounded-laplace", ratings, epsilon)
    half_cell = float(ratings.step) / cells_per_step(ratings) / 2
    noise = channel.symbol_values - ratings.ratings[:, np.newaxis]
    rating = ratings.ratings[:, np.newaxis]
    upper = bounded_laplace_cdf(noise + half_cell, rating, ratings, epsilon)
    lower = bounded_laplace_cdf(noise - half_cell, rating, ratings, epsilon)
    np.testing.assert_allclose(channel.likelihood, upper - lower, rtol=1e-9)


def test_bounded_laplace_pulls_to_the_middle_as_measured() -> None:
    means = build_channel("bounded-laplace", STARS, 1).mean
    np.testing.assert_allclose(means, [2.67, 2.78, 3.00, 3.22, 3.33], atol=0.006)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
@pytest.mark.parametrize("mechanism", ["duchi", "piecewise", "hybrid"])
def test_mechanisms_for_means_are_unbiased(mechanism: str, epsilon: float, scale: str) -> None:
    channel = build_channel(mechanism, RatingScale.parse(scale), epsilon)
    np.testing.assert_allclose(channel.bias, 0.0, atol=1e-7 * float(channel.scale.width))


# Native worst variances on 1..5 at epsilon 0.5, 1, 2 and 3, computed independently of this code.
NATIVE_VARIANCE = {
    "piecewise": [84.9, 20.9, 4.91, 1.97],
    "hybrid": [66.7, 17.2, 4.17, 1.73],
}


@pytest.mark.parametrize("mechanism", NATIVE_VARIANCE)
def test_native_variances_are_those_of_the_continuous_mechanisms(mechanism: str) -> None:
    for epsilon, expected in zip([0.5, 1, 2, 3], NATIVE_VARIANCE[mechanism], strict=True):
        channel = build_channel(mechanism, STARS, epsilon)
        # Merging an output interval into its midpoint removes the spread inside it.
        assert 0.8 * expected < channel.variance.max() <= expected * 1.01


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_randomized_response_is_as_private_as_opendp_says(epsilon: float) -> None:
    dp.enable_features("contrib")
    truth = float(build_channel("randomized-response", STARS, epsilon).likelihood[0, 0])
    measurement = dp.m.make_randomized_response([1, 2, 3, 4, 5], truth)
    assert measurement.map(1) == pytest.approx(epsilon, rel=1e-9)


def test_square_wave_has_the_window_of_its_paper() -> None:
    epsilon = 1.0
    grown = math.exp(epsilon)
    half_window = (epsilon * grown - grown + 1) / (2 * grown * (grown - 1 - epsilon))
    channel = build_channel("square-wave", STARS, epsilon)
    inside = channel.likelihood > channel.likelihood.min(axis=0) * 1.5
    mass_inside = (channel.likelihood * inside).sum(axis=1)
    np.testing.assert_allclose(mass_inside, 2 * half_window * grown / (2 * half_window * grown + 1), rtol=1e-9)


def test_tailored_asks_one_question_of_five_stars_at_small_epsilon() -> None:
    channel = build_channel("tailored", STARS, 1)
    assert channel.bits == 1
    assert channel.calibrate(Prior.generic(STARS)).values == pytest.approx(channel.symbol_values)


@pytest.mark.parametrize("epsilon", [0.5, 2, 4])
def test_tailored_beats_every_rival_for_its_prior(epsilon: float) -> None:
    for scale in (STARS, RatingScale.parse("-10:10:0.25")):
        for prior in (Prior.generic(scale), Prior.uniform(scale)):
            noise = {
                name: build_channel(name, scale, epsilon, prior).calibrate(prior).noise_deviation for name in MECHANISMS
            }
            assert noise["tailored"] <= min(noise.values()) * (1 + 1e-6)


@pytest.mark.parametrize("step", ["0.0001", "1", "1000000"])
@pytest.mark.parametrize("epsilon", ["0.001", "0.05", "1"])
def test_tailored_is_as_good_on_any_unit_and_at_any_epsilon(step: str, epsilon: str) -> None:
    """For small epsilon the best one-bit question explains tanh(epsilon / 2)^2 of what it asks about."""
    scale = RatingScale.of(0, Decimal(step) * 4, step)
    prior = Prior.generic(scale)
    best = 0.0
    for cut in range(1, 5):
        upper = prior.probabilities[cut:].sum()
        split = prior.probabilities[cut:] @ scale.ratings[cut:] / upper - prior.mean
        best = max(best, split**2 * upper / (1 - upper))
    noise = build_channel("tailored", scale, epsilon, prior).calibrate(prior).noise_variance
    explained = prior.variance / (1 + noise / prior.variance)
    # Var of the answer to a question asked of share u is between u (1 - u) and 1/4 of one bit.
    assert explained >= 0.9 * best * math.tanh(float(epsilon) / 2) ** 2


def test_a_prior_of_another_scale_is_refused() -> None:
    with pytest.raises(PriorError, match="use a prior on that scale"):
        build_channel("tailored", STARS, 1, Prior.uniform(RatingScale.parse("0:4:1")))


def test_tailored_is_optimal_among_random_channels_of_three_ranks() -> None:
    scale, epsilon = RatingScale.parse("1:3:1"), 1.5
    prior = Prior.of(scale, [1, 3, 2])
    best = build_channel("tailored", scale, epsilon, prior).calibrate(prior).noise_variance
    rng = np.random.default_rng(0)
    for _ in range(300):
        levels = np.exp(epsilon * rng.random((3, 4)))
        probabilities = levels / levels.sum(axis=1, keepdims=True)
        loss = np.log(probabilities.max(axis=0) / probabilities.min(axis=0)).max()
        if loss <= epsilon:
            assert calibrate(probabilities, prior).noise_variance >= best


def test_tailored_noise_on_movielens_meets_its_bar(data_file: Callable[[str], Path]) -> None:
    ratings = pq.read_table(data_file("ml-100k.parquet")).column("rating").to_numpy()
    prior = Prior.of(STARS, np.bincount(STARS.ranks_of(ratings), minlength=5))
    noise = {
        (name, epsilon): build_channel(name, STARS, epsilon, prior).calibrate(prior).noise_deviation
        for name in ("tailored", "bounded-laplace")
        for epsilon in (1, 3)
    }
    assert noise["tailored", 1] <= 2.7
    assert noise["tailored", 3] <= 0.9
    assert noise["bounded-laplace", 1] == pytest.approx(6.2, abs=0.05)
    assert noise["bounded-laplace", 3] == pytest.approx(2.0, abs=0.05)


@pytest.mark.parametrize(
    ("mechanism", "reason"), [("laplace", "no finite table"), ("none", "true rating"), ("gauss", "choose one of")]
)
def test_what_makes_no_channel_is_refused_with_the_reason(mechanism: str, reason: str) -> None:
    with pytest.raises(MechanismError, match=reason):
        build_channel(mechanism, STARS, 1)


def test_the_largest_scale_works() -> None:
    scale = RatingScale.parse("0:500:1")
    for mechanism in ("bounded-laplace", "tailored", "duchi"):
        assert build_channel(mechanism, scale, 1).exact_loss <= 1
