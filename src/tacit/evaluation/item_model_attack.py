"""The exact attack on a published item model: how surely does it tell one rating's value?

The attacker knows every rating but one, every report but that one's, the policy, the fit and its seed. All that is left
to chance is the word the one device draws. So every word can be tried: for every true rating and every symbol the
whole way is gone, from the ratings to the published numbers, and the words that lead to each publication are counted,
in integers. The logarithm of the worst ratio of two counts is the loss, with nothing estimated and nothing rounded.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit.learning import ReportMatrix, fit
from tacit.privacy import item_files
from tacit.privacy.exact import log_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from tacit.learning import Options
    from tacit.privacy.item_model import ItemModel
    from tacit.privacy.policy import Policy

    Codes = NDArray[np.integer]
    Ranks = NDArray[np.uint16]
    Words = NDArray[np.uint64]


# Pairs of user and item; the first is the one under attack, and its report has nowhere to hide.
_HARD_WORLDS = {
    "no other report": ((0, 0),),
    "one rating, of an item of its own": ((0, 0), (1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 3)),
    "one rating": ((0, 1), (1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 3)),
    "an item of its own": ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 3)),
}
_ORDINARY_SHAPE, _ORDINARY_DENSITY = (12, 8), 0.45


class Stage(NamedTuple):
    """How things stand after a rating was given or changed; an honest provider never looks at the ranks."""

    ranks: Ranks
    symbols: Ranks


if TYPE_CHECKING:
    # Called after every change with all that has happened so far; returns all that anybody can see of it.
    Publication = Callable[[Sequence[Stage]], bytes]


@dataclass(frozen=True, eq=False, slots=True)
class Target:
    """Ratings of a whole world, one of which, at `index`, is under attack."""

    policy: Policy
    users: Codes
    items: Codes
    ranks: Ranks
    index: int

    def ranks_if(self, rank: int) -> Ranks:
        """Return all true ranks, were that of the rating under attack this one."""
        ranks = self.ranks.copy()
        ranks[self.index] = rank
        return ranks

    def stage(self, rank: int, symbol: int, words: Words) -> Stage:
        """Let all devices draw with these words, but the one under attack with one that gives this symbol."""
        ranks, chosen = self.ranks_if(rank), words.copy()
        chosen[self.index] = sum(self.policy.channel.weights.rows[rank][:symbol])
        return Stage(ranks, self.policy.channel.draw(ranks, chosen))


def hard_targets(policy: Policy, rng: np.random.Generator) -> dict[str, Target]:
    """Make the worlds in which one report weighs the most, and an ordinary small one."""
    cells = np.argwhere(rng.random(_ORDINARY_SHAPE) < _ORDINARY_DENSITY)
    worlds = {name: np.array(pairs) for name, pairs in _HARD_WORLDS.items()} | {"an ordinary world": cells}
    return {name: _target(policy, pairs, rng) for name, pairs in worlds.items()}


def _target(policy: Policy, pairs: Codes, rng: np.random.Generator) -> Target:
    ranks = rng.integers(0, policy.scale.size, len(pairs)).astype(np.uint16)
    return Target(policy, pairs[:, 0], pairs[:, 1], ranks, index=0)


@dataclass(frozen=True, slots=True)
class PublicationLoss:
    """What publications tell of a rating at worst: the ratio of their probabilities under two ratings.

    Without a ratio, some publication is possible under one rating and impossible under another.
    """

    worst_ratio: Fraction | None
    publications: int
    """How many different ones there are."""

    @property
    def loss(self) -> float:
        """The smallest epsilon that the publications satisfy."""
        return math.inf if self.worst_ratio is None else log_ratio(self.worst_ratio)

    def within(self, limit: Fraction) -> bool:
        """Tell whether no ratio is above the limit, exactly."""
        return self.worst_ratio is not None and self.worst_ratio <= limit


def exact_loss_of_publication(
    target: Target, publish: Publication, words: Words, *, changes: int = 1, ratings: Sequence[int] | None = None
) -> PublicationLoss:
    """Compute the loss to an attacker who knows everything but one rating and the word drawn for it.

    Args:
        target: The world, and the rating under attack.
        publish: What is done with the reports, and shown to everybody.
        words: What every device draws with; that of the rating under attack is not used.
        changes: How often the rating is given: the first time, and every accepted change of it with a fresh word.
            There is a publication after each, and the attacker sees them all.
        ratings: The ranks that the rating may have, by default all.
    """
    possible = range(target.policy.scale.size) if ratings is None else ratings
    laws = [_law(target, publish, words, truth) for truth in product(possible, repeat=changes)]
    seen = set().union(*laws)
    extremes = [(min(law[each] for law in laws), max(law[each] for law in laws)) for each in seen]
    certain = any(least == 0 for least, _ in extremes)
    ratio = None if certain else max(Fraction(most, least) for least, most in extremes)
    return PublicationLoss(ratio, len(seen))


def _law(target: Target, publish: Publication, words: Words, truth: tuple[int, ...]) -> Counter[tuple[bytes, ...]]:
    """Count the words that lead to each sequence of publications, when these are the true ranks one after the other."""
    law: Counter[tuple[bytes, ...]] = Counter()

    def runs(past: tuple[Stage, ...]) -> Iterator[tuple[tuple[bytes, ...], int]]:
        if len(past) == len(truth):
            yield (), 1
            return
        rank = truth[len(past)]
        for symbol, count in enumerate(target.policy.channel.weights.rows[rank]):
            stages = (*past, target.stage(rank, symbol, words))
            shown = publish(stages)
            yield from (((shown, *later), count * rest) for later, rest in runs(stages))

    for shown, count in runs(()):
        law[shown] += count
    return law


def published_model(
    target: Target, symbols: Ranks, options: Options, *, least_reports: int = 1, seed: int = 0
) -> ItemModel:
    """Fit a model to the reports and return what others will read of it."""
    matrix = ReportMatrix.of_symbols(target.users, target.items, symbols, target.policy)
    model = fit(matrix, options, np.random.default_rng(seed), threads=1)
    return model.item_model(least_reports=least_reports).as_published()


def item_model_publication(target: Target, options: Options, *, least_reports: int = 1) -> Publication:
    """Return what a provider does who fits this model and publishes its items."""

    def publish(stages: Sequence[Stage]) -> bytes:
        return fingerprint(published_model(target, stages[-1].symbols, options, least_reports=least_reports))

    return publish


def fingerprint(published: ItemModel) -> bytes:
    """Return a hash of every stored bit of an item model: two that differ anywhere can be told apart."""
    fields, arrays = item_files.to_parts(published)
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
