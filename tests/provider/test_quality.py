from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tacit.errors import InvalidInputError, ReportError
from tacit.evaluation.world import WorldShape, make_world
from tacit.learning import ChannelMfOptions, GlobalMeanOptions, ReportMatrix, fit
from tacit.privacy.policy import Policy
from tacit.privacy.prior import Prior
from tacit.privacy.scale import RatingScale
from tacit.provider.training.quality import _values, hold_out, quality

if TYPE_CHECKING:
    from tacit.learning.model import Model
    from tacit.learning.reports import Part

STARS = RatingScale.parse("1:5:1")
WORLD = make_world(STARS, shape=WorldShape(400, 300, 20_000), seed=0)
RANKS = STARS.ranks_of(WORLD.ratings)
# A fifth is held out here, so that a few draws show something.
HELD = np.random.default_rng(0).random(len(RANKS)) < 0.2


def policies_of(mechanism: str, epsilon: str) -> list[Policy]:
    """Return the policies of even and of odd people; a tailored one leaves a histogram open, so it comes second."""
    policy = Policy.make(mechanism, STARS, epsilon)
    return [Policy.make("piecewise", STARS, epsilon), policy] if mechanism == "tailored" else [policy, policy]


def reports(mechanism: str, epsilon: str, seed: int) -> list[Part]:
    rng, parts = np.random.default_rng(seed), []
    for odd, policy in enumerate(policies_of(mechanism, epsilon)):
        rows = WORLD.users % 2 == odd
        symbols = policy.channel.draw(RANKS[rows], rng.integers(0, 2**64, rows.sum(), dtype=np.uint64))
        parts.append((WORLD.users[rows].astype(np.int64), WORLD.items[rows], symbols, policy))
    return parts


def split(parts: list[Part]) -> tuple[list[Part], list[Part]]:
    halves = []
    for chosen in (~HELD, HELD):
        rows = [chosen[WORLD.users % 2 == odd] for odd in (0, 1)]
        halves.append([(u[r], i[r], s[r], p) for (u, i, s, p), r in zip(parts, rows, strict=True)])
    return halves[0], halves[1]


@dataclass(frozen=True)
class Measured:
    true: float
    low: float
    high: float
    rmse: float


def measured(model: Model, mechanism: str, epsilon: str, seed: int) -> Measured:
    found = quality(model, split(reports(mechanism, epsilon, seed))[1])
    predicted = model.predict(WORLD.users[HELD], WORLD.items[HELD]).ratings
    true = float(np.sqrt(np.mean((predicted - WORLD.ratings[HELD]) ** 2)))
    return Measured(true, found.rmse_low, found.rmse_high, found.rmse)


@pytest.mark.parametrize("mechanism", ["bounded-laplace", "randomized-response", "tailored"])
def test_the_interval_covers_the_true_error_as_often_as_it_says(mechanism: str) -> None:
    covered, draws = 0, 12
    for epsilon in ("0.5", "1", "3"):
        train = split(reports(mechanism, epsilon, 99))[0]
        model = fit(ReportMatrix.of_parts(train), ChannelMfOptions(), np.random.default_rng(0), threads=1)
        found = [measured(model, mechanism, epsilon, seed) for seed in range(draws)]
        covered += sum(one.low <= one.true <= one.high for one in found)
        assert all(one.low <= one.rmse <= one.high for one in found)
    assert covered >= 31  # of 36; with a chance of 95 % each, fewer come about once in a hundred times


def test_the_interval_is_narrow_where_reports_say_much() -> None:
    train = split(reports("randomized-response", "5", 99))[0]
    model = fit(ReportMatrix.of_parts(train), ChannelMfOptions(), np.random.default_rng(0), threads=1)
    found = measured(model, "randomized-response", "5", 0)
    assert found.high - found.low < 0.15
    assert abs(found.rmse - found.true) < 0.05


def test_a_better_model_is_seen_to_be_better_and_a_constant_to_be_one() -> None:
    train, held = split(reports("bounded-laplace", "3", 0))
    matrix = ReportMatrix.of_parts(train)
    good = quality(fit(matrix, ChannelMfOptions(), np.random.default_rng(0), threads=1), held)
    flat = quality(fit(matrix, GlobalMeanOptions(), np.random.default_rng(0), threads=1), held)
    assert good.rmse < good.constant_rmse - 0.05
    assert good.constant_rmse == flat.constant_rmse
    assert flat.rmse > flat.constant_rmse  # the mean of symbols is not that of ratings
    assert abs(good.constant_rmse - WORLD.ratings[HELD].std()) < 0.1


@pytest.mark.parametrize("scale", ["1:5:1", "1:10:1", "-10:10:0.5"])
@pytest.mark.parametrize("mechanism", ["bounded-laplace", "randomized-response", "piecewise"])
def test_values_of_symbols_are_unbiased_whatever_the_prior(mechanism: str, scale: str) -> None:
    for epsilon in ("0.1", "1", "5"):
        channel = Policy.make(mechanism, RatingScale.parse(scale), epsilon).channel
        for wanted in (channel.scale.ratings, channel.scale.ratings**2):
            values = _values(channel, Prior.generic(channel.scale), wanted)
            assert np.allclose(channel.likelihood @ values, wanted, atol=1e-4)


def test_a_channel_of_one_bit_is_unbiased_on_average_over_the_prior() -> None:
    channel, prior = Policy.make("tailored", STARS, "1").channel, Prior.generic(STARS)
    values = _values(channel, prior, STARS.ratings**2)
    assert len(values) == 2
    assert prior.probabilities @ channel.likelihood @ values == pytest.approx(prior.probabilities @ STARS.ratings**2)


def test_reports_are_held_out_at_random_and_none_is_lost() -> None:
    parts = reports("tailored", "1", 0)
    train, held = hold_out(parts, share=0.25, rng=np.random.default_rng(1))
    again = hold_out(parts, share=0.25, rng=np.random.default_rng(1))
    assert sum(len(users) for users, *_ in held) == 5_000
    assert np.array_equal(held[0][2], again[1][0][2])

    def rows(these: list[Part]) -> set[tuple[int, int, int]]:
        return {row for users, items, symbols, _ in these for row in zip(users, items, symbols, strict=True)}

    assert rows(train) | rows(held) == rows(parts)
    assert not rows(train) & rows(held)


def test_a_share_that_leaves_nothing_is_refused() -> None:
    few: list[Part] = [([1, 2, 3], [1, 2, 3], [0, 1, 1], Policy.make("tailored", STARS, "1"))]
    for share in (0.0, 1.0, 0.01, -0.5, float("nan")):
        with pytest.raises(InvalidInputError):
            hold_out(few, share=share, rng=np.random.default_rng(0))


def test_reports_on_another_scale_are_refused() -> None:
    train, _ = split(reports("bounded-laplace", "3", 0))
    model = fit(ReportMatrix.of_parts(train), GlobalMeanOptions(), np.random.default_rng(0))
    other = Policy.make("bounded-laplace", RatingScale.parse("1:10:1"), "1")
    with pytest.raises(ReportError, match="cannot judge"):
        quality(model, [([1], [1], [0], other)])


def test_one_device_gives_no_end_to_the_interval() -> None:
    train, held = split(reports("bounded-laplace", "3", 0))
    model = fit(ReportMatrix.of_parts(train), GlobalMeanOptions(), np.random.default_rng(0))
    users, items, symbols, policy = held[0]
    own = users == users[0]
    found = quality(model, [(users[own], items[own], symbols[own], policy)])
    assert (found.rmse_low, found.held_out) == (0, own.sum())
    assert found.rmse_high == 4  # the width of the scale: no error is larger
