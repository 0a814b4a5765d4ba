"""CSV and Parquet files as columns: the only home of pyarrow."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import FileError, TableError
from tacit.files import reason_of, written_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

_PARQUET = {".parquet", ".pq"}
_CSV = {".csv"}

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
    """A named column of a file, still as Arrow holds it; text when the file is CSV."""

    path: str
    name: str
    values: Any

    def ids(self) -> Ids:
        """Read ids, whole numbers or text, as codes into the sorted distinct ones."""
        import pyarrow as pa  # noqa: PLC0415 - a slow import

        kind = self.values.type.value_type if pa.types.is_dictionary(self.values.type) else self.values.type
        if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise TableError(f"{self.path}: column {self.name!r} holds {kind}; ids must be whole numbers or text")
        with _readable(self.path):
            encoded = self.values.dictionary_encode().unify_dictionaries().combine_chunks()
            distinct = self._distinct_ids(encoded.dictionary, from_text=self.path.lower().endswith(".csv"))
            order = np.argsort(distinct, kind="stable")
            position = np.empty(len(order), dtype=np.int32)
            position[order] = np.arange(len(order), dtype=np.int32)
            return Ids(distinct[order], position[encoded.indices.to_numpy(zero_copy_only=False)])

    def numbers(self) -> NDArray[np.float64]:
        """Read numbers; the first entry that is none is refused with its row."""
        import pyarrow as pa  # noqa: PLC0415 - a slow import

        kind = self.values.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            self._refuse_unlike(_NUMBER, "a number")
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            raise TableError(f"{self.path}: column {self.name!r} holds {kind}, not numbers; write plain numbers")
        with _readable(self.path):
            return np.asarray(self.values.cast(pa.float64()).to_numpy(), dtype=np.float64)

    def whole_numbers(self) -> NDArray[np.int64]:
        """Read whole numbers; the first entry that is none is refused with its row."""
        import pyarrow as pa  # noqa: PLC0415 - a slow import

        kind = self.values.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            self._refuse_unlike(_WHOLE_NUMBER, "a whole number")
        elif not pa.types.is_integer(kind):
            raise TableError(f"{self.path}: column {self.name!r} holds {kind}, not whole numbers")
        with _readable(self.path):
            return np.asarray(self.values.cast(pa.int64()).to_numpy(), dtype=np.int64)

    def _distinct_ids(self, distinct: Any, *, from_text: bool) -> NDArray[Any]:  # noqa: ANN401 - Arrow is untyped
        import pyarrow as pa  # noqa: PLC0415 - a slow import
        import pyarrow.compute as pc  # noqa: PLC0415 - as above

        if from_text and pc.all(pc.match_substring_regex(distinct, _WHOLE_NUMBER)).as_py():
            distinct = distinct.cast(pa.int64())
        ids = np.asarray(distinct.to_numpy(zero_copy_only=False))
        if ids.dtype == object and "" in set(ids):
            raise TableError(f"{self.path}: column {self.name!r} has an empty id; fill it in or remove the row")
        return ids

    def _refuse_unlike(self, pattern: str, what: str) -> None:
        import pyarrow.compute as pc  # noqa: PLC0415 - a slow import

        with _readable(self.path):
            good = pc.match_substring_regex(self.values, pattern).to_numpy()
        if not good.all():
            row = int(np.argmin(good))
            shown = str(self.values[row].as_py())[:40]
            raise TableError(f"{self.path} row {row + 1}: {self.name} {shown!r} is not {what}; correct or remove it")


def read_columns(path: str | Path, required: Sequence[str]) -> list[Column]:
    """Read the named columns of a CSV or Parquet file; others are left alone."""
    table = _read(Path(path))
    with _readable(path):
        names = table.column_names
    for name in required:
        if names.count(name) != 1:
            found = ", ".join(names)[:200] or "none"
            raise TableError(
                f"{path} has {'no' if name not in names else 'more than one'} column {name!r} (its columns: {found}); "
                f"it needs {', '.join(required)}"
            )
    if table.num_rows == 0:
        raise TableError(f"{path} has a header but no rows; give at least one")
    columns = [Column(str(path), name, table.column(name)) for name in required]
    for column in columns:
        _refuse_missing(column)
    return columns


def read_metadata(path: str | Path, key: str) -> str | None:
    """Read an entry of a Parquet file's metadata; a CSV file has none."""
    if not is_parquet(path):
        return None
    import pyarrow.parquet as pq  # noqa: PLC0415 - a slow import

    with _readable(path):
        entry = (pq.read_schema(path).metadata or {}).get(key.encode())
    return None if entry is None else entry.decode(errors="replace")


def write_columns(
    path: str | Path, columns: Mapping[str, Sequence[Any] | NDArray[Any]], metadata: Mapping[str, str]
) -> None:
    """Write columns as Parquet, with metadata, or as CSV, by the name's ending."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import
    import pyarrow.csv as pacsv  # noqa: PLC0415 - as above
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    table = pa.table(dict(columns)).replace_schema_metadata(dict(metadata))
    as_parquet = is_parquet(path)
    with written_atomically(path) as temporary:
        if as_parquet:
            pq.write_table(table, temporary, compression="zstd")
        else:
            pacsv.write_csv(table, temporary)


def is_parquet(path: str | Path) -> bool:
    """Tell Parquet from CSV by the name's ending, or refuse a name that is neither."""
    ending = Path(path).suffix.lower()
    if ending not in _PARQUET | _CSV:
        raise TableError(f"{path} ends in {ending or 'nothing'!r}; name it .csv or .parquet")
    return ending in _PARQUET


def _read(path: Path) -> Any:  # noqa: ANN401 - Arrow is untyped
    import pyarrow as pa  # noqa: PLC0415 - a slow import
    import pyarrow.csv as pacsv  # noqa: PLC0415 - as above
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    as_parquet = is_parquet(path)
    with _readable(path):
        if as_parquet:
            return pq.read_table(path)
        # Every field is text here: guessing types would merge the ids 01 and 1, and take "true" for a rating.
        header = pacsv.open_csv(path).schema.names
        texts = pacsv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()), null_values=[""], strings_can_be_null=True
        )
        return pacsv.read_csv(path, convert_options=texts)


def _refuse_missing(column: Column) -> None:
    if column.values.null_count:
        row = int(np.argmax(column.values.is_null().to_numpy())) + 1
        raise TableError(f"{column.path} row {row}: {column.name} is missing; fill it in or remove the row")


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """Turn what pyarrow and the system say about an unreadable file into one line."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        said = str(error).split("\n", 1)[0].rstrip(".")[:200]
        raise TableError(f"{path} is not a readable table: {said}; check the file") from error
    except OSError as error:
        raise FileError(f"cannot read {path}: {reason_of(error)}; check the path") from error
