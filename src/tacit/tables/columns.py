"""Columns of tables: as Arrow holds them, and read as ids, numbers or text, or refused with their row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import TableError
from tacit.tables.places import CSV, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Arrow = Any  # tables, arrays, types: pyarrow has no annotations

# What counts as a number in a text field; NaN and infinity are read, so that the scale can name them.
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$|^[+-]?(?i:nan|inf|infinity)$"
# Whole numbers in their one spelling that fit 64 bits: "7" but not "07", which is another id.
_WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"


@dataclass(frozen=True, eq=False)
class Ids:
    """A column of ids: `distinct[codes]`, the distinct ones in rising order."""

    distinct: NDArray[Any]
    codes: NDArray[np.int32]

    def take(self, rows: NDArray[np.int64]) -> Ids:
        """Return the column with its rows chosen or in another order."""
        return Ids(self.distinct, self.codes[rows])

    def decoded(self) -> NDArray[Any]:
        """Return the ids themselves."""
        return np.asarray(self.distinct[self.codes])


@dataclass(frozen=True, eq=False)
class Column:
    """A named column of a file or table, still as Arrow holds it; text when the file is CSV."""

    path: str
    name: str
    values: Arrow

    def ids(self) -> Ids:
        """Read ids, whole numbers or text, as codes into the sorted distinct ones."""
        import pyarrow as pa  # noqa: PLC0415 - a slow import

        kind = self.values.type.value_type if pa.types.is_dictionary(self.values.type) else self.values.type
        if not (pa.types.is_integer(kind) or is_text(kind)):
            raise TableError(f"{self.path}: column {self.name!r} holds {kind}; ids must be whole numbers or text")
        with readable(self.path):
            encoded = self.values.dictionary_encode().unify_dictionaries()
            distinct, position = self._sorted_ids(encoded.chunk(0).dictionary)
            indices = _gathered(encoded, np.int32, lambda chunk: position[chunk.indices.to_numpy()])
            return Ids(distinct, indices)

    def numbers(self) -> NDArray[np.float64]:
        """Read numbers; the first entry that is none is refused with its row."""
        import pyarrow as pa  # noqa: PLC0415 - a slow import

        kind = self.values.type
        if is_text(kind):
            self._refuse_unlike(_NUMBER, "a number")
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            raise TableError(f"{self.path}: column {self.name!r} holds {kind}, not numbers; write plain numbers")
        with readable(self.path):
            return _gathered(self.values, np.float64, lambda chunk: chunk.cast(pa.float64()).to_numpy())

    def texts(self) -> list[str]:
        """Read text as it is."""
        if not is_text(self.values.type):
            raise TableError(f"{self.path}: column {self.name!r} holds {self.values.type}, not text; write text")
        return [str(value) for value in self.values.to_pylist()]

    def whole_numbers(self) -> NDArray[np.int64]:
        """Read whole numbers; the first entry that is none is refused with its row."""
        import pyarrow as pa  # noqa: PLC0415 - a slow import

        kind = self.values.type
        if is_text(kind):
            self._refuse_unlike(_WHOLE_NUMBER, "a whole number")
        elif not pa.types.is_integer(kind):
            numbers = self.numbers() if pa.types.is_floating(kind) else np.zeros(1)
            row = int(np.argmax(~(np.floor(numbers) == numbers) | np.isinf(numbers)))
            shown = f"{self.name} {str(self.values[row].as_py())[:40]!r}"
            raise TableError(f"{self.path} row {row + 1}: {shown} is of {kind}, not whole numbers; store integers")
        with readable(self.path):
            return _gathered(self.values, np.int64, lambda chunk: chunk.cast(pa.int64()).to_numpy())

    def _sorted_ids(self, dictionary: Arrow) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return the distinct ids in rising order, and where in it each entry of the dictionary is."""
        import pyarrow as pa  # noqa: PLC0415 - a slow import
        import pyarrow.compute as pc  # noqa: PLC0415 - as above

        from_text = self.path.lower().endswith(CSV) and is_text(dictionary.type)
        if from_text and pc.all(pc.match_substring_regex(dictionary, _WHOLE_NUMBER)).as_py():
            dictionary = dictionary.cast(pa.int64())
        order = pc.sort_indices(dictionary)  # text by its bytes, which is by code point
        rising = dictionary.take(order)
        # A dictionary made by hand may name an id twice.
        fresh = np.ones(len(rising), dtype=bool)
        fresh[1:] = pc.not_equal(rising[1:], rising[:-1]).to_numpy(zero_copy_only=False)
        distinct = np.asarray(rising.filter(pa.array(fresh)).to_numpy(zero_copy_only=False))
        if distinct.dtype == object and len(distinct) and distinct[0] == "":
            raise TableError(f"{self.path}: column {self.name!r} has an empty id; fill it in or remove the row")
        position = np.empty(len(rising), dtype=np.int32)
        position[order.to_numpy()] = np.cumsum(fresh) - 1
        return distinct, position

    def _refuse_unlike(self, pattern: str, what: str) -> None:
        import pyarrow.compute as pc  # noqa: PLC0415 - a slow import

        with readable(self.path):
            good = pc.match_substring_regex(self.values, pattern).to_numpy()
        if not good.all():
            row = int(np.argmin(good))
            shown = str(self.values[row].as_py())[:40]
            raise TableError(f"{self.path} row {row + 1}: {self.name} {shown!r} is not {what}; correct or remove it")


