"""The vocabulary: which index of a matrix or model stands for which id."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidInputError, ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    IdList = Sequence[Any] | NDArray[Any]

MOST_IDS = 2**31 - 1

_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64 = np.iinfo(np.int64)
_SHOWN = 40
_REMEDY = "give every id as a whole number or as text"


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Ids by their index: whole numbers, or text.

    Ids match by their text form, so "7" finds the number 7, and 7 the text "7"; "07" is another id.
    The array is made read-only; build with `of` from ids that were not checked before.

    >>> words = Vocabulary.of(["b", "a", "7"])
    >>> words.find([7, "b", "c"])
    array([ 2,  0, -1], dtype=int32)
    """

    ids: NDArray[Any]

    def __post_init__(self) -> None:
        """Keep the ids from being changed."""
        self.ids.setflags(write=False)

    @classmethod
    def of(cls, ids: IdList) -> Vocabulary:
        """Build a vocabulary from ids in their order, or refuse one that is there twice."""
        made = cls(plain_ids([as_ids(ids)])[0].copy())
        made._check()
        return made

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, ids: IdList) -> NDArray[np.int32]:
        """Return the index of every id, -1 where it is unknown."""
        wanted = as_ids(ids)
        if self.ids.dtype.kind == "i" and _fits(wanted):
            return self._find_numbers(wanted.astype(np.int64, copy=False))
        # For text a dictionary is quicker than any search in sorted order.
        found = map(self._index_by_text.get, as_texts(wanted), repeat(-1))
        return np.fromiter(found, dtype=np.int32, count=len(wanted))

    def index_of(self, wanted: str | int) -> int | None:
        """Return the index of one id, or None if it is unknown."""
        if isinstance(wanted, bool) or not isinstance(wanted, str | int | np.integer):
            raise InvalidInputError(f"{str(wanted)[:_SHOWN]!r} is no id; {_REMEDY}")
        text = str(wanted)
        if self.ids.dtype.kind != "i":
            return self._index_by_text.get(text)
        if not _WHOLE_NUMBER.fullmatch(text):
            return None
        index = int(self.find([int(text)])[0])
        return None if index < 0 else index

    def id_at(self, index: int) -> str | int:
        """Return the id of an index, as Python's own text or whole number."""
        found = self.ids[index]
        return found if isinstance(found, str) else int(found)

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return arrays to save: `{prefix}_ids`, or UTF-8 in `{prefix}_text` cut at `{prefix}_offsets`."""
        if self.ids.dtype.kind == "i":
            return {f"{prefix}_ids": self.ids}
        encoded = [text.encode() for text in self.ids]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return {f"{prefix}_text": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{prefix}_offsets": offsets}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> Vocabulary:
        """Read what `to_arrays` wrote; files are not trusted, so everything is checked."""
        if f"{prefix}_ids" in arrays:
            ids = _checked_array(arrays, f"{prefix}_ids", np.int64)
        else:
            text = _checked_array(arrays, f"{prefix}_text", np.uint8)
            ids = _cut(text, _checked_array(arrays, f"{prefix}_offsets", np.int64), prefix)
        if len(ids) > MOST_IDS:
            raise ModelError(f"{prefix} has {len(ids)} ids, the limit is {MOST_IDS}; the file is damaged")
        made = cls(ids)
        made._check()
        return made

    @cached_property
    def _rising(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The numbers in rising order, and their indices."""
        order = np.argsort(self.ids, kind="stable").astype(np.int32)
        return self.ids[order], order

    @cached_property
    def _index_by_text(self) -> dict[str, int]:
        return dict(zip(as_texts(self.ids), range(len(self)), strict=True))

    def _find_numbers(self, wanted: NDArray[np.int64]) -> NDArray[np.int32]:
        if not len(self):
            return np.full(len(wanted), -1, dtype=np.int32)
        rising, order = self._rising
        at = np.minimum(np.searchsorted(rising, wanted), len(self) - 1)
        return np.where(rising[at] == wanted, order[at], np.int32(-1))

    def _check(self) -> None:
        """Refuse ids that are there twice, and text that is empty or could not be saved."""
        found = self.find(self.ids)
        repeats = np.flatnonzero(found != np.arange(len(self)))
        if len(repeats):
            one, other = sorted((int(repeats[0]), int(found[repeats[0]])))
            shown = str(self.ids[one])[:_SHOWN]
            raise ModelError(f"id {shown!r} is there twice, at index {one} and {other}; keep one of them")
        if self.ids.dtype.kind == "i":
            return
        if "" in self._index_by_text:
            raise ModelError(f"the id at index {self._index_by_text['']} is empty; give it at least one character")
        try:
            "".join(self.ids).encode()
        except UnicodeEncodeError as error:
            raise ModelError(f"an id has {error.object[error.start]!a}, which is no character; correct it") from error


