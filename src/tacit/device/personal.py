"""A person's own coordinates among published items, solved on the device from true ratings, which stay there.

Given the items, a rating is Gaussian around a score that is linear in the person's coordinates: their offset, their
weights on the items' traits, how much each item they rated pulls those like it, and their coordinates on the factors.
The provider publishes what it believes of these beforehand; the ratings do the rest, by one small system of linear
equations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.device.blas import one_thread
from tacit.device.equations import Equations
from tacit.device.likeness import pulled
from tacit.errors import ModelError
from tacit.privacy.array_checks import LARGEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.privacy.item_model import ItemModel

    Floats = NDArray[np.float32]
    Reals = NDArray[np.float64]
    Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)  # what is printed or logged must not show it
class Person:
    """A person among the items of one item model; to be kept as secret as the ratings it follows from."""

    offset: float
    trait_weights: Reals
    """(T,)."""
    pulls: Reals
    """How much the first of the rated items pull the scores of those like them; none without a pattern."""
    factors: Reals
    """(rank,)."""
    place: Reals
    """(D,) where in the embedding the person is; follows from which items they rated alone."""
    rated: Indices
    """The indices of the rated items, rising."""
    residuals: Reals
    """By how much each rating is above what was to be expected without it."""
    equations: Equations
    """What the coordinates were solved from."""
    spread_weights: Reals
    """How much the person's ratings speak for each of the spreads, in sum 1."""


@one_thread()
def fit_person(items: ItemModel, rated: NDArray[np.integer], ratings: Reals) -> Person:
    """Solve a person's coordinates.

    Args:
        items: What the provider published.
        rated: The indices of the items that the person rated, each once, in any order.
        ratings: The true ratings of them.
    """
    rated, ratings = _checked(items, rated, ratings)
    place = np.zeros(0) if items.pattern is None else items.pattern.place_of(rated)
    residuals = ratings - _expected(items, rated, place)
    equations = Equations.of(items, rated)
    coordinates, spread_weights = equations.solved(residuals)
    if not ((np.abs(coordinates) <= LARGEST).all() and (np.abs(place) <= LARGEST).all()):
        raise ModelError(f"{len(rated)} ratings do not place this person among the items; the model is damaged")
    landmarks = equations.columns.landmarks
    traits = 0 if items.pattern is None else items.pattern.traits.shape[1]
    offset, weights, alike, factors = np.split(coordinates, [1, 1 + traits, len(coordinates) - items.rank])
    pulls = alike if landmarks is None else landmarks.pulls(alike)
    return Person(float(offset[0]), weights, pulls, factors, place, rated, residuals, equations, spread_weights)


@one_thread()
def scores_of(items: ItemModel, person: Person) -> Floats:
    """Return a person's scores of all items; they may lie beyond the scale."""
    if items.pattern is None:
        return items.scores(person.factors, person.offset)
    scores = items.scores(person.factors, person.offset, trait_weights=person.trait_weights, place=person.place)
    directions = items.pattern.directions
    return scores + pulled(directions, directions[person.rated[: len(person.pulls)]], person.pulls)


@one_thread()
def effects_on(person: Person, index: int) -> Reals:
    """Return by how much every rating of a person moves the score of one item, in the order of `rated`.

    Exact for the weights that the person's ratings give the spreads; those would move a little with any rating.
    """
    equations = person.equations
    row = equations.columns.at(np.array([index]))[0]
    answer = person.spread_weights @ equations.solutions(row)
    return np.asarray(equations.design @ answer * equations.weights * person.residuals)


def _checked(items: ItemModel, rated: NDArray[np.integer], ratings: Reals) -> tuple[Indices, Reals]:
    """Return ratings in the order of items, so that theirs does not matter, not even to rounding."""
    if rated.ndim != 1 or rated.shape != ratings.shape:
        raise ModelError(f"items of shape {rated.shape} and ratings of {ratings.shape} are no pairs; give one each")
    order = np.argsort(rated, kind="stable")
    indices, numbers = rated[order].astype(np.int64), ratings[order].astype(np.float64)
    if len(indices) and not 0 <= indices[0] <= indices[-1] < len(items.items):
        raise ModelError(f"items {indices[0]} to {indices[-1]} are not all among the {len(items.items)}; check indices")
    if (indices[1:] == indices[:-1]).any():
        raise ModelError("an item is there twice; give one rating for each item, the last one if it was changed")
    if not (np.abs(numbers) <= LARGEST).all():
        raise ModelError(f"a rating is not a finite number up to {LARGEST:g}; give those on the scale {items.scale}")
    return indices, numbers


def _expected(items: ItemModel, rated: Indices, place: Reals) -> Reals:
    """Return the scores of a person of whom nothing but their place is known."""
    level = items.mean + items.offsets[rated].astype(np.float64)
    return level if items.pattern is None else level + items.pattern.responses[rated] @ place
