from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from tacit.errors import ChannelError, PriorError, PrivacyClaimError
from tacit.privacy.channel import Channel
from tacit.privacy.exact import exp_lower_bound
from tacit.privacy.mechanisms import MECHANISMS, build_channel
from tacit.privacy.prior import Prior
from tacit.privacy.scale import RatingScale
from tacit.privacy.weights import ROW_TOTAL, WeightTable

STARS = RatingScale.parse("1:5:1")
COIN = RatingScale.parse("0:1:1")


def coin(weight: int, epsilon: str) -> Channel:
    """Tell one bit truthfully with probability weight / 2^64."""
    rows = ((weight, ROW_TOTAL - weight), (ROW_TOTAL - weight, weight))
    return Channel(COIN, Decimal(epsilon), (Decimal(0), Decimal(1)), WeightTable(rows))


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "3", "20"])
def test_a_claim_is_refused_from_the_first_unit_too_much(epsilon: str) -> None:
    bound = exp_lower_bound(Decimal(epsilon))
    # The largest weight with weight / (2^64 - weight) <= bound.
    most = ROW_TOTAL * bound.numerator // (bound.numerator + bound.denominator)
    assert coin(most, epsilon).exact_loss == pytest.approx(float(epsilon), rel=1e-6)
    with pytest.raises(PrivacyClaimError, match="more than the epsilon"):
        coin(most + 1, epsilon)


def test_a_table_must_fit_scale_and_symbols() -> None:
    table = coin(2**63, "1").weights
    with pytest.raises(ChannelError, match="call for a 5 x 2 table, not 2 x 2"):
        Channel(STARS, Decimal(1), (Decimal(0), Decimal(1)), table)
    with pytest.raises(ChannelError, match="call for a 2 x 3 table"):
        Channel(COIN, Decimal(1), (Decimal(0), Decimal(1), Decimal(2)), table)


def test_each_rank_needs_a_word_of_its_own_and_a_place_on_the_scale() -> None:
    channel = coin(2**63, "1")
    with pytest.raises(ChannelError, match="one of its own"):
        channel.draw(np.zeros(2, dtype=np.uint16), np.zeros(1, dtype=np.uint64))
    for rank in (2, -1):
        with pytest.raises(ChannelError, match="beyond the scale"):
            channel.draw(np.array([rank]).astype(np.int64), np.zeros(1, dtype=np.uint64))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_moments_and_likelihood_are_those_of_draws(mechanism: str) -> None:
    channel = build_channel(mechanism, STARS, 1)
    rng = np.random.default_rng(5)
    count = 200_000
    for rank in (0, 3):
        drawn = channel.draw(np.full(count, rank, dtype=np.uint16), rng.integers(0, 2**64, count, dtype=np.uint64))
        shares = np.bincount(drawn, minlength=channel.weights.symbols) / count
        error = 5 * np.sqrt(channel.likelihood[rank] / count) + 1e-9
        assert (np.abs(shares - channel.likelihood[rank]) < error).all()
        values = channel.symbol_values[drawn]
        assert values.mean() == pytest.approx(channel.mean[rank], abs=5 * np.sqrt(channel.variance[rank] / count))
        assert values.var() == pytest.approx(channel.variance[rank], rel=0.05)


@pytest.mark.parametrize("prior", [Prior.uniform(STARS), Prior.generic(STARS), Prior.of(STARS, [6, 11, 27, 34, 21])])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_calibration_has_slope_one_no_offset_and_the_stated_noise(mechanism: str, prior: Prior) -> None:
    channel = build_channel(mechanism, STARS, 1.5)
    calibration = channel.calibrate(prior)
    expected = channel.likelihood @ calibration.values
    deviation = STARS.ratings - prior.mean
    assert prior.probabilities @ expected == pytest.approx(prior.mean)
    assert (prior.probabilities * deviation) @ expected == pytest.approx(prior.variance)
    error = (calibration.values - STARS.ratings[:, np.newaxis]) ** 2
    assert prior.probabilities @ (channel.likelihood * error).sum(axis=1) == pytest.approx(calibration.noise_variance)


@pytest.mark.parametrize(
    "weights", [[1, 2, 3], [0, 0, 0, 0, 0], [1, 1, 1, 1, -1], [1, 1, np.nan, 1, 1], [np.inf, 1, 1, 1, 1]]
)
def test_senseless_priors_are_refused(weights: list[float]) -> None:
    with pytest.raises(PriorError, match="prior"):
        Prior.of(STARS, weights)


def test_a_prior_of_huge_weights_is_still_a_prior() -> None:
    assert Prior.of(STARS, [1e308, 1e308, 1e308, 1e308, 0]).probabilities[4] < 0.01


def test_a_prior_leaves_no_rating_impossible() -> None:
    assert Prior.of(STARS, [0, 0, 0, 0, 7]).probabilities.min() > 0.001
