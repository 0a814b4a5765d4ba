"""One person's own file of true ratings, for the device's own ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import RatingError, ReportError, TableError
from tacit.privacy.report import check_item
from tacit.tables import Ids, read_table

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.privacy.scale import RatingScale

_SHOWN = 40


def read_own_ratings(path: str | Path, scale: RatingScale, *, rounding: bool = False) -> dict[str, float]:
    """Read ratings by the text form of their items: columns item and rating, and user if all rows are of one."""
    columns = read_table(path, ["item", "rating"], optional=["user"])
    items = columns["item"].ids()
    if "user" in columns:
        _refuse_others(path, columns["user"].ids())
    _refuse_repeats(path, items)
    try:
        ratings = scale.ratings[scale.ranks_of(columns["rating"].numbers(), rounding=rounding)]
        for name in items.distinct:
            check_item(str(name))
    except (RatingError, ReportError) as error:
        raise TableError(f"{path}: {error}") from error
    return dict(zip(map(str, items.decoded().tolist()), ratings.tolist(), strict=True))


def _refuse_others(path: str | Path, users: Ids) -> None:
    if len(users.distinct) > 1:
        one, other = (repr(str(name)[:_SHOWN]) for name in users.distinct[:2])
        raise TableError(
            f"{path} has the ratings of {len(users.distinct)} users, {one} and {other} among them; keep those of one"
        )


def _refuse_repeats(path: str | Path, items: Ids) -> None:
    if len(items.distinct) == len(items.codes):
        return
    order = np.argsort(items.codes, kind="stable")
    first = int(np.argmax(np.diff(items.codes[order]) == 0))
    one, other = (int(row) + 1 for row in order[first : first + 2])
    name = str(items.distinct[items.codes[order[first]]])[:_SHOWN]
    raise TableError(f"{path} rows {one} and {other} both rate item {name!r}; keep one rating of each item")
