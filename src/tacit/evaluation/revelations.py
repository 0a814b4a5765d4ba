"""What a published item model reveals that epsilon does not bound, measured.

Epsilon bounds what is learned of a rating's value from its report. It says nothing of which items a person rated, nor
of what is true of people alike: both can be read off a model, more or less surely, by whoever knows enough of a person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.evaluation.devices import OwnRatings, device_answers
from tacit.evaluation.metrics import default_threshold
from tacit.evaluation.sampled_attack import roc_auc
from tacit.evaluation.tailoring import draw_reports
from tacit.learning import ChannelMfOptions, ReportMatrix, fit
from tacit.privacy.item_beliefs import POPULARITY_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from tacit.evaluation.ratings import RatingData
    from tacit.privacy.item_model import ItemModel
    from tacit.privacy.policy import Policy

    Longs = NDArray[np.int64]
    Indices = NDArray[np.int32] | NDArray[np.int64]
    Doubles = NDArray[np.float64]
    Chosen = NDArray[np.bool_]

_PAIRS_A_BAND = 20
_FALSE_ALARMS = 0.01
_HELD_SHARE = 0.05

# Coordinates of the embedding are as wide as their singular value to the power 3/2, so widths tell the values.
_VALUE_POWER = 2 / 3


@dataclass(frozen=True, slots=True)
class RaterAttack:
    """How surely an attacker who knows all other items of a person tells whether they rated one, too."""

    reports: tuple[int, int]
    """How many the item has, from and to."""
    pairs: int
    auc: float
    caught: float
    """The share of raters found when one in a hundred of the others is accused."""


def rater_evidence(published: ItemModel, others: Indices, item: int) -> float:
    """Return how much an item's embedding looks as if somebody who rated these others had rated it.

    The embedding of an item is the sum of its raters' own, so with few raters each of them shows.
    """
    if published.pattern is None:
        raise ValueError("a model without a pattern has nothing to look at")
    traits = published.pattern.traits[:, POPULARITY_COLUMNS:].astype(np.float64)
    widths = np.sqrt(np.square(traits).mean(axis=0))
    vectors, values = traits / widths, widths**_VALUE_POWER
    person = published.pattern.shares[others] @ vectors[others] / values**2
    length = np.linalg.norm(person) * np.linalg.norm(vectors[item])
    return float(person @ vectors[item] / length) if length > 0 else 0.0


def attack_raters(
    data: RatingData,
    options: ChannelMfOptions,
    bands: Sequence[tuple[int, int]],
    rng: np.random.Generator,
    *,
    rounds: int,
) -> list[RaterAttack]:
    """Compare publications of two worlds: in one a person rated an item, in the other somebody else did instead.

    The item's number of reports, which is published, is the same in both. Items are taken band by band of that number.
    """
    things = data.shape[1]
    real = np.sort(data.users.codes.astype(np.int64) * things + data.items.codes)
    counts = np.bincount(data.items.codes, minlength=things)
    with_them = _published_pattern(real, data, options)
    evidence: list[list[tuple[float, float]]] = [[] for _ in bands]
    for _ in range(rounds):
        swaps = list(_swaps(real, counts, bands, rng))
        left, joined = (np.array([swap[at] for swap in swaps], dtype=np.int64) for at in (1, 2))
        without = _published_pattern(np.sort(np.concatenate([np.setdiff1d(real, left), joined])), data, options)
        for band, pair, _ in swaps:
            both = (_evidence_of(model, pair, real, things) for model in (without, with_them))
            evidence[band].append((next(both), next(both)))
    return [_judged(band, np.array(found)) for band, found in zip(bands, evidence, strict=True) if found]


def _swaps(
    real: Longs, counts: Longs, bands: Sequence[tuple[int, int]], rng: np.random.Generator
) -> Iterator[tuple[int, int, int]]:
    """Choose items of every band, a rater of each and somebody who did not rate it; yield band and both pairs."""
    things = len(counts)
    for band, (least, most) in enumerate(bands):
        pool = np.flatnonzero((counts >= least) & (counts <= most))
        for item in rng.permutation(pool)[:_PAIRS_A_BAND]:
            raters = real[real % things == item] // things
            strangers = np.setdiff1d(real // things, raters)
            if len(strangers):
                yield band, int(rng.choice(raters) * things + item), int(rng.choice(strangers) * things + item)


def _published_pattern(pairs: Longs, data: RatingData, options: ChannelMfOptions) -> ItemModel:
    """Return a model in which nothing depends on what was reported, only on who reported on what."""
    things = data.shape[1]
    matrix = ReportMatrix.of_values(pairs // things, pairs % things, np.ones(len(pairs)), data.scale)
    return fit(matrix, options, np.random.default_rng(0), threads=1).item_model().as_published()


def _evidence_of(published: ItemModel, pair: int, real: Longs, things: int) -> float:
    person, item = divmod(pair, things)
    others = real[(real // things == person) & (real != pair)] % things
    known = published.items.find(others)
    return rater_evidence(published, known[known >= 0], int(published.items.find([item])[0]))


def _judged(band: tuple[int, int], found: Doubles) -> RaterAttack:
    without, with_them = found.T
    limit = np.quantile(without, 1 - _FALSE_ALARMS)
    return RaterAttack(band, len(found), roc_auc(without, with_them), float((with_them > limit).mean()))


@dataclass(frozen=True, slots=True)
class Guesses:
    """How well ratings are guessed by those who know more and more: root mean square errors, and AUC of liking."""

    errors: dict[str, float]
    aucs: dict[str, float]


def guess_ratings(
    data: RatingData, policy: Policy | None, options: ChannelMfOptions, rng: np.random.Generator
) -> Guesses:
    """Guess a twentieth of all ratings from what is published and what may be known of their people besides.

    Without a policy the model is fitted to true ratings: what could be known if there were no noise at all.
    """
    held = rng.random(len(data)) < _HELD_SHARE
    symbols = None if policy is None else draw_reports(policy.channel, data.ranks, rng)
    without, full = (_fitted(data, policy, symbols, kept, options) for kept in (~held, np.ones(len(data), dtype=bool)))
    known = held & (without.items.find(data.items.codes) >= 0)
    guesses = {"constant": np.full(int(known.sum()), data.ratings[~held].mean())}
    guesses["items"], guesses["items and pattern"] = _without_own_ratings(data, without, ~held, known)
    guesses["own ratings, reports not read"] = _with_own_ratings(
        data, _fitted(data, policy, symbols, ~held, ChannelMfOptions(reports=False)), ~held, known
    )
    guesses["own ratings"] = _with_own_ratings(data, without, ~held, known)
    guesses["own ratings, report included"] = _with_own_ratings(data, full, ~held, known)
    if policy is not None and symbols is not None:
        guesses["the report itself"] = _from_reports(data, policy, symbols)[known]
    return _compared(guesses, data, known)


def _fitted(
    data: RatingData, policy: Policy | None, symbols: NDArray[np.uint16] | None, kept: Chosen, options: ChannelMfOptions
) -> ItemModel:
    users, items = data.users.codes[kept], data.items.codes[kept]
    if policy is None or symbols is None:
        matrix = ReportMatrix.of_values(users, items, data.ratings[kept], data.scale)
    else:
        matrix = ReportMatrix.of_symbols(users, items, symbols[kept], policy)
    return fit(matrix, options, np.random.default_rng(0), threads=1).item_model().as_published()


def _with_own_ratings(data: RatingData, published: ItemModel, kept: Chosen, wanted: Chosen) -> Doubles:
    own = OwnRatings(data.users.codes[kept], data.items.codes[kept], data.ratings[kept], data.shape)
    answers = device_answers(published, own, data.users.codes[wanted], data.items.codes[wanted])
    return answers.predicted.astype(np.float64)


def _without_own_ratings(
    data: RatingData, published: ItemModel, kept: Chosen, wanted: Chosen
) -> tuple[Doubles, Doubles]:
    """Guess by the item alone, and by which items the person rated besides, knowing none of their ratings."""
    at = published.items.find(data.items.codes)
    plain = published.mean + published.offsets[at[wanted]].astype(np.float64)
    if published.pattern is None:
        return plain, plain
    moves = np.empty(len(plain))
    users = data.users.codes[wanted]
    for user in np.unique(users):
        place = published.pattern.place_of(at[kept & (data.users.codes == user) & (at >= 0)])
        moves[users == user] = published.pattern.responses[at[wanted][users == user]] @ place
    return plain, plain + moves


def _from_reports(data: RatingData, policy: Policy, symbols: NDArray[np.uint16]) -> Doubles:
    """Return the mean rating behind each symbol, were the histogram of ratings known exactly."""
    joint = np.bincount(data.ranks, minlength=data.scale.size)[:, None] * policy.channel.likelihood
    return np.asarray((data.scale.ratings @ joint / joint.sum(axis=0))[symbols])


def _compared(guesses: dict[str, Doubles], data: RatingData, known: Chosen) -> Guesses:
    truth, low, high = data.ratings[known], float(data.scale.low), float(data.scale.high)
    liked = truth >= default_threshold(data.scale)
    errors = {
        name: float(np.sqrt(np.mean((np.clip(guess, low, high) - truth) ** 2))) for name, guess in guesses.items()
    }
    return Guesses(errors, {name: roc_auc(guess[~liked], guess[liked]) for name, guess in guesses.items()})
