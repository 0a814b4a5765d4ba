"""The embedded world has the size asked for and the features of real rating data."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tacit.errors import InvalidInputError
from tacit.evaluation import world as world_module
from tacit.evaluation.world import EMBEDDED, LIBIMSETI_SHAPE, World, WorldShape, make_world
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from numpy.typing import NDArray

STARS = RatingScale.parse("1:5:1")
MOVIELENS_SHARES = [0.061, 0.114, 0.271, 0.342, 0.212]
MOVIELENS_VARIANCE = 1.27


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(STARS, seed=1)


def per_group(groups: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    return np.bincount(groups, minlength=size)


def explained_by(groups: NDArray[np.int32], values: NDArray[np.float64]) -> float:
    """Return the share of variance that lies between groups, corrected for chance (0 if groups mean nothing)."""
    counts = np.bincount(groups)
    means = np.bincount(groups, values) / np.maximum(counts, 1)
    within = np.sum((values - means[groups]) ** 2) / (len(values) - np.count_nonzero(counts))
    return float(1 - within / values.var())


def residuals(world: World) -> NDArray[np.float64]:
    """Return the ratings less the means of their person and item."""
    rest: NDArray[np.float64] = world.ratings.astype(np.float64) - world.ratings.mean(dtype=np.float64)
    for groups in (world.items, world.users, world.items, world.users):
        counts = np.bincount(groups)
        rest -= (np.bincount(groups, rest) / np.maximum(counts, 1))[groups]
    return rest


def pattern_fit(world: World, rank: int) -> NDArray[np.float64]:
    """Rebuild who rated what from its first dimensions, beyond what activity and popularity explain."""
    rated = np.zeros((world.shape.people, world.shape.items))
    rated[world.users, world.items] = 1
    expected = np.outer(rated.sum(1), rated.sum(0)) / rated.sum()
    surprise = (rated - expected) / np.sqrt(expected + 0.1)
    values, vectors = np.linalg.eigh(surprise.T @ surprise)
    basis = vectors[:, np.argsort(values)[-rank:]]
    # Less each cell's own share: what is left tells a rating from the person's other choices.
    own = surprise[world.users, world.items]
    projected = (surprise @ basis)[world.users] - own[:, None] * basis[world.items]
    return np.asarray(np.sum(projected * basis[world.items], axis=1))


class TestMakeWorld:
    def test_has_exactly_the_size_asked_for(self, world: World) -> None:
        assert len(world.users) == len(world.items) == len(world.ratings) == EMBEDDED.ratings
        assert world.users.min() == 0
        assert world.users.max() == EMBEDDED.people - 1
        assert world.items.min() >= 0
        assert world.items.max() < EMBEDDED.items
        assert [part.dtype.name for part in (world.users, world.items, world.ratings)] == ["int32", "int32", "float32"]

    def test_is_ordered_by_person_and_item_without_repeats(self, world: World) -> None:
        keys = world.users.astype(np.int64) * EMBEDDED.items + world.items
        assert np.all(np.diff(keys) > 0)

    def test_same_seed_same_world(self, world: World) -> None:
        again = make_world(STARS, seed=1)
        for name in ("users", "items", "ratings"):
            assert getattr(again, name).tobytes() == getattr(world, name).tobytes()

    def test_other_seed_other_world(self, world: World) -> None:
        other = make_world(STARS, seed=2)
        assert not np.array_equal(other.items, world.items)

    def test_the_scale_changes_ratings_only(self, world: World) -> None:
        other = make_world(RatingScale.parse("1:10:1"), seed=1)
        assert np.array_equal(other.users, world.users)
        assert np.array_equal(other.items, world.items)
        assert np.array_equal(np.ceil(other.ratings / 2), world.ratings)

    @pytest.mark.parametrize("shape", [WorldShape(1, 3, 1), WorldShape(5, 3, 6), WorldShape(40, 50, 800)])
    def test_makes_tiny_and_dense_worlds(self, shape: WorldShape) -> None:
        tiny = make_world(STARS, shape=shape)
        keys = tiny.users.astype(np.int64) * shape.items + tiny.items
        assert len(keys) == shape.ratings
        assert np.all(np.diff(keys) > 0)
        assert per_group(tiny.users, shape.people).min() >= 1

    def test_makes_a_large_sparse_world(self) -> None:
        shape = WorldShape(20_000, 20_000, 1_200_000)
        large = make_world(STARS, shape=shape)
        keys = large.users.astype(np.int64) * shape.items + large.items
        assert len(keys) == shape.ratings
        assert np.all(np.diff(keys) > 0)
        assert per_group(large.users, shape.people).min() >= 10
        assert large.histogram() / shape.ratings == pytest.approx(MOVIELENS_SHARES, abs=0.003)

    def test_draws_in_blocks_without_losing_anybody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(world_module, "_BLOCK_RATINGS", 50)
        shape = WorldShape(60, 200, 1_500)
        small = make_world(STARS, shape=shape)
        assert len(np.unique(small.users.astype(np.int64) * shape.items + small.items)) == shape.ratings

    def test_refuses_a_negative_seed(self) -> None:
        with pytest.raises(InvalidInputError, match="seed -1 is negative; choose"):
            make_world(STARS, seed=-1)


class TestHistogram:
    def test_is_that_of_movielens_on_five_stars(self, world: World) -> None:
        assert world.histogram() / EMBEDDED.ratings == pytest.approx(MOVIELENS_SHARES, abs=0.002)
        assert float(world.ratings.var()) == pytest.approx(MOVIELENS_VARIANCE, abs=0.02)

    @pytest.mark.parametrize("text", ["0.5:5:0.5", "-10:10:0.25", "1:10:1", "0:100:1"])
    def test_keeps_its_shape_on_other_scales(self, text: str) -> None:
        scale = RatingScale.parse(text)
        other = make_world(scale, seed=1)
        shares = other.histogram() / EMBEDDED.ratings
        peak = int(np.argmax(shares))
        assert shares.sum() == pytest.approx(1)
        assert shares.min() > 0
        assert 0.5 < peak / (scale.size - 1) < 0.75
        # Up to the peak and down again, but for the noise of rounding to whole ratings.
        assert np.diff(shares[: peak + 1]).min() > -2e-4
        assert np.diff(shares[peak:]).max() < 2e-4

    def test_two_ratings_are_enough(self) -> None:
        shares = make_world(RatingScale.parse("0:1:1")).histogram() / EMBEDDED.ratings
        assert 0.2 < shares[0] < 0.4


class TestLongTails:
    def test_few_items_take_many_ratings(self, world: World) -> None:
        popularity = np.sort(per_group(world.items, EMBEDDED.items))[::-1]
        assert popularity[: EMBEDDED.items // 10].sum() > 0.4 * EMBEDDED.ratings
        assert 400 < popularity[0] < 700
        assert 15 < np.median(popularity) < 40
        assert np.count_nonzero((popularity >= 1) & (popularity <= 5)) > 200

    def test_few_people_make_many_ratings(self, world: World) -> None:
        activity = per_group(world.users, EMBEDDED.people)
        assert activity.min() >= 20
        assert 400 < activity.max() < 750
        assert np.median(activity) < 0.75 * activity.mean()


class TestSignal:
    def test_people_and_items_differ_in_their_means(self, world: World) -> None:
        ratings = world.ratings.astype(np.float64)
        assert 0.1 < explained_by(world.users, ratings) < 0.22
        assert 0.14 < explained_by(world.items, ratings) < 0.26
        shuffled = np.random.default_rng(0).permutation(ratings)
        assert abs(explained_by(world.users, shuffled)) < 0.01

    def test_popular_items_are_rated_better(self, world: World) -> None:
        counts = per_group(world.items, EMBEDDED.items)
        often = counts >= 10
        means = np.bincount(world.items, world.ratings, minlength=EMBEDDED.items) / np.maximum(counts, 1)
        assert np.corrcoef(means[often], np.log(counts[often]))[0, 1] > 0.25

    def test_who_rated_what_tells_the_ratings(self, world: World) -> None:
        assert np.corrcoef(pattern_fit(world, 6), residuals(world))[0, 1] > 0.05

    def test_who_rated_what_tells_nothing_when_choice_ignores_taste(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(world_module, "_CHANCE_SLOPE", np.float32(0))
        blind = make_world(STARS, seed=1)
        assert abs(np.corrcoef(pattern_fit(blind, 6), residuals(blind))[0, 1]) < 0.03


class TestShape:
    @pytest.mark.parametrize(("people", "items", "ratings"), [(0, 10, 1), (10, 0, 10), (-1, 10, 3), (10, 10, 9)])
    def test_refuses_empty_worlds(self, people: int, items: int, ratings: int) -> None:
        with pytest.raises(InvalidInputError, match=r"; (choose|ask)"):
            WorldShape(people, items, ratings)

    def test_refuses_a_dense_world_with_value_limit_and_remedy(self) -> None:
        with pytest.raises(InvalidInputError, match=r"^41 ratings .* 40% of 10 x 10 cells; ask for at most 40, or"):
            WorldShape(10, 10, 41)

    def test_named_shapes(self) -> None:
        assert dataclasses.astuple(EMBEDDED) == (1_000, 1_700, 100_000)
        assert dataclasses.astuple(LIBIMSETI_SHAPE) == (135_359, 168_791, 17_359_346)


class TestTitles:
    def test_every_item_has_its_own(self, world: World) -> None:
        titles = world.titles()
        assert len(titles) == len(set(titles)) == EMBEDDED.items
        assert not any(character.isdigit() for title in titles for character in title)
        assert titles == world.titles()

    def test_large_worlds_number_them(self, world: World) -> None:
        titles = dataclasses.replace(world, shape=WorldShape(10, 10_000, 100)).titles()
        assert len(titles) == len(set(titles)) == 10_000
        assert titles[: EMBEDDED.items] == world.titles()