def columns_of(
    table: Arrow, required: Sequence[str], *, optional: Sequence[str] = (), label: str = "the table"
) -> dict[str, Column]:
    """Return columns of an Arrow table by name, the optional ones if they are there; `label` names it in errors."""
    wanted = chosen(label, table.column_names, required, optional)
    if table.num_rows == 0:
        raise TableError(f"{label} has a header but no rows; give at least one")
    columns = {name: Column(label, name, table.column(name)) for name in wanted}
    for column in columns.values():
        _refuse_missing(column)
    return columns


def column_of(values: NDArray[Any], name: str, *, label: str = "the table") -> Column:
    """Return an array as a column, to read its ids or numbers by the same rules."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    try:
        array = pa.array(values)
        if isinstance(array, pa.ChunkedArray):  # more text than the plain kind holds in one piece
            array = pa.array(values, type=pa.large_string())
        column = Column(label, name, pa.chunked_array([array]))
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise TableError(f"{label}: {name} has entries of several kinds or none; give whole numbers or text") from error
    _refuse_missing(column)
    return column


def chosen(label: str, names: Sequence[str], required: Sequence[str], optional: Sequence[str]) -> list[str]:
    """Return the columns to read, or refuse a table where one is absent or there twice."""
    wanted = [*required, *(name for name in optional if name in names)]
    for name in wanted:
        if names.count(name) != 1:
            found = ", ".join(names)[:200] or "none"
            raise TableError(
                f"{label} has {'no' if name not in names else 'more than one'} column {name!r} (its columns: {found}); "
                f"it needs {', '.join(required)}"
            )
    return wanted


def is_text(kind: Arrow) -> bool:
    """Tell whether a type is that of text."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _gathered(values: Arrow, kind: type[np.generic], read: Callable[[Arrow], NDArray[Any]]) -> NDArray[Any]:
    """Read a column's chunks one at a time into one array: joining them first would take the memory twice."""
    array, done = np.empty(len(values), dtype=kind), 0
    for chunk in values.chunks:
        array[done : done + len(chunk)] = read(chunk)
        done += len(chunk)
    return array


def _refuse_missing(column: Column) -> None:
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    values = column.values
    if pa.types.is_dictionary(values.type) and any(chunk.dictionary.null_count for chunk in values.chunks):
        values = values.cast(values.type.value_type)  # an entry may be there and stand for a missing one
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy())) + 1
        raise TableError(f"{column.path} row {row}: {column.name} is missing; fill it in or remove the row")
