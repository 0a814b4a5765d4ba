"""Simulated devices that rank by themselves: each has its own true ratings and what the provider published."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.device.personal import fit_person, scores_of
from tacit.device.ranking import best_first, list_scores
from tacit.evaluation.metrics import Answers
from tacit.evaluation.top_lists import LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tacit.privacy.item_model import ItemModel

    Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False, slots=True)
class OwnRatings:
    """The true ratings that devices hold, in order of user; users and items are codes from 0."""

    users: Codes
    items: Codes
    ratings: NDArray[np.float64]
    shape: tuple[int, int]


def device_answers(published: ItemModel, own: OwnRatings, users: Codes, items: Codes) -> Answers:
    """Let every device predict the ratings asked for, by rising user, and list the best items; published ids are codes.

    An item that was not published, because nobody reported on it, is at the person's own level and on no list.
    """
    codes = np.asarray(published.items.ids, dtype=np.int32)
    index = np.full(own.shape[1], -1, dtype=np.int64)
    index[codes] = np.arange(len(codes))
    predicted = np.empty(len(users), dtype=np.float32)
    lists = np.full((own.shape[0], LENGTH), -1, dtype=np.int32)
    for user, rated, asked in zip(range(own.shape[0]), _parts(own.users, own), _parts(users, own), strict=True):
        known = index[own.items[rated]]
        person = fit_person(published, known[known >= 0], own.ratings[rated][known >= 0])
        scores = scores_of(published, person)
        wanted = index[items[asked]]
        predicted[asked] = np.where(wanted >= 0, scores[wanted], published.mean + person.offset)
        best = best_first(list_scores(published, person, scores), scores, leave_out=person.rated)[:LENGTH]
        lists[user, : len(best)] = codes[best]
    return Answers(predicted, lists)


def _parts(users: Codes, own: OwnRatings) -> Iterator[slice]:
    """Yield what belongs to each user, where users rise."""
    bounds = np.searchsorted(users, np.arange(own.shape[0] + 1)).tolist()
    return itertools.starmap(slice, itertools.pairwise(bounds))
