"""True ratings for a study: what is perturbed, held out and compared with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import FileError, RatingError, TableError
from tacit.files import reason_of
from tacit.tables import Ids, read_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.privacy.scale import RatingScale


@dataclass(frozen=True, eq=False)
class RatingData:
    """Ratings of a data set, in order of user and item, one at most for each pair.

    The order, and so every split of them, does not depend on that of the file. Users and items are numbered from 0
    in the order of their ids.
    """

    name: str
    scale: RatingScale
    users: Ids
    items: Ids
    ratings: NDArray[np.float64]
    """As people gave them, which errors are measured against."""
    ranks: NDArray[np.uint16]
    """The same on the scale, perhaps rounded: what a device perturbs."""
    sha256: str
    """Of the file or files they were read from."""
    synthetic: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """How many users and items there are."""
        return len(self.users.distinct), len(self.items.distinct)

    @property
    def density(self) -> float:
        """The share of all pairs of a user and an item that have a rating."""
        return len(self.ratings) / (self.shape[0] * self.shape[1])

    def __len__(self) -> int:
        return len(self.ratings)


def read_rating_data(path: str | Path, scale: RatingScale, *, rounding: bool = False) -> RatingData:
    """Read a CSV or Parquet file with the columns user, item and rating."""
    user, item, rating = read_columns(path, ["user", "item", "rating"])
    return rating_data(
        Path(path).name, scale, user.ids(), item.ids(), rating.numbers(), sha256=sha256_of([path]), rounding=rounding
    )


def rating_data(  # noqa: PLR0913 - the parts of a data set
    name: str,
    scale: RatingScale,
    users: Ids,
    items: Ids,
    ratings: NDArray[np.float64],
    *,
    sha256: str,
    rounding: bool = False,
    synthetic: bool = False,
) -> RatingData:
    """Check ratings and put them in order; a pair that is rated twice is refused, naming its rows."""
    try:
        ranks = scale.ranks_of(ratings, rounding=rounding)
    except RatingError as error:
        raise TableError(f"{name}: {error}") from error
    cells = users.codes.astype(np.int64) * len(items.distinct) + items.codes
    order = np.argsort(cells, kind="stable")
    again = np.flatnonzero(np.diff(cells[order]) == 0)
    if len(again):
        first, second = (int(row) for row in order[again[0] : again[0] + 2])
        pair = f"item {items.distinct[items.codes[first]]} for user {users.distinct[users.codes[first]]}"
        raise TableError(f"{name} rows {first + 1} and {second + 1} both rate {pair}; keep one rating of each pair")
    return RatingData(
        name, scale, users.take(order), items.take(order), ratings[order], ranks[order], sha256, synthetic
    )


def sha256_of(paths: list[str | Path]) -> str:
    """Return the SHA-256 of files' contents, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            with Path(path).open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise FileError(f"cannot read {path}: {reason_of(error)}; check the path") from error
    return digest.hexdigest()
