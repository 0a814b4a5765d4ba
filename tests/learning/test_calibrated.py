"""Calibrated reports: every symbol read through its own channel, and weighed by what it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.learning import ChannelMfOptions, ReportMatrix, fit
from tacit.learning.calibrated import calibrated, centre_of, unheard
from tacit.learning.deconvolution import fit_prior
from tacit.privacy.mechanisms import MECHANISMS
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from numpy.typing import NDArray

STARS = RatingScale.parse("1:5:1")
LINEAR = ChannelMfOptions(rank=0, pattern=False, tune=False)


def drawn(policy: Policy, ranks: NDArray[Any], seed: int = 0) -> NDArray[Any]:
    words = np.random.default_rng(seed).integers(0, 2**64, len(ranks), dtype=np.uint64)
    return np.asarray(policy.channel.draw(ranks, words))


def ratings(seed: int = 0, people: int = 40, things: int = 30) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((people, things)) < 0.4)
    liked = 2.4 + 0.6 * rng.standard_normal(people)[users] + 0.6 * rng.standard_normal(things)[items]
    return users, items, np.clip(np.round(liked), 0, 4).astype(np.uint16)


def matrix_of(*epsilons: str, mechanism: str = "bounded-laplace", scale: RatingScale = STARS) -> ReportMatrix:
    """Reports of one world, each user's under one of the policies."""
    users, items, ranks = ratings()
    policies = [Policy.make(mechanism, scale, epsilon) for epsilon in epsilons]
    parts = []
    for number, policy in enumerate(policies):
        own = users % len(policies) == number
        parts.append((users[own], items[own], drawn(policy, ranks[own] * (scale.size - 1) // 4), policy))
    return ReportMatrix.of_parts(parts)


def sections(matrix: ReportMatrix, numbers: NDArray[Any]) -> list[NDArray[Any]]:
    sizes = [policy.channel.weights.symbols for policy in matrix.policies]
    return np.split(numbers, np.cumsum(sizes)[:-1])


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("scale", [STARS, RatingScale.parse("-10:10:0.5"), RatingScale.parse("0:1:1")])
@pytest.mark.parametrize("epsilons", [["0.01"], ["3"], ["0.1", "1", "4"]])
def test_values_are_unbiased_to_first_order_and_their_noise_is_known(
    mechanism: str, scale: RatingScale, epsilons: list[str]
) -> None:
    matrix = matrix_of(*epsilons, mechanism=mechanism, scale=scale)
    found = calibrated(matrix)
    assert found.values is not None
    counts = np.bincount(matrix.by_user.values, minlength=len(found.values))
    prior = fit_prior(list(zip([policy.channel for policy in matrix.policies], sections(matrix, counts), strict=True)))
    assert found.rating_variance == pytest.approx(prior.variance)
    away = scale.ratings - prior.mean
    for policy, values, noise in zip(
        matrix.policies, sections(matrix, found.values), sections(matrix, found.noise_variances), strict=True
    ):
        joint = prior.probabilities[:, None] * policy.channel.likelihood
        said = values - prior.mean
        size = np.abs(said).max()
        assert (joint.sum(axis=0) @ said) == pytest.approx(0, abs=1e-7 * size)  # the mean is that of the ratings,
        assert away @ joint @ said == pytest.approx(prior.variance, rel=1e-6)  # the slope on them is one,
        left = (joint * (said[None, :] - away[:, None]) ** 2).sum()  # and this is what is left of noise
        np.testing.assert_allclose(noise, left, rtol=1e-6)


def test_every_symbol_has_the_value_and_the_variance_of_its_own_policy() -> None:
    together = matrix_of("0.1", "3")
    found = calibrated(together)
    assert found.values is not None
    counts = sections(together, np.bincount(together.by_user.values, minlength=len(found.values)))
    prior = fit_prior(list(zip([policy.channel for policy in together.policies], counts, strict=True)))
    for policy, values, noise in zip(
        together.policies, sections(together, found.values), sections(together, found.noise_variances), strict=True
    ):
        joint = prior.probabilities[:, None] * policy.channel.likelihood
        expected = scale_to_slope_one(joint, STARS.ratings - prior.mean)
        np.testing.assert_allclose(values - prior.mean, expected, rtol=1e-6, atol=1e-9)
        assert len(np.unique(noise)) == 1
    loud, quiet = (float(noise[0]) for noise in sections(together, found.noise_variances))
    if together.policies[0].channel.epsilon > together.policies[1].channel.epsilon:
        loud, quiet = quiet, loud
    assert loud > 100 * quiet
    weights = found.precisions(0.5)
    np.testing.assert_allclose(weights, 1 / (found.noise_variances + 0.5), rtol=1e-6)
    table = found.table()
    assert table is not None
    np.testing.assert_allclose(table, found.values - centre_of(STARS), rtol=1e-5, atol=1e-5)


def scale_to_slope_one(joint: NDArray[Any], away: NDArray[Any]) -> NDArray[Any]:
    """Posterior means, stretched until their regression on the rating has slope one."""
    means = (away @ joint) / joint.sum(axis=0)
    return np.asarray(means * ((joint.sum(axis=1) @ away**2) / (away @ joint @ means)))


def predictions(matrix: ReportMatrix) -> NDArray[Any]:
    model = fit(matrix, LINEAR, np.random.default_rng(0), threads=1)
    users, items = (codes.ravel() for codes in np.indices((40, 30)))
    return np.asarray(model.predict(users, items).ratings)


def parts(seed: int, weak: str, strong: str = "4") -> tuple[Any, ...]:
    """A random half of the reports under a precise policy, the rest under another."""
    users, items, ranks = ratings(seed)
    first = np.random.default_rng(seed).random(len(users)) < 0.5
    return tuple(
        (users[own], items[own], drawn(policy, ranks[own], seed), policy)
        for own, policy in (
            (first, Policy.make("bounded-laplace", STARS, strong)),
            (~first, Policy.make("bounded-laplace", STARS, weak)),
        )
    )


@pytest.mark.parametrize("seed", range(3))
def test_next_to_meaningless_reports_change_next_to_nothing(seed: int) -> None:
    precise, noisy = parts(seed, "0.01")
    everybody: dict[str, Any] = {"catalogue_users": range(40), "catalogue_items": range(30)}
    alone = predictions(ReportMatrix.of_parts([precise], **everybody))
    moved = np.abs(predictions(ReportMatrix.of_parts([precise, noisy], **everybody)) - alone)
    informed = np.abs(predictions(ReportMatrix.of_parts([precise, parts(seed, "4")[1]], **everybody)) - alone)
    assert moved.max() < 0.02
    assert informed.mean() > 10 * moved.mean()


@settings(max_examples=20)
@given(st.dictionaries(st.sampled_from(["0.01", "0.5", "1", "4"]), st.integers(1, 5), min_size=1))
def test_information_adds_up(counts: dict[str, int]) -> None:
    """An item is as well known as its prior and all of its reports together say, each by its own policy."""
    policies = {epsilon: Policy.make("randomized-response", STARS, epsilon) for epsilon in counts}
    people = [(f"{epsilon} {number}", epsilon) for epsilon, count in counts.items() for number in range(count)]
    reported = [([name], ["x"], [number % 5], policies[epsilon]) for number, (name, epsilon) in enumerate(people)]
    matrix = ReportMatrix.of_parts(reported)
    found = calibrated(matrix)
    weights = found.precisions(0.6 * found.rating_variance).astype(np.float64)[matrix.by_user.values]
    model = fit(matrix, LINEAR, np.random.default_rng(0), threads=1)
    assert model.channel is not None
    precision = 1 / (0.1 * found.rating_variance) + weights.sum()
    assert model.channel.beliefs.item_offset_variances[0] == pytest.approx(1 / precision, rel=1e-4)


def test_a_report_never_weighs_more_under_less_epsilon() -> None:
    noise = [float(calibrated(matrix_of(epsilon)).noise_variances[0]) for epsilon in ("0.01", "0.1", "1", "3", "10")]
    assert noise == sorted(noise, reverse=True)


def test_plain_numbers_have_no_noise_and_vary_at_least_a_little() -> None:
    users, items, ranks = ratings()
    plain = calibrated(ReportMatrix.of_values(users, items, ranks + 1.0, STARS))
    assert plain.values is plain.table() is None
    assert plain.noise_variances.tolist() == [0.0]
    assert plain.rating_variance == pytest.approx(np.var(ranks + 1.0), rel=1e-5)
    same = calibrated(ReportMatrix.of_values(users, items, np.full(len(users), 4.0), STARS))
    assert same.rating_variance == pytest.approx((0.05 * 4) ** 2)


@pytest.mark.parametrize("plain", [False, True])
def test_what_is_unheard_says_nothing(plain: bool) -> None:
    users, items, ranks = ratings()
    matrix = ReportMatrix.of_values(users, items, ranks + 1.0, STARS) if plain else matrix_of("3")
    nothing = unheard(matrix)
    assert nothing.centre == centre_of(STARS) == pytest.approx(3.4)
    assert (nothing.precisions(1.0) < 1e-20).all()
    table = nothing.table()
    assert table is None if plain else not np.any(table)
