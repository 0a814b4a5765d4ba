"""What is published tells of a rating what its report tells, and never more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tacit.evaluation.item_model_attack import (
    Target,
    exact_loss_of_publication,
    fingerprint,
    hard_targets,
    item_model_publication,
    published_model,
)
from tacit.evaluation.sampled_attack import auc_of_reports, roc_auc, sampled_loss
from tacit.learning import ChannelMfOptions, MfAlsOptions, MogMfOptions
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from tacit.evaluation.item_model_attack import Stage
    from tacit.learning import Options

STARS = RatingScale.parse("1:5:1")
FEW = RatingScale.parse("1:3:1")
MODELS = (ChannelMfOptions(iterations=4), MogMfOptions(iterations=4), MfAlsOptions(iterations=4))
WORLDS = tuple(hard_targets(Policy.make("duchi", FEW, "1"), np.random.default_rng(0)))


def some_words(target: Target) -> NDArray[np.uint64]:
    return np.random.default_rng(1).integers(0, 2**64, len(target.users), dtype=np.uint64)


def target_in(world: str, policy: Policy) -> Target:
    return hard_targets(policy, np.random.default_rng(0))[world]


@pytest.mark.parametrize("options", MODELS, ids=lambda options: options.model)
@pytest.mark.parametrize("epsilon", ["0.1", "5"])
@pytest.mark.parametrize("mechanism", ["randomized-response", "tailored"])
@pytest.mark.parametrize("world", WORLDS)
def test_a_published_model_tells_of_a_rating_exactly_what_its_report_tells(
    world: str, mechanism: str, epsilon: str, options: Options
) -> None:
    policy = Policy.make(mechanism, STARS, epsilon)
    target = target_in(world, policy)
    found = exact_loss_of_publication(target, item_model_publication(target, options), some_words(target))
    assert found.within(policy.channel.worst_ratio)
    assert found.worst_ratio == policy.channel.worst_ratio  # all that the report said can be read off the model
    assert found.publications == policy.channel.weights.symbols


@pytest.mark.parametrize("options", MODELS, ids=lambda options: options.model)
def test_the_same_holds_for_a_channel_of_many_symbols(options: Options) -> None:
    policy = Policy.make("bounded-laplace", STARS, "1")
    target = target_in("an item of its own", policy)
    publish = item_model_publication(target, options)
    found = exact_loss_of_publication(target, publish, some_words(target), ratings=(0, 4))
    assert found.within(policy.channel.worst_ratio)


def test_three_models_of_the_same_reports_tell_no_more_than_one() -> None:
    policy = Policy.make("randomized-response", STARS, "1")
    target = target_in("an item of its own", policy)
    publications = [item_model_publication(target, options) for options in MODELS]

    def publish(stages: Sequence[Stage]) -> bytes:
        return b"".join(each(stages) for each in publications)

    found = exact_loss_of_publication(target, publish, some_words(target))
    assert found.worst_ratio == policy.channel.worst_ratio


def test_the_files_tell_no_more_than_the_numbers(tmp_path: Path) -> None:
    policy = Policy.make("randomized-response", FEW, "1")
    target = target_in("an item of its own", policy)

    def publish(stages: Sequence[Stage]) -> bytes:
        published_model(target, stages[-1].symbols, MODELS[0]).save(tmp_path / "items")
        return b"".join(file.read_bytes() for file in sorted((tmp_path / "items").iterdir()))

    found = exact_loss_of_publication(target, publish, some_words(target))
    assert found.worst_ratio == policy.channel.worst_ratio


@pytest.mark.parametrize(("mechanism", "changes"), [("randomized-response", 2), ("tailored", 2), ("tailored", 3)])
def test_every_change_of_a_rating_costs_epsilon_once_more_and_that_is_all(mechanism: str, changes: int) -> None:
    policy = Policy.make(mechanism, FEW, "1")
    target = target_in("one rating", policy)
    publish = item_model_publication(target, MfAlsOptions(iterations=2))
    found = exact_loss_of_publication(target, publish, some_words(target), changes=changes, ratings=(0, 2))
    assert found.within(policy.channel.worst_ratio**changes)
    assert found.loss == pytest.approx(changes * policy.channel.exact_loss)


def true_mean(target: Target, stages: Sequence[Stage]) -> bytes:
    """Publish the true mean of the item: what no provider can know, and an evaluation might let slip."""
    same = target.items == target.items[target.index]
    return np.float64(stages[-1].ranks[same].mean()).tobytes()


@pytest.mark.parametrize("world", ["one rating", "no other report"])
def test_a_publication_of_true_ratings_is_caught(world: str) -> None:
    policy = Policy.make("randomized-response", STARS, "1")
    target = target_in(world, policy)
    found = exact_loss_of_publication(target, lambda stages: true_mean(target, stages), some_words(target))
    assert found.loss == math.inf
    assert not found.within(policy.channel.worst_ratio)


def test_a_publication_that_leaks_once_in_a_while_is_caught() -> None:
    """The item model is honest, but for one symbol the order of a list follows the true rating."""
    policy = Policy.make("randomized-response", STARS, "1")
    target = target_in("one rating", policy)

    def publish(stages: Sequence[Stage]) -> bytes:
        ranks, symbols = stages[-1]
        told = int(symbols[0])
        return bytes([told or 10 + (ranks[0] > 2)])

    found = exact_loss_of_publication(target, publish, some_words(target))
    assert found.publications == 6
    assert not found.within(policy.channel.worst_ratio)


def test_a_publication_that_says_nothing_loses_nothing() -> None:
    target = target_in("one rating", Policy.make("randomized-response", STARS, "1"))
    found = exact_loss_of_publication(target, lambda _: b"", some_words(target))
    assert (found.loss, found.publications) == (0, 1)


def test_every_word_is_tried() -> None:
    policy = Policy.make("bounded-laplace", STARS, "1")
    target = target_in("one rating", policy)
    for rank in range(STARS.size):
        for symbol in range(policy.channel.weights.symbols):
            stage = target.stage(rank, symbol, some_words(target))
            assert (stage.ranks[0], stage.symbols[0]) == (rank, symbol)


def test_models_that_differ_in_one_bit_have_other_fingerprints() -> None:
    policy = Policy.make("randomized-response", STARS, "1")
    target = target_in("one rating", policy)
    symbols = target.stage(0, 0, some_words(target)).symbols
    one, same = (published_model(target, symbols, MODELS[2]) for _ in range(2))
    other = published_model(target, target.stage(0, 1, some_words(target)).symbols, MODELS[2])
    assert fingerprint(one) == fingerprint(same) != fingerprint(other)


def test_a_sampled_attack_comes_close_to_what_the_report_tells_and_never_above() -> None:
    policy = Policy.make("randomized-response", STARS, "2")
    target = target_in("an item of its own", policy)
    rng = np.random.default_rng(0)
    found = sampled_loss(target, MODELS[2], rng, trials=3000, words=some_words(target))
    assert 1 < found.lower_bound <= policy.channel.exact_loss
    assert found.estimate == pytest.approx(2, abs=0.25)
    assert found.auc == pytest.approx(auc_of_reports(policy.channel), abs=0.03)


@pytest.mark.parametrize("options", MODELS, ids=lambda options: options.model)
def test_a_sampled_attack_on_fresh_reports_stays_within_epsilon(options: Options) -> None:
    policy = Policy.make("randomized-response", STARS, "1")
    target = target_in("an item of its own", policy)
    found = sampled_loss(target, options, np.random.default_rng(0), trials=60)
    assert found.lower_bound <= policy.channel.exact_loss
    assert found.trials == 60


def test_the_area_under_the_curve_counts_pairs() -> None:
    assert roc_auc(np.array([0.0, 1.0]), np.array([1.0, 2.0])) == 0.875
    assert roc_auc(np.zeros(3), np.zeros(5)) == 0.5


def test_the_best_possible_area_is_that_of_the_two_rows() -> None:
    channel = Policy.make("duchi", FEW, "1").channel
    low, high = channel.likelihood[0], channel.likelihood[-1]
    assert auc_of_reports(channel) == pytest.approx(0.5 + (high.max() - low.min()) / 2, abs=1e-9)
