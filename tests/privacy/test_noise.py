from __future__ import annotations

import numpy as np
import pytest

from tacit.privacy.continuous import draw_bounded_laplace, draw_laplace_noise, laplace_cdf
from tacit.privacy.mechanisms import MECHANISMS, build_channel
from tacit.privacy.noise import (
    bounded_laplace_noise_law,
    channel_noise_law,
    compare_noise,
    goodness_of_fit,
    laplace_noise_law,
)
from tacit.privacy.prior import Prior
from tacit.privacy.scale import RatingScale

STARS = RatingScale.parse("1:5:1")
MOVIELENS_LIKE = Prior.of(STARS, [6110, 11370, 27145, 34174, 21201])
UNLIKELY = 1e-4


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
@pytest.mark.parametrize("mechanism", ["laplace", *MECHANISMS])
def test_draws_follow_the_derived_law(mechanism: str, epsilon: str) -> None:
    law = compare_noise(mechanism, epsilon, MOVIELENS_LIKE, samples=100_000, rng=np.random.default_rng(7))
    assert law.derived.sum() == pytest.approx(1)
    assert law.drawn.sum() == pytest.approx(1)
    assert len(law.edges) == len(law.derived) + 1
    assert law.p_value > UNLIKELY


@pytest.mark.parametrize("text", ["1:5:1", "0.5:5:0.5", "1:10:1", "-10:10:0.25"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_channels_law_is_the_papers_closed_form(text: str, epsilon: float) -> None:
    scale = RatingScale.parse(text)
    histogram = Prior.generic(scale)
    edges = np.arange(-(scale.size - 1), scale.size) * float(scale.step)
    derived = channel_noise_law(build_channel("bounded-laplace", scale, epsilon), histogram)
    np.testing.assert_allclose(derived, bounded_laplace_noise_law(scale, epsilon, histogram, edges), rtol=1e-8)


def test_the_papers_closed_form_by_hand_for_two_ratings() -> None:
    # Ratings 0 and 1, b = 1: from 0 the noise lies in [0, 1) surely, from 1 in [-1, 0) surely.
    scale = RatingScale.parse("0:1:1")
    law = bounded_laplace_noise_law(scale, 1.0, Prior.of(scale, [3, 1]), np.array([-1.0, 0.0, 1.0]))
    np.testing.assert_allclose(law, [0.25, 0.75])


def test_the_continuous_simulation_follows_the_closed_form() -> None:
    rng = np.random.default_rng(11)
    ratings = STARS.ratings[rng.choice(5, p=MOVIELENS_LIKE.probabilities, size=100_000)]
    noise = draw_bounded_laplace(ratings, STARS, 1.0, rng) - ratings
    edges = np.arange(-4.0, 5.0)
    counts = np.histogram(noise, bins=edges)[0]
    assert counts.sum() == len(noise)
    assert goodness_of_fit(counts, bounded_laplace_noise_law(STARS, 1.0, MOVIELENS_LIKE, edges)) > UNLIKELY


@pytest.mark.parametrize("wrong", ["scale", "printed", "histogram"])
def test_the_statistical_test_rejects_a_wrong_law(wrong: str) -> None:
    """The law with b 10 % off, the exponents without /b as the paper prints them, or another histogram."""
    law = compare_noise("bounded-laplace", "1", MOVIELENS_LIKE, samples=100_000, rng=np.random.default_rng(3))
    counts = np.round(law.drawn * 100_000).astype(np.int64)
    wrong_law = {
        "scale": bounded_laplace_noise_law(STARS, 1.1, MOVIELENS_LIKE, law.edges),
        "printed": bounded_laplace_noise_law(STARS, 4.0, MOVIELENS_LIKE, law.edges),
        "histogram": bounded_laplace_noise_law(STARS, 1.0, Prior.uniform(STARS), law.edges),
    }[wrong]
    assert goodness_of_fit(counts, wrong_law) < UNLIKELY


def test_unbounded_laplace_law() -> None:
    assert laplace_cdf(0.0, 2.0) == 0.5
    np.testing.assert_allclose(laplace_noise_law(STARS, 1.0, np.array([-np.inf, 0.0, np.inf])), [0.5, 0.5])
    noise = draw_laplace_noise(200_000, STARS, 2.0, np.random.default_rng(0))
    assert noise.var() == pytest.approx(2 * 2.0**2, rel=0.03)


def test_goodness_of_fit_of_a_single_pool_says_nothing() -> None:
    assert goodness_of_fit(np.array([1, 2]), np.array([0.5, 0.5])) == 1.0
