"""What epsilon does not bound is measured as it is."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.evaluation.ratings import RatingData, rating_data
from tacit.evaluation.revelations import attack_raters, guess_ratings
from tacit.evaluation.world import WorldShape, make_world
from tacit.learning import ChannelMfOptions
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.tables import column_of

STARS = RatingScale.parse("1:5:1")
PATTERN = ChannelMfOptions(rank=0, reports=False, iterations=1, dimensions=16)


@pytest.fixture(scope="module")
def data() -> RatingData:
    world = make_world(STARS, shape=WorldShape(people=150, items=200, ratings=4000), seed=3)
    users, items = (column_of(column, "id").ids() for column in (world.users, world.items))
    return rating_data("small", STARS, users, items, world.ratings.astype(np.float64), sha256="")


def test_raters_of_a_rare_item_show_and_those_of_a_popular_one_hardly(data: RatingData) -> None:
    rare, popular = attack_raters(data, PATTERN, [(1, 2), (60, 150)], np.random.default_rng(0), rounds=4)
    assert rare.auc > 0.9 > popular.auc > 0.45
    assert rare.caught > popular.caught
    assert rare.pairs > 20


def test_a_band_without_items_is_left_out(data: RatingData) -> None:
    assert attack_raters(data, PATTERN, [(1000, 2000)], np.random.default_rng(0), rounds=1) == []


def test_evidence_needs_a_pattern(data: RatingData) -> None:
    with pytest.raises(ValueError, match="pattern"):
        attack_raters(data, ChannelMfOptions(pattern=False, rank=0), [(1, 9)], np.random.default_rng(0), rounds=1)


def test_whoever_knows_more_guesses_better(data: RatingData) -> None:
    policy = Policy.make("tailored", STARS, "3")
    errors = guess_ratings(data, policy, ChannelMfOptions(), np.random.default_rng(0)).errors
    assert errors["own ratings"] < errors["items"] < errors["constant"]
    assert errors["the report itself"] < errors["constant"]


def test_without_noise_and_without_a_pattern_there_are_guesses_too(data: RatingData) -> None:
    found = guess_ratings(data, None, ChannelMfOptions(pattern=False), np.random.default_rng(0))
    assert "the report itself" not in found.errors
    assert found.errors["items"] == found.errors["items and pattern"]
    assert found.aucs["constant"] == 0.5
