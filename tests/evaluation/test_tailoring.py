from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tacit.evaluation.figures import render
from tacit.evaluation.prior_cost import PriorCost, prior_cost_figure, prior_costs
from tacit.evaluation.tailoring import FIRST_MECHANISM, draw_reports, tailored_policy, tailored_reports
from tacit.privacy.mechanisms import build_channel
from tacit.privacy.policy import Policy
from tacit.privacy.prior import Prior
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning import ReportMatrix

STARS = RatingScale.parse("1:5:1")
# Most ratings at the top, as in shops.
GENEROUS = Prior.of(STARS, [8, 5, 8, 19, 60])


def people(count: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint16]]:
    """Give everyone twenty ratings, of their own items."""
    users, items = np.repeat(np.arange(count, dtype=np.int32), 20), np.tile(np.arange(20, dtype=np.int32), count)
    ranks = np.random.default_rng(1).choice(5, len(users), p=GENEROUS.probabilities).astype(np.uint16)
    return users, items, ranks


def two_rounds(count: int, seed: int = 0) -> ReportMatrix:
    return tailored_reports(*people(count), STARS, "1", np.random.default_rng(seed))


def test_a_tenth_of_the_users_report_first_and_everyone_once() -> None:
    matrix = two_rounds(203)
    assert matrix.reports == 203 * 20
    policies = {policy.mechanism: policy for policy in matrix.policies}
    assert set(policies) == {FIRST_MECHANISM, "tailored"}
    assert {policy.epsilon for policy in matrix.policies} == {1}
    owner = np.repeat([p.mechanism for p in matrix.policies], [p.channel.weights.symbols for p in matrix.policies])
    mechanisms = owner[matrix.by_user.values].reshape(203, 20)
    assert (mechanisms == mechanisms[:, :1]).all(), "nobody reports under two policies"
    assert (mechanisms[:, 0] == FIRST_MECHANISM).sum() == 20


def test_the_same_seed_gives_the_same_reports() -> None:
    assert two_rounds(40).checksum == two_rounds(40).checksum
    assert two_rounds(40).checksum != two_rounds(40, seed=1).checksum


@pytest.mark.parametrize(("count", "policies"), [(1, 1), (2, 2)])
def test_there_is_always_somebody_who_reports_first(count: int, policies: int) -> None:
    matrix = two_rounds(count)
    assert matrix.reports == count * 20
    assert len(matrix.policies) == policies


def test_a_policy_is_chosen_from_reports_alone() -> None:
    assert list(inspect.signature(tailored_policy).parameters) == ["symbols", "channel"]
    channel = build_channel(FIRST_MECHANISM, STARS, "3")
    rng = np.random.default_rng(0)
    ranks = rng.choice(5, 10_000, p=GENEROUS.probabilities).astype(np.uint16)
    learned = tailored_policy(draw_reports(channel, ranks, rng), channel).channel
    best, generic = (Policy.make("tailored", STARS, "3", prior).channel for prior in (GENEROUS, None))
    noise = [one.calibrate(GENEROUS).noise_variance for one in (best, learned, generic)]
    assert noise[1] == pytest.approx(noise[0], rel=0.01)
    assert noise[1] < 0.8 * noise[2]


@pytest.fixture(scope="module")
def costs() -> list[PriorCost]:
    return prior_costs(GENEROUS, ["0.5", "3"], rng=np.random.default_rng(0))


def test_the_right_prior_is_best_and_all_lose_the_same_privacy(costs: list[PriorCost]) -> None:
    assert len(costs) == 12
    for epsilon in (0.5, 3.0):
        rows = [row for row in costs if row.epsilon == epsilon]
        noise = {row.prior: row.noise_variance for row in rows}
        assert noise["true"] <= min(noise.values()) * (1 + 1e-9)
        assert noise["learned"] < noise["mirrored"]
        assert noise[None] > 2 * noise["true"]
        assert all(row.against_true == pytest.approx(row.noise_variance / noise["true"]) for row in rows)
        assert all(row.exact_loss == pytest.approx(epsilon, rel=1e-6) for row in rows if row.prior)
        assert all(row.exact_loss <= epsilon for row in rows)


def test_the_costs_are_drawn(costs: list[PriorCost]) -> None:
    picture = render(prior_cost_figure(costs), "svg").decode()
    for text in ("mirrored histogram", "learned from reports", "bounded Laplace", "exact loss of one report"):
        assert text in picture
