"""Top lists: the best items for one person or for everybody, and the items most like another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ModelError
from tacit.learning.kernels import checked_threads, default_threads, padded, top_n
from tacit.learning.model_parts import structure
from tacit.learning.predict import check_profile, on_scale
from tacit.privacy.products import row_products

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tacit.learning.model import Model
    from tacit.learning.model_parts import Floats, Indices, Profile

LONGEST_LIST = 10_000

_MOST_USERS_AT_ONCE = 32768
_ENTRIES_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False, slots=True)
class Recommendations:
    """The best items for one person, best first, and their predicted ratings, on the scale.

    With `fallback` the model knows nothing of the person: the items are those rated best by everybody.
    """

    items: list[str | int]
    ratings: Floats
    fallback: bool

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Lists of some users, those with the indices from `first` on, a row each, best first.

    `items` are indices, -1 where fewer items are left than were asked for, and `scores` predicted ratings before
    they are cut off at the ends of the scale, there -infinity. `fallback` marks users without reports.
    """

    first: int
    items: NDArray[np.int32]
    scores: Floats
    fallback: NDArray[np.bool_]


def recommend_for(model: Model, profile: Profile, n: int, left_out: Indices) -> Recommendations:
    """Find the best items for one person; `left_out` are rising indices."""
    check_length(n)
    check_profile(model, profile)
    users, items = (_user_rows(model, profile.factors[None]), model.item_rows)
    level = model.offsets.mean + profile.offset
    if not profile.known:
        users, items, level = padded(np.ones((1, 1))), _fallback_rows(model), model.fallback.mean
    rated = structure(np.array([0, len(left_out)]), left_out)
    found, scores = top_n(users, items, rated, n, threads=1)
    found, scores = found[0][found[0] >= 0], scores[0][found[0] >= 0]
    ids = [model.items.id_at(index) for index in found.tolist()]
    return Recommendations(ids, on_scale(scores + np.float32(level), model.scale), not profile.known)


def recommend_all(
    model: Model, n: int, *, exclude_rated: bool, block: int | None, threads: int | None
) -> Iterator[Block]:
    """Find the best items for every user, block after block, so that memory does not grow with their number."""
    check_length(n)
    step = block if block is not None else max(1, min(_MOST_USERS_AT_ONCE, _ENTRIES_AT_ONCE // n))
    if step < 1:
        raise ModelError(f"blocks of {step} users are none; give at least 1")
    using = default_threads() if threads is None else checked_threads(threads)
    return _blocks(model, n, exclude_rated=exclude_rated, step=step, threads=using)


def similar_items(model: Model, item: str | int, n: int) -> list[tuple[str | int, float]]:
    """Find the items whose factors point most nearly the same way, with the cosine; ties by popularity."""
    check_length(n)
    if not model.rank:
        raise ModelError(f"a model of {model.name!r} has no factors to compare items by; fit another, such as mog-mf")
    index = model.items.index_of(item)
    if index is None or index >= model.reported_items:
        raise ModelError(f"item {str(item)[:40]!r} is unknown or has no reports; give one that was reported on")
    cosines = _cosines(model.item_factors[: model.reported_items], index)
    best = np.argsort(-cosines, kind="stable")
    best = best[best != index][:n]
    return [(model.items.id_at(int(other)), float(cosines[other])) for other in best]


def check_length(n: int) -> None:
    """Refuse a list that would be empty or too long."""
    if not 1 <= n <= LONGEST_LIST:
        raise ModelError(f"a list of {n} items is not one of 1 to {LONGEST_LIST}; choose another length")


def _blocks(model: Model, n: int, *, exclude_rated: bool, step: int, threads: int) -> Iterator[Block]:
    silent = model.rated.counts() == 0
    for first in range(0, len(model.users), step):
        last = min(first + step, len(model.users))
        rated = model.rated.part(first, last) if exclude_rated else None
        users = _user_rows(model, model.user_factors[first:last])
        items, scores = top_n(users, model.item_rows, rated, n, coordinates=_coordinates(model), threads=threads)
        scores += model.offsets.users[first:last, None] + np.float32(model.offsets.mean)
        if silent[first:last].any():
            items[silent[first:last]], scores[silent[first:last]] = _fallback_list(model, n)
        yield Block(first, items, scores, silent[first:last])


def _user_rows(model: Model, factors: Floats) -> Floats:
    """Return factors as the kernel wants them: where items have offsets, these enter with the factor 1."""
    if not model.item_rows_have_offsets:
        return padded(factors)
    return padded(np.hstack([factors, np.ones((len(factors), 1), dtype=np.float32)]))


def _coordinates(model: Model) -> int:
    return max(1, model.rank + model.item_rows_have_offsets)


def _fallback_rows(model: Model) -> Floats:
    return padded(model.fallback.items[: model.reported_items, None])


def _fallback_list(model: Model, n: int) -> tuple[Indices, Floats]:
    items, scores = top_n(padded(np.ones((1, 1))), _fallback_rows(model), None, n, threads=1)
    return items[0], scores[0] + np.float32(model.fallback.mean)


def _cosines(factors: Floats, index: int) -> Floats:
    lengths = np.sqrt(row_products(factors, factors))
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = factors @ factors[index] / (lengths * lengths[index])
    cosines[np.isnan(cosines)] = 0  # what has no direction is like nothing
    return np.asarray(np.clip(cosines, -1, 1), dtype=np.float32)