def as_ids(ids: IdList, name: str = "id") -> NDArray[Any]:
    """Return ids as an array of integers or of text, or refuse them."""
    if isinstance(ids, bytes | bytearray):
        raise InvalidInputError(f"{name}s are bytes, not a list; {_REMEDY}")
    found = np.asarray(ids) if hasattr(ids, "__array__") else _checked_entries(list(ids), name)
    if found.ndim == 1 and (found.dtype.kind == "O" or not found.size):
        found = _checked_entries(found.tolist(), name)
    if found.ndim != 1 or found.dtype.kind not in "iuUTO":
        raise InvalidInputError(f"{name}s in an array of shape {found.shape} and {found.dtype}; {_REMEDY}")
    return found


def _checked_entries(entries: list[Any], name: str) -> NDArray[Any]:
    kinds = set(map(type, entries))
    strange = {kind for kind in kinds if not issubclass(kind, str | int | np.integer) or kind is bool}
    if strange:
        row = next(row for row, entry in enumerate(entries, 1) if type(entry) in strange)
        raise InvalidInputError(f"{name} {str(entries[row - 1])[:_SHOWN]!r} (row {row}) is no id; {_REMEDY}")
    if any(issubclass(kind, str) for kind in kinds):
        return _objects(list(map(str, entries)))
    numbers = np.asarray(entries or np.empty(0, dtype=np.int64))
    return numbers if numbers.dtype.kind in "iu" else _objects(list(map(str, entries)))


def _objects(texts: list[str]) -> NDArray[Any]:
    made = np.empty(len(texts), dtype=object)
    made[:] = texts
    return made


def as_texts(ids: NDArray[Any]) -> list[str]:
    """Return ids in their text form."""
    return list(map(str, ids.tolist()))


def plain_ids(parts: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return arrays of ids in one type: int64, or objects of text as soon as one of them needs that."""
    if all(_fits(part) for part in parts):
        return [part.astype(np.int64, copy=False) for part in parts]
    return [part if part.dtype.kind == "O" else _objects(as_texts(part)) for part in parts]


def _fits(ids: NDArray[Any]) -> bool:
    """Tell whether ids are numbers that fit int64."""
    return ids.dtype.kind == "i" or (ids.dtype.kind == "u" and bool(ids.max(initial=0) <= _INT64.max))


def _checked_array(arrays: Mapping[str, NDArray[Any]], key: str, kind: type[np.generic]) -> NDArray[Any]:
    if key not in arrays:
        raise ModelError(f"array {key!r} of the ids is missing; the file is damaged or of another kind")
    array = arrays[key]
    if array.dtype != kind or array.ndim != 1:
        raise ModelError(f"array {key!r} is {array.ndim}-dimensional {array.dtype}, not a row of {np.dtype(kind)}")
    return array


def _cut(text: NDArray[np.uint8], offsets: NDArray[np.int64], prefix: str) -> NDArray[Any]:
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(text) or (np.diff(offsets) <= 0).any():
        raise ModelError(f"{prefix}_offsets do not rise from 0 to the {len(text)} bytes of text; the file is damaged")
    content, ends = text.tobytes(), offsets.tolist()
    try:
        words = [content[start:end].decode() for start, end in pairwise(ends)]
    except UnicodeDecodeError as error:
        raise ModelError(f"an id in {prefix}_text is not UTF-8; the file is damaged") from error
    return _objects(words)
