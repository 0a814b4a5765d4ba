"""True ratings: a type that provider code cannot import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import RatingError, TableError
from tacit.tables import Ids, ids, numbers, read_columns

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tacit.privacy.scale import RatingScale


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
    columns = read_columns(path, ["user", "item", "rating"])
    users, items = (ids(path, name, columns[name]) for name in ("user", "item"))
    ratings = numbers(path, "rating", columns["rating"])
    try:
        ranks = scale.ranks_of(ratings, rounding=rounding)
    except RatingError as error:
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
