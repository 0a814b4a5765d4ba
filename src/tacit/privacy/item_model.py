"""The item model: the public part of a model, all that a device needs to rank by itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ModelError
from tacit.privacy import item_files
from tacit.privacy.array_checks import LARGEST, check_floats, check_number, rank_of, take
from tacit.privacy.array_folders import folder_written_atomically, read_parts, write_parts
from tacit.privacy.documents import Fields
from tacit.privacy.item_beliefs import MOST_COLUMNS, Beliefs, ItemPattern
from tacit.privacy.item_files import KIND
from tacit.privacy.products import row_products

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from tacit.privacy.scale import RatingScale
    from tacit.privacy.vocabulary import Vocabulary

    Floats = NDArray[np.float32]

__all__ = ["KIND", "LARGEST", "Beliefs", "ItemModel", "ItemPattern", "check_floats", "check_number", "rank_of", "take"]


@dataclass(frozen=True, eq=False)
class ItemModel:
    """Items with their offsets and factors, by falling number of reports; no user's row is in it.

    A person's score of an item is the mean, the person's offset, the item's offset and the product of factors; with
    a pattern also the products of traits and the person's weights, and of responses and the person's place.
    Only items with reports are there. The arrays are made read-only. On disk numbers are rounded to few bits;
    `as_published` is what others will read.

    >>> from tacit import RatingScale
    >>> from tacit.privacy.vocabulary import Vocabulary
    >>> words = Vocabulary.of(["The Quiet Harbour", "Rain"])
    >>> factors = np.array([[1.0], [-1.0]], dtype=np.float32)
    >>> films = ItemModel(RatingScale.parse("1:5:1"), words, 3.0, np.zeros(2, dtype=np.float32), factors)
    >>> films.scores([0.5], offset=0.25)
    array([3.75, 2.75], dtype=float32)
    """

    scale: RatingScale
    items: Vocabulary
    mean: float
    offsets: Floats
    factors: Floats
    beliefs: Beliefs | None = None
    pattern: ItemPattern | None = None

    def __post_init__(self) -> None:
        """Refuse parts that do not fit together or are not finite, and keep them from being changed."""
        if not len(self.items):
            raise ModelError("an item model without items says nothing; learn from at least one report")
        if self.rank > MOST_COLUMNS:
            raise ModelError(f"rank {self.rank} is above the limit of {MOST_COLUMNS}; fit a lower one")
        check_number("the mean", self.mean)
        check_floats("item offsets", self.offsets, (len(self.items),))
        check_floats("item factors", self.factors, (len(self.items), self.rank))
        self._check_beliefs()

    def _check_beliefs(self) -> None:
        if self.beliefs is not None and self.beliefs.shape != self.factors.shape:
            found = f"beliefs about items and factors {self.beliefs.shape}"
            raise ModelError(f"{found} do not fit factors {self.factors.shape}; the model is damaged")
        if self.pattern is not None and len(self.pattern.shares) != len(self.items):
            found = f"a pattern of {len(self.pattern.shares)} items"
            raise ModelError(f"{found} does not fit {len(self.items)} items; the model is damaged")
        if self.pattern is not None and self.beliefs is None:
            raise ModelError("an item model has a pattern but no beliefs to weigh it with; give both or neither")

    @property
    def rank(self) -> int:
        """How many factors an item has."""
        return rank_of(self.factors)

    def scores(
        self,
        vector: ArrayLike,
        offset: float = 0.0,
        *,
        trait_weights: ArrayLike | None = None,
        place: ArrayLike | None = None,
    ) -> Floats:
        """Return the score of every item for one person; it may lie beyond the scale.

        Args:
            vector: The person's coordinates on the factors.
            offset: The person's own offset.
            trait_weights: The person's weights on the traits of the pattern; zeros if not given.
            place: The person's place in the embedding of the pattern; zeros if not given.
        """
        if not np.isfinite(offset):
            raise ModelError(f"an offset of {offset} is not a finite number; give one")
        scores = self.offsets + np.float32(self.mean + offset) + _product("vector", self.factors, vector)
        if self.pattern is not None:
            scores += _product("row of trait weights", self.pattern.traits, trait_weights)
            scores += _product("place", self.pattern.responses, place)
        elif trait_weights is not None or place is not None:
            raise ModelError("trait weights or a place were given, but the model has no pattern; leave them out")
        return np.asarray(scores, dtype=np.float32)

    def as_published(self) -> ItemModel:
        """Return the model as it is after saving and loading: its numbers rounded to what is stored."""
        fields, arrays = item_files.to_parts(self)
        return ItemModel(*item_files.from_parts(Fields("this model", fields), arrays))

    def save(self, folder: str | Path) -> None:
        """Write the folder; one that is there is replaced if it is an item model too, or empty."""
        with folder_written_atomically(Path(folder), KIND) as temporary:
            self.write_into(temporary)

    def write_into(self, folder: Path) -> None:
        """Make a folder as part of another that is being written."""
        write_parts(folder, KIND, *item_files.to_parts(self))

    @classmethod
    def load(cls, folder: str | Path) -> ItemModel:
        """Read a folder that may have come from anywhere, or refuse it."""
        return cls(*item_files.from_parts(*read_parts(Path(folder), KIND)))


def _product(what: str, rows: Floats, person: ArrayLike | None) -> Floats | np.float32:
    """Multiply every item's row by a person's."""
    if person is None:
        return np.float32(0)
    wanted = rows.shape[1:]
    column = np.asarray(person, dtype=np.float32)
    if column.shape != wanted or not np.isfinite(column).all():
        raise ModelError(f"a {what} of shape {column.shape} is not {wanted[0]} finite numbers; give one each")
    return row_products(rows, column)
