"""Simulated devices that rank by themselves: each has its own true ratings and what the provider published."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.device.personal import fit_person
from tacit.evaluation.metrics import Scores

if TYPE_CHECKING:
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


def device_scores(published: ItemModel, own: OwnRatings) -> Scores:
    """Let every device fit its own row; ids of the published items are codes.

    An item that was not published, because nobody reported on it, is at the person's own level.
    """
    traits = _columns(published)
    items = np.zeros((own.shape[1], traits.shape[1] + 2), dtype=np.float32)
    items[:, 0] = 1
    codes = np.asarray(published.items.ids)
    items[codes, 1] = published.offsets
    items[codes, 2:] = traits
    index = np.full(own.shape[1], -1, dtype=np.int64)
    index[codes] = np.arange(len(codes))
    users = np.zeros((own.shape[0], items.shape[1]), dtype=np.float32)
    bounds = np.searchsorted(own.users, np.arange(own.shape[0] + 1))
    for user, (first, last) in enumerate(itertools.pairwise(bounds)):
        users[user] = _row(published, index[own.items[first:last]], own.ratings[first:last])
    return Scores(users, items)


def _row(published: ItemModel, rated: NDArray[np.int64], ratings: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return one person's row: level, 1 for the items' own offsets, and what multiplies the items' columns."""
    known = rated >= 0
    person = fit_person(published, rated[known], ratings[known])
    level = [published.mean + person.offset, 1.0]
    return np.concatenate([level, person.trait_weights, person.factors, person.place]).astype(np.float32)


def _columns(published: ItemModel) -> NDArray[np.float32]:
    """Return what a person's row is multiplied with: traits, factors and responses to the person's place."""
    if published.pattern is None:
        return published.factors
    return np.hstack([published.pattern.traits, published.factors, published.pattern.responses])
