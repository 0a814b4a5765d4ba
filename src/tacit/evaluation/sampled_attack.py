"""The sampled attack on a published item model: trained on some publications, measured on others.

Of two worlds that differ in one rating, all reports are drawn again and again, and a model is fitted and published
each time. The attacker knows all other true ratings, so such trials are what they can make at home to learn from: half
of them train a linear discriminant on what was published of the item, the other half tell what it is worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.device.personal import fit_person, scores_of
from tacit.errors import ModelError
from tacit.evaluation.item_model_attack import published_model
from tacit.privacy.audit import find_loss

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.evaluation.item_model_attack import Target, Words
    from tacit.learning import Options
    from tacit.privacy.channel import Channel
    from tacit.privacy.item_model import ItemModel

    Doubles = NDArray[np.float64]

_BINS = 20
_RIDGE = 0.01
_CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class SampledLoss:
    """What an attacker achieved in trials that the attack was not trained on."""

    lower_bound: float
    """Of the loss, at 99 per cent confidence; above epsilon it would refute the claim."""
    estimate: float
    """The logarithm of the ratio of the chosen event's frequencies, without its sampling error."""
    auc: float
    """How often the attacker ranks a high rating's publication above a low one's."""
    trials: int


def sampled_loss(
    target: Target, options: Options, rng: np.random.Generator, *, trials: int, words: Words | None = None
) -> SampledLoss:
    """Attack publications of two worlds, in which the rating is the lowest and the highest of the scale.

    Args:
        target: The world, and the rating under attack.
        options: The model that is fitted.
        rng: What all devices draw with.
        trials: How many publications of either world to train on, and again to measure on.
        words: What the other devices drew, for an attacker who knows it; by default they draw afresh in every trial.
    """
    ends = (0, target.policy.scale.size - 1)
    seen = [_publications(target, options, rng, rank, 2 * trials, words) for rank in ends]
    low, high = _scores([each[:trials] for each in seen], [each[trials:] for each in seen])
    return _measured(low, high)


def roc_auc(negative: Doubles, positive: Doubles) -> float:
    """Return how often a positive is above a negative, ties counting half."""
    order = np.sort(negative)
    below = np.searchsorted(order, positive, side="left") + np.searchsorted(order, positive, side="right")
    return float(below.mean() / (2 * len(negative)))


def auc_of_reports(channel: Channel) -> float:
    """Return the AUC of an attacker who sees the report itself: of the same two ratings, no other can have more."""
    low, high = channel.likelihood[0], channel.likelihood[-1]
    order = np.argsort(high / low, kind="stable")
    below = np.cumsum(low[order]) - low[order] / 2
    return float(high[order] @ below)


def _publications(  # noqa: PLR0913, PLR0917 - one call's worth of trials
    target: Target, options: Options, rng: np.random.Generator, rank: int, count: int, words: Words | None
) -> Doubles:
    """Return what an attacker reads off each of many publications of one world."""
    ranks, rows = target.ranks_if(rank), []
    read: dict[bytes, Doubles] = {}  # the same reports lead to the same publication
    for _ in range(count):
        drawn = rng.integers(0, 2**64, len(ranks), dtype=np.uint64)
        if words is not None:
            drawn = np.where(np.arange(len(ranks)) == target.index, drawn, words)
        symbols = target.policy.channel.draw(ranks, drawn)
        if symbols.tobytes() not in read:
            published = published_model(target, symbols, options)
            read[symbols.tobytes()] = _readings(target, published, getattr(options, "rank", 0))
        rows.append(read[symbols.tobytes()])
    return np.array(rows)


def _readings(target: Target, published: ItemModel, rank: int) -> Doubles:
    """Read off the item's numbers and the score that the person's other ratings lead to; factors may be dropped."""
    at = published.items.index_of(int(target.items[target.index]))
    factors = np.zeros(2 * rank)
    factors[: published.rank] = published.factors[at]
    numbers = [published.mean, published.offsets[at], _score(target, published, at)]
    if published.beliefs is not None:
        factors[rank : rank + published.rank] = published.beliefs.item_factor_variances[at]
        numbers += [published.beliefs.residual_variance, published.beliefs.item_offset_variances[at]]
    if published.pattern is not None:
        numbers += published.pattern.responses[at].tolist()
    return np.concatenate([numbers, factors])


def _score(target: Target, published: ItemModel, at: int | None) -> float:
    """Return the item's score for the person, as their device would compute it from all their other ratings."""
    others = (target.users == target.users[target.index]) & (np.arange(len(target.users)) != target.index)
    rated = np.array([published.items.index_of(int(item)) for item in target.items[others]], dtype=np.int64)
    try:
        person = fit_person(published, rated, target.policy.scale.ratings[target.ranks[others]])
    except ModelError:  # factors that a ridge has shrunk to next to nothing place nobody
        return 0.0
    return float(scores_of(published, person)[at])


def _scores(train: list[Doubles], test: list[Doubles]) -> tuple[Doubles, Doubles]:
    """Train a linear discriminant; return its scores of both worlds' other trials, as places among those trained on."""
    pooled = np.sort(np.concatenate(train), axis=0)

    def places(rows: Doubles) -> Doubles:
        # Places, not numbers: without a ridge, factors can be huge.
        columns = [np.searchsorted(known, column) for known, column in zip(pooled.T, rows.T, strict=True)]
        return np.column_stack(columns) / len(pooled) - 0.5

    low, high = places(train[0]), places(train[1])
    within = np.cov(low.T) + np.cov(high.T) + _RIDGE * np.eye(low.shape[1])
    direction = np.linalg.solve(within, high.mean(axis=0) - low.mean(axis=0))
    known = np.sort(np.concatenate([low, high]) @ direction)
    found = [np.searchsorted(known, places(rows) @ direction) / len(known) for rows in test]
    return found[0], found[1]


def _measured(low: Doubles, high: Doubles) -> SampledLoss:
    """Bound the loss from below as an audit of a channel does: events are ranges of scores."""
    left = [np.minimum((scores * _BINS).astype(np.int64), _BINS - 1) for scores in (low, high)]
    last: dict[int, NDArray[np.int64]] = {}

    def count(world: int, draws: int) -> NDArray[np.int64]:
        taken, left[world] = np.split(left[world], [draws])
        last[world] = np.bincount(taken, minlength=_BINS)
        return last[world]

    found = find_loss(count, 2, samples=2 * len(low), confidence=_CONFIDENCE)
    # What was counted last is what measured the choice; what made it would flatter.
    often, seldom = (
        last[world][list(found.events)].sum() + 0.5 for world in (found.likely_under, found.unlikely_under)
    )
    return SampledLoss(found.lower_bound, float(np.log(often / seldom)), roc_auc(low, high), len(low))
