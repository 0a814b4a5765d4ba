from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tacit.errors import InvalidInputError, ReportError
from tacit.evaluation.world import WorldShape, make_world
from tacit.privacy.mechanisms import MECHANISMS
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.provider.training.influence import InfluenceLimits, bounded
from tacit.provider.training.plausibility import Bets, implausible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.reports import Part

STARS = RatingScale.parse("1:5:1")
KEY = b"sixteen bytes or"
LIMITS = InfluenceLimits(KEY)


def drawn(policy: Policy, ranks: NDArray[np.uint16], rng: np.random.Generator) -> NDArray[np.uint16]:
    return policy.channel.draw(ranks, rng.integers(0, 2**64, len(ranks), dtype=np.uint64))


def honest_part(policy: Policy, seed: int = 0) -> Part:
    world = make_world(policy.scale, shape=WorldShape(200, 150, 6_000), seed=seed)
    symbols = drawn(policy, policy.scale.ranks_of(world.ratings), np.random.default_rng(seed))
    return world.users.astype(np.int64), world.items.astype(np.int64), symbols, policy


def fakes(policy: Policy, devices: NDArray[np.int64], items: NDArray[np.int64], symbol: int) -> Part:
    said = np.full(len(devices) * len(items), symbol, dtype=np.uint16)
    return np.repeat(devices, len(items)), np.tile(items, len(devices)), said, policy


def pairs(parts: list[Part]) -> set[tuple[int, int]]:
    return {pair for users, items, *_ in parts for pair in zip(users, items, strict=True)}


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
@pytest.mark.parametrize("scale", ["1:5:1", "1:10:1", "-10:10:0.5"])
def test_no_bet_pays_on_average_whatever_the_rating(mechanism: str, scale: str) -> None:
    for epsilon in ("0.1", "1", "5"):
        channel = Policy.make(mechanism, RatingScale.parse(scale), epsilon).channel
        bets = Bets.on([channel])
        means = channel.likelihood @ np.exp(bets.logs).T
        assert len(bets)
        assert means.max() <= 1 + 1e-12
        assert np.isclose(means.max(axis=0), 1).all()  # and none gives anything away


@pytest.mark.parametrize("mechanism", ["bounded-laplace", "randomized-response", "tailored"])
@pytest.mark.parametrize("reports", [5, 40, 400])
def test_honest_devices_are_left_out_no_more_often_than_stated(mechanism: str, reports: int) -> None:
    policy, rng, devices, chance = Policy.make(mechanism, STARS, "1"), np.random.default_rng(3), 1_500, 0.01
    bets, group = Bets.on([policy.channel]), np.repeat(np.arange(devices, dtype=np.int32), reports)
    for ranks in ([0], [4], [0, 4], [2], range(5)):
        rated = np.resize(np.array(ranks, dtype=np.uint16), len(group))
        wrong = implausible(bets.sums(drawn(policy, rated, rng), group, devices), chance)
        assert wrong.mean() <= chance


@pytest.mark.parametrize(
    ("mechanism", "reports"), [("bounded-laplace", 10), ("randomized-response", 30), ("tailored", 100)]
)
def test_a_device_that_always_says_the_same_is_left_out(mechanism: str, reports: int) -> None:
    policy = Policy.make(mechanism, STARS, "1")
    for symbol in (0, policy.channel.weights.symbols - 1):
        fake = fakes(policy, np.array([1_000]), np.arange(reports), symbol)
        found = bounded([honest_part(policy), fake], LIMITS)
        assert found.left_out.implausible_devices == 1
        assert found.left_out.reports_of_implausible_devices == reports
        assert pairs(found.parts) == pairs([honest_part(policy)])


def test_honest_reports_are_left_alone() -> None:
    for mechanism, epsilon in itertools.product(["bounded-laplace", "randomized-response", "tailored"], ["0.1", "3"]):
        part = honest_part(Policy.make(mechanism, STARS, epsilon))
        found = bounded([part], LIMITS)
        assert found.left_out.reports == 0
        assert all(np.array_equal(one, other) for one, other in zip(found.parts[0][:3], part[:3], strict=True))


