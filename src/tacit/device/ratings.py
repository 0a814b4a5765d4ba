"""True ratings: a type that provider code cannot import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tacit.errors import RatingError, ReportError, TableError
from tacit.privacy.report import check_item
from tacit.tables import Ids, read_columns

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tacit.privacy.scale import RatingScale


RatingsByItem: TypeAlias = Mapping[str, float | Decimal] | Mapping[int, float | Decimal]


@dataclass(frozen=True, eq=False)
class TrueRatings:
    """What people really think: one rank per user and item, in order of user and item.

    The order is part of the protection: a file may have come sorted by rating,
    and reports in that order would give the ratings away.
    """

    users: Ids
    items: Ids
    ranks: NDArray[np.uint16]

    @property
    def ratings_of_busiest_user(self) -> int:
        """How many ratings the user with most of them has."""
        return int(np.bincount(self.users.codes).max())


def read_true_ratings(path: str | Path, scale: RatingScale, *, rounding: bool = False) -> TrueRatings:
    """Read a ratings file with the columns user, item and rating, and check every row of it."""
    user, item, rating = read_columns(path, ["user", "item", "rating"])
    users, items = user.ids(), item.ids()
    try:
        ranks = scale.ranks_of(rating.numbers(), rounding=rounding)
        for name in items.distinct:
            check_item(str(name))
    except (RatingError, ReportError) as error:
        raise TableError(f"{path}: {error}") from error
    cells = users.codes.astype(np.int64) * len(items.distinct) + items.codes
    order = np.argsort(cells, kind="stable")
    _refuse_duplicates(path, users, items, order)
    return TrueRatings(users.take(order), items.take(order), ranks[order])


def _refuse_duplicates(path: str | Path, users: Ids, items: Ids, order: NDArray[np.int64]) -> None:
    user, item = users.codes[order], items.codes[order]
    again = (user[1:] == user[:-1]) & (item[1:] == item[:-1])
    if again.any():
        first = int(np.argmax(again))
        rows = [int(row) + 1 for row in order[first : first + 2]]
        raise TableError(
            f"{path} rows {rows[0]} and {rows[1]} both rate item {items.distinct[item[first]]} for user "
            f"{users.distinct[user[first]]}; keep one rating per user and item"
        )


def by_item(ratings: RatingsByItem) -> dict[str, float | Decimal]:
    """Return ratings keyed by the text of their items' ids."""
    return {item_name(item): rating for item, rating in ratings.items()}


def item_name(item: str | int) -> str:
    """Return an item's id as text."""
    if isinstance(item, int | np.integer) and not isinstance(item, bool) and abs(int(item)) < 2**63:
        item = str(item)
    if not isinstance(item, str):
        raise ReportError(f"an item of type {type(item).__name__} is not text or a 64-bit whole number; use its id")
    check_item(item)
    return item


def on_scale(scale: RatingScale, rating: float | Decimal) -> Decimal:
    """Return a rating as the exact decimal of its rank."""
    if isinstance(rating, bool) or not isinstance(rating, Real | Decimal):
        raise RatingError(f"a rating of type {type(rating).__name__} is not a number; give {scale.low} to {scale.high}")
    try:
        number = float(rating)
    except (OverflowError, ValueError) as error:
        raise RatingError(f"a rating that no float can hold is not on the scale {scale}; correct it") from error
    return scale.low + scale.step * int(scale.ranks_of([number])[0])
