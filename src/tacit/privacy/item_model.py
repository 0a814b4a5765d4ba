"""The item model: the public part of a model, all that a device needs to rank by itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ModelError
from tacit.privacy.array_folders import FolderKind, folder_written_atomically, read_parts, write_parts
from tacit.privacy.documents import scale_document, scale_of
from tacit.privacy.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from tacit.privacy.scale import RatingScale

    Floats = NDArray[np.float32]

KIND = FolderKind("tacit-items/1", "items.json", "items.npz")

# Products of factors up to this size, summed over any rank, stay finite in single precision.
LARGEST = 1e15

# How factors are stored; later versions add narrower ones under other names.
_ENCODING = "float32"


@dataclass(frozen=True, eq=False)
class ItemModel:
    """Items with their offsets and factors, by falling number of reports; no user's row is in it.

    A person's score of an item is the mean, the person's offset, the item's offset and the product of factors.
    Only items with reports are there. The arrays are made read-only.

    >>> from tacit import RatingScale
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

    def __post_init__(self) -> None:
        """Refuse parts that do not fit together or are not finite, and keep them from being changed."""
        if not len(self.items):
            raise ModelError("an item model without items says nothing; learn from at least one report")
        check_number("the mean", self.mean)
        check_floats("item offsets", self.offsets, (len(self.items),))
        check_floats("item factors", self.factors, (len(self.items), self.rank))

    @property
    def rank(self) -> int:
        """How many factors an item has."""
        return rank_of(self.factors)

    def scores(self, vector: ArrayLike, offset: float = 0.0) -> Floats:
        """Return the score of every item for a person's vector and offset; it may lie beyond the scale."""
        person = np.asarray(vector, dtype=np.float32)
        if person.shape != (self.rank,) or not np.isfinite(person).all() or not np.isfinite(offset):
            raise ModelError(f"a vector of shape {person.shape} is not {self.rank} finite numbers; give one each")
        scores = np.einsum("if,f->i", self.factors, person) + self.offsets + np.float32(self.mean + offset)
        return np.asarray(scores, dtype=np.float32)

    def save(self, folder: str | Path) -> None:
        """Write the folder; one that is there is replaced if it is an item model too, or empty."""
        with folder_written_atomically(Path(folder), KIND) as temporary:
            self.write_into(temporary)

    def write_into(self, folder: Path) -> None:
        """Make a folder as part of another that is being written."""
        arrays = {"factors": self.factors, "offsets": self.offsets, **self.items.to_arrays("item_names")}
        fields = {
            "scale": scale_document(self.scale),
            "mean": float(self.mean),
            "rank": self.rank,
            "encoding": _ENCODING,
        }
        write_parts(folder, KIND, fields, arrays)

    @classmethod
    def load(cls, folder: str | Path) -> ItemModel:
        """Read a folder that may have come from anywhere, or refuse it."""
        fields, arrays = read_parts(Path(folder), KIND)
        if fields.text("encoding") != _ENCODING:
            raise ModelError(f"{fields.label}: encoding {fields.text('encoding')[:40]!r} is not known; update tacit")
        items = Vocabulary.from_arrays(arrays, "item_names")
        parts = (take(arrays, name, folder) for name in ("offsets", "factors"))
        made = cls(scale_of(fields), items, fields.number("mean"), *parts)
        if fields.count("rank") != made.rank:
            raise fields.refuse("rank", f"the {made.rank} of the factors")
        return made


def take(arrays: dict[str, NDArray[Any]], name: str, folder: str | Path) -> NDArray[Any]:
    """Take an array out of those of a folder."""
    if name not in arrays:
        raise ModelError(f"{folder} has no array {name!r}; it is damaged or of another kind")
    return arrays[name]


def rank_of(factors: NDArray[Any]) -> int:
    """Return the number of columns; what has no columns is refused later, with its shape."""
    return factors.shape[1] if factors.ndim == 2 else 0  # noqa: PLR2004 - rows and columns


def check_number(what: str, number: float) -> None:
    """Refuse a number that is not finite, or too large to be meant."""
    if not abs(number) <= LARGEST:
        raise ModelError(f"{what} is {number}, not a number up to {LARGEST:g}; the model is damaged")


def check_floats(what: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Refuse an array of another type or shape, or with numbers that are not finite; make it read-only."""
    if array.dtype != np.float32 or array.shape != shape:
        found = f"{array.dtype} of shape {array.shape}"
        raise ModelError(f"{what} are {found}, not float32 of shape {shape}; the model is damaged")
    # Written so that a comparison with NaN refuses, too.
    if not (array.min(initial=0) >= -LARGEST and array.max(initial=0) <= LARGEST):
        raise ModelError(f"{what} are not all finite numbers up to {LARGEST:g}; fit again with more ridge")
    array.setflags(write=False)
