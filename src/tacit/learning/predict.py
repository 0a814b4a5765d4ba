"""Predicted ratings: for pairs of known users and items from the model, for others from what is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ModelError
from tacit.privacy.products import row_products

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.model import Model
    from tacit.learning.model_parts import Floats, Indices, Profile
    from tacit.privacy.scale import RatingScale
    from tacit.privacy.vocabulary import IdList

_PAIRS_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False, slots=True)
class Predictions:
    """Predicted ratings, on the scale and never NaN.

    Where `fallback` is true the user or the item is unknown, or nothing was reported of it: the rating is then
    the mean, with the offset of the one that is known.
    """

    ratings: Floats
    fallback: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ratings)


def predict_pairs(model: Model, users: IdList, items: IdList) -> Predictions:
    """Predict the ratings of pairs, some at a time: their factors are copied out."""
    user_of, item_of = known_users(model, users), known_items(model, items)
    if len(user_of) != len(item_of):
        raise ModelError(f"{len(user_of)} users and {len(item_of)} items are no pairs; give as many of each")
    scores = np.empty(len(user_of), dtype=np.float32)
    for start in range(0, len(scores), _PAIRS_AT_ONCE):
        block = slice(start, start + _PAIRS_AT_ONCE)
        scores[block] = _scores(model, user_of[block], item_of[block])
    return Predictions(on_scale(scores, model.scale), (user_of < 0) | (item_of < 0))


def predict_for(model: Model, profile: Profile, items: IdList) -> Predictions:
    """Predict ratings of one person; an unknown item is at the person's own level."""
    check_profile(model, profile)
    item_of = known_items(model, items)
    nobody = np.full(len(item_of), -1, dtype=np.int32)
    known = (item_of >= 0) & profile.known
    learned = model.offsets.of(nobody, item_of) + row_products(model.item_factors[item_of], profile.factors)
    scores = np.where(known, learned, model.fallback.of(nobody, item_of)) + np.float32(profile.offset)
    return Predictions(on_scale(scores, model.scale), ~known)


def check_profile(model: Model, profile: Profile) -> None:
    """Refuse the profile of another model."""
    fits = profile.factors.shape == (model.rank,) and bool((profile.rated < len(model.items)).all())
    if not fits or not np.isfinite([*profile.factors, profile.offset]).all():
        raise ModelError(f"the profile is not one of this model of rank {model.rank}; fold the reports in again")


def known_users(model: Model, ids: IdList) -> Indices:
    """Return the index of each user, -1 for one that is unknown or made no report."""
    found = model.users.find(_listed(ids, "user"))
    counts = model.rated.counts()
    return np.where((found >= 0) & (counts[found] > 0), found, np.int32(-1))


def known_items(model: Model, ids: IdList) -> Indices:
    """Return the index of each item, -1 for one that is unknown or nobody reported on."""
    found = model.items.find(_listed(ids, "item"))
    return np.where(found < model.reported_items, found, np.int32(-1))


def on_scale(scores: Floats, scale: RatingScale) -> Floats:
    """Return scores as ratings between the ends of the scale."""
    return np.clip(scores, np.float32(scale.low), np.float32(scale.high))


def _scores(model: Model, user_of: Indices, item_of: Indices) -> Floats:
    products = row_products(model.user_factors[user_of], model.item_factors[item_of])
    learned = model.offsets.of(user_of, item_of) + products
    return np.where((user_of < 0) | (item_of < 0), model.fallback.of(user_of, item_of), learned)


def _listed(ids: IdList, name: str) -> IdList:
    if isinstance(ids, str | int):
        raise ModelError(f"{name}s {ids!r} is one id, not a list; write [{ids!r}]")
    return ids
