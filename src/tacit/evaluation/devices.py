"""Simulated devices that rank by themselves: each has its own true ratings and what the provider published."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.device.personal import fit_person
from tacit.device.ranking import best_first, list_scores, scores_of
from tacit.evaluation.metrics import Scores
from tacit.evaluation.top_lists import LENGTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.device.personal import Person
    from tacit.privacy.item_model import ItemModel

    Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False, slots=True)
class OwnRatings:
    """The true ratings that devices hold, in order of user; users and items are codes from 0."""

    users: Codes
    items: Codes
    ratings: NDArray[np.float64]
    shape: tuple[int, int]


def device_scores(published: ItemModel, own: OwnRatings) -> Scores:
    """Let every device fit its own row and list the best items; ids of the published items are codes.

    An item that was not published, because nobody reported on it, is at the person's own level and on no list.
    """
    codes, items = np.asarray(published.items.ids, dtype=np.int32), _item_rows(published, own.shape[1])
    index = np.full(own.shape[1], -1, dtype=np.int64)
    index[codes] = np.arange(len(codes))
    users = np.zeros((own.shape[0], items.shape[1]), dtype=np.float32)
    lists = np.full((own.shape[0], LENGTH), -1, dtype=np.int32)
    bounds = np.searchsorted(own.users, np.arange(own.shape[0] + 1))
    for user, (first, last) in enumerate(itertools.pairwise(bounds)):
        rated = index[own.items[first:last]]
        person = fit_person(published, rated[rated >= 0], own.ratings[first:last][rated >= 0])
        users[user] = _row(published, person)
        best = _best(published, person)
        lists[user, : len(best)] = codes[best]
    return Scores(users, items, lists)


def _best(published: ItemModel, person: Person) -> NDArray[np.int64]:
    """Return the items at the top of a person's list, as the device would show it."""
    scores = scores_of(published, person)
    return best_first(list_scores(published, person, scores), scores, leave_out=person.rated)[:LENGTH]


def _row(published: ItemModel, person: Person) -> NDArray[np.float32]:
    """Return one person's row: level, 1 for the items' own offsets, and what multiplies the items' columns."""
    level = [published.mean + person.offset, 1.0]
    return np.concatenate([level, person.trait_weights, person.factors, person.place]).astype(np.float32)


def _item_rows(published: ItemModel, catalogue: int) -> NDArray[np.float32]:
    columns, codes = _columns(published), np.asarray(published.items.ids)
    rows = np.zeros((catalogue, columns.shape[1] + 2), dtype=np.float32)
    rows[:, 0] = 1
    rows[codes, 1] = published.offsets
    rows[codes, 2:] = columns
    return rows


def _columns(published: ItemModel) -> NDArray[np.float32]:
    """Return what a person's row is multiplied with: traits, factors and responses to the person's place."""
    if published.pattern is None:
        return published.factors
    return np.hstack([published.pattern.traits, published.factors, published.pattern.responses])