def test_a_busy_device_is_heard_up_to_the_limit() -> None:
    policy, rng = Policy.make("randomized-response", STARS, "1"), np.random.default_rng(1)
    busy = np.full(120, 7), np.arange(120), drawn(policy, np.full(120, 2, dtype=np.uint16), rng), policy
    quiet = np.full(20, 8), np.arange(20), drawn(policy, np.full(20, 2, dtype=np.uint16), rng), policy
    found = bounded([busy, quiet], InfluenceLimits(KEY, most_reports=50))
    assert np.unique_counts(np.concatenate([users for users, *_ in found.parts])).counts.tolist() == [50, 20]
    assert (found.left_out.busy_devices, found.left_out.reports_of_busy_devices) == (1, 70)


def test_the_secret_alone_decides_which_reports_of_a_busy_device_are_heard() -> None:
    policy, rng = Policy.make("randomized-response", STARS, "1"), np.random.default_rng(1)
    columns = np.full(200, 7), np.arange(200), drawn(policy, np.full(200, 2, dtype=np.uint16), rng)
    order = rng.permutation(200)

    def heard(key: bytes, rows: NDArray[np.int64], names: type = int) -> set[int]:
        users, items, symbols = (column[rows] for column in columns)
        part = users, np.array([names(item) for item in items]), symbols, policy
        found = bounded([part], InfluenceLimits(key, most_reports=100))
        return {int(item) for item in found.parts[0][1]}

    kept = heard(KEY, np.arange(200))
    assert kept == heard(KEY, order) == heard(KEY, order, str)
    others = [heard(bytes([one] * 16), np.arange(200)) for one in range(40)]
    assert all(kept != other for other in others)
    by_item = np.bincount([item for other in others for item in other], minlength=200)
    assert 5 < by_item.min() < 20 < by_item.max() < 35  # of 40, every item half of the time


@pytest.mark.parametrize("push", [True, False])
def test_a_crowd_of_fakes_is_cut_back_to_what_ratings_at_the_end_of_the_scale_explain(push: bool) -> None:
    policy = Policy.make("bounded-laplace", STARS, "1")
    symbol = policy.channel.weights.symbols - 1 if push else 0
    honest, crowd = honest_part(policy), fakes(policy, np.arange(1_000, 1_100), np.array([3]), symbol)
    found = bounded([honest, crowd], LIMITS)
    assert found.left_out.implausible_items == 1
    assert found.left_out.implausible_devices == 0
    assert found.left_out.reports_on_implausible_items > 50
    assert {item for _, item in pairs([honest, crowd]) - pairs(found.parts)} == {3}
    again = bounded(found.parts, LIMITS)
    assert again.left_out.reports == 0


def test_fans_are_heard() -> None:
    policy = Policy.make("bounded-laplace", STARS, "1")
    fans = np.arange(1_000, 1_200), np.full(200, 3), drawn(policy, np.full(200, 4, "u2"), np.random.default_rng(2))
    assert bounded([honest_part(policy), (*fans, policy)], LIMITS).left_out.reports == 0


def test_policies_are_judged_together() -> None:
    policies = [Policy.make("randomized-response", STARS, epsilon) for epsilon in ("1", "2")]
    honest = honest_part(policies[0])
    parts = [fakes(policy, np.array([1_000]), np.arange(15) + 20 * n, 4) for n, policy in enumerate(policies)]
    assert bounded([honest, parts[0]], LIMITS).left_out.implausible_devices == 0
    found = bounded([honest, *parts], LIMITS)
    assert found.left_out.implausible_devices == 1
    assert [policy.id for *_, policy in found.parts] == [policies[0].id]  # a part without reports is none


def test_counts_are_written_down() -> None:
    policy = Policy.make("bounded-laplace", STARS, "1")
    parts = [honest_part(policy), fakes(policy, np.array([1_000]), np.arange(30), 63)]
    found = bounded(parts, InfluenceLimits(KEY, most_reports=40))
    document = found.left_out.to_document()
    assert sum(value for name, value in document.items() if name.startswith("reports")) == found.left_out.reports
    assert len(pairs(parts)) - found.left_out.reports == len(pairs(found.parts))


def test_limits_that_bound_nothing_are_refused() -> None:
    for wrong in (
        {"key": b"short"},
        {"most_reports": 0},
        {"device_chance": 0.0},
        {"item_chance": 0.5},
        {"item_chance": np.nan},
    ):
        with pytest.raises(InvalidInputError):
            InfluenceLimits(**{"key": KEY, **wrong})
    with pytest.raises(ReportError, match="no policy"):
        bounded([], LIMITS)


def test_the_secret_is_not_shown() -> None:
    assert repr(KEY) not in repr(InfluenceLimits(KEY))
