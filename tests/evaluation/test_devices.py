"""Simulated devices: each ranks by its own true ratings and what was published, and by nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tacit.device.personal import fit_person, scores_of
from tacit.device.ranking import rank_items
from tacit.evaluation.devices import OwnRatings, device_answers
from tacit.evaluation.fold import run_fold
from tacit.evaluation.ratings import RatingData, rating_data
from tacit.evaluation.setting import DEVICE, PROVIDER, Setting, ranks_on_devices
from tacit.evaluation.splits import folds_of
from tacit.evaluation.world import WorldShape, make_world
from tacit.learning import MODELS, ChannelMfOptions, MfAlsOptions, MogMfOptions, Options, ReportMatrix, SvdOptions, fit
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.tables import column_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.evaluation.metrics import Answers
    from tacit.evaluation.world import World
    from tacit.privacy.item_model import ItemModel

STARS = RatingScale.parse("1:5:1")
SMALL = WorldShape(150, 100, 3500)

MODELS_WITH_ITEMS: list[Options] = [
    ChannelMfOptions(rank=3),
    ChannelMfOptions(rank=0),
    ChannelMfOptions(pattern=False),
    ChannelMfOptions(reports=False),
    MfAlsOptions(offsets=True),
    MogMfOptions(iterations=5),
    SvdOptions(),
]


def published(world: World, options: Options, epsilon: str = "3", least: int = 1) -> ItemModel:
    policy = Policy.make("bounded-laplace", STARS, epsilon)
    words = np.random.default_rng(1).integers(0, 2**64, len(world.users), dtype=np.uint64)
    symbols = policy.channel.draw(STARS.ranks_of(world.ratings), words)
    matrix = ReportMatrix.of_symbols(world.users, world.items, symbols, policy)
    return fit(matrix, options, np.random.default_rng(0), threads=1).item_model(least_reports=least).as_published()


def own_ratings(world: World, shape: tuple[int, int] | None = None) -> OwnRatings:
    size = (world.shape.people, world.shape.items) if shape is None else shape
    order = np.lexsort((world.items, world.users))
    return OwnRatings(world.users[order], world.items[order], world.ratings[order].astype(np.float64), size)


def all_answers(items: ItemModel, own: OwnRatings) -> Answers:
    pairs = np.indices(own.shape, dtype=np.int32)
    return device_answers(items, own, pairs[0].ravel(), pairs[1].ravel())


def everything(items: ItemModel, own: OwnRatings) -> NDArray[Any]:
    return all_answers(items, own).predicted.reshape(own.shape)


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(STARS, shape=SMALL)


@pytest.mark.parametrize("options", MODELS_WITH_ITEMS, ids=lambda options: options.model)
def test_devices_together_score_as_each_does_alone(world: World, options: Options) -> None:
    items = published(world, options)
    own = own_ratings(world)
    found, codes = everything(items, own), np.asarray(items.items.ids)
    for user in range(0, world.shape.people, 10):
        mine = own.users == user
        alone = rank_items(items, dict(zip(own.items[mine].tolist(), own.ratings[mine].tolist(), strict=True)))
        np.testing.assert_allclose(found[user, codes], alone.scores, atol=2e-4)
        person = fit_person(items, items.items.find(own.items[mine]), own.ratings[mine])
        np.testing.assert_allclose(scores_of(items, person), alone.scores, atol=1e-5)


@pytest.mark.parametrize("options", MODELS_WITH_ITEMS, ids=lambda options: options.model)
def test_devices_list_what_each_would_show_alone(world: World, options: Options) -> None:
    items = published(world, options, least=25)
    own = own_ratings(world, (world.shape.people + 1, world.shape.items))  # and a person without ratings
    lists = all_answers(items, own).lists
    for user in range(0, world.shape.people + 1, 15):
        mine = own.users == user
        alone = rank_items(items, dict(zip(own.items[mine].tolist(), own.ratings[mine].tolist(), strict=True)))
        shown = [found.item for found in alone.recommend(10)]
        assert lists[user].tolist() == shown + [-1] * (10 - len(shown))


@pytest.mark.parametrize("options", [ChannelMfOptions(rank=2), MfAlsOptions(offsets=True)], ids=lambda one: one.model)
def test_an_item_that_was_not_published_is_at_the_persons_level(world: World, options: Options) -> None:
    items = published(world, options, least=25)
    own = own_ratings(world, (world.shape.people + 1, world.shape.items + 2))  # and a person without ratings
    found, codes = everything(items, own), np.asarray(items.items.ids)
    unknown = np.setdiff1d(np.arange(world.shape.items + 2), codes)
    assert 2 < len(unknown) < world.shape.items
    for user in (0, 7, world.shape.people):
        mine = (own.users == user) & np.isin(own.items, codes)
        person = fit_person(items, items.items.find(own.items[mine]), own.ratings[mine])
        np.testing.assert_allclose(found[user, unknown], items.mean + person.offset, atol=1e-4)
    nobody = items.mean + items.offsets
    np.testing.assert_allclose(found[-1, codes], nobody, atol=1e-4)


def data_of(world: World, ratings: NDArray[Any]) -> RatingData:
    ids = column_of(world.users, "user").ids(), column_of(world.items, "item").ids()
    return rating_data("a world", STARS, *ids, ratings.astype(np.float64), sha256="0" * 64)


def test_a_device_uses_its_own_ratings_and_what_is_published_and_nothing_else(world: World) -> None:
    items, own = published(world, ChannelMfOptions(rank=2)), own_ratings(world)
    answers, predicted = all_answers(items, own), everything(items, own)
    mine = own.users == 11
    others = replace(own, ratings=np.where(mine, own.ratings, 6 - own.ratings))
    changed = everything(items, others)  # other people's true ratings, behind the same reports
    assert changed[11].tobytes() == predicted[11].tobytes()
    assert (changed[:11] != predicted[:11]).any(axis=1).all()
    # What others rated at all makes no difference to a device either, once the items are published.
    alone = all_answers(items, replace(own, users=own.users[mine], items=own.items[mine], ratings=own.ratings[mine]))
    assert alone.predicted.reshape(own.shape)[11].tobytes() == predicted[11].tobytes()
    assert alone.lists[11].tolist() == answers.lists[11].tolist()


@pytest.mark.parametrize("options", [ChannelMfOptions(rank=2), MfAlsOptions(offsets=True)], ids=lambda one: one.model)
def test_held_out_ratings_reach_neither_place(world: World, options: Options) -> None:
    """A held-out rating that changes moves the error, and no prediction."""
    data = data_of(world, world.ratings)
    for place in (PROVIDER, DEVICE):
        setting = Setting("bounded-laplace", "1", options, folds=5, at=place)
        one = int(np.flatnonzero(folds_of(len(data), 5, 0) == 0)[0])
        squares = []
        for rating in (1.0, 3.0, 5.0):
            ratings, ranks = data.ratings.copy(), data.ranks.copy()
            ratings[one], ranks[one] = rating, int(rating) - 1
            found = run_fold(replace(data, ratings=ratings, ranks=ranks), setting, 0, threshold=3.4)
            squares.append(found.metrics.rmse**2 * found.n_test)
        # (p - 1)^2 - 2 (p - 3)^2 + (p - 5)^2 = 8 whatever the prediction p is.
        assert squares[0] - 2 * squares[1] + squares[2] == pytest.approx(8, abs=1e-5)


def test_models_without_factors_rank_on_no_device() -> None:
    able = {name for name, kind in MODELS.items() if ranks_on_devices(kind())}
    assert able == {"mog-mf", "channel-mf", "mf-als", "mf-sgd", "svd"}


def device_error(world: World, seed: int, epsilon: str, options: ChannelMfOptions) -> float:
    setting = Setting("bounded-laplace", epsilon, options, seed=seed, folds=5, at=DEVICE)
    return run_fold(data_of(world, world.ratings), setting, 0, threshold=3.4).metrics.rmse


@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_reports_do_not_hurt_a_device_beyond_chance(epsilon: str) -> None:
    differences = []
    for seed in range(5):
        world = make_world(STARS, shape=SMALL, seed=seed)
        heard, unheard = (
            device_error(world, seed, epsilon, ChannelMfOptions(rank=2, reports=reports)) for reports in (True, False)
        )
        differences.append(heard - unheard)
    mean, error = float(np.mean(differences)), float(np.std(differences, ddof=1) / np.sqrt(5))
    assert mean <= 2 * error + 1e-4, differences


def test_a_device_is_better_off_than_the_provider_where_noise_is_strong() -> None:
    world = make_world(STARS, shape=SMALL)
    data, options = data_of(world, world.ratings), ChannelMfOptions(rank=2)
    errors = [
        run_fold(data, Setting("bounded-laplace", "0.5", options, folds=5, at=place), 0, threshold=3.4).metrics.rmse
        for place in (PROVIDER, DEVICE)
    ]
    assert errors[1] < 0.95 * errors[0]
