"""CSV and Parquet files as columns: the only home of pyarrow."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from tacit.errors import FileError, TableError
from tacit.files import reason_of, written_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Arrow = Any  # tables, arrays, types: pyarrow has no annotations

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".csv.gz")
_BYTES_A_LINE = 16  # about, of a CSV file of reports

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
        if not (pa.types.is_integer(kind) or _is_text(kind)):
            raise TableError(f"{self.path}: column {self.name!r} holds {kind}; ids must be whole numbers or text")
        with _readable(self.path):
            encoded = self.values.dictionary_encode().unify_dictionaries()
            distinct, position = self._sorted_ids(encoded.chunk(0).dictionary)
            indices = _gathered(encoded, np.int32, lambda chunk: position[chunk.indices.to_numpy()])
            return Ids(distinct, indices)

    def numbers(self) -> NDArray[np.float64]:
        """Read numbers; the first entry that is none is refused with its row."""
        import pyarrow as pa  # noqa: PLC0415 - a slow import

        kind = self.values.type
        if _is_text(kind):
            self._refuse_unlike(_NUMBER, "a number")
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            raise TableError(f"{self.path}: column {self.name!r} holds {kind}, not numbers; write plain numbers")
        with _readable(self.path):
            return _gathered(self.values, np.float64, lambda chunk: chunk.cast(pa.float64()).to_numpy())

    def texts(self) -> list[str]:
        """Read text as it is."""
        if not _is_text(self.values.type):
            raise TableError(f"{self.path}: column {self.name!r} holds {self.values.type}, not text; write text")
        return [str(value) for value in self.values.to_pylist()]

    def whole_numbers(self) -> NDArray[np.int64]:
        """Read whole numbers; the first entry that is none is refused with its row."""
        import pyarrow as pa  # noqa: PLC0415 - a slow import

        kind = self.values.type
        if _is_text(kind):
            self._refuse_unlike(_WHOLE_NUMBER, "a whole number")
        elif not pa.types.is_integer(kind):
            numbers = self.numbers() if pa.types.is_floating(kind) else np.zeros(1)
            row = int(np.argmax(~(np.floor(numbers) == numbers) | np.isinf(numbers)))
            shown = f"{self.name} {str(self.values[row].as_py())[:40]!r}"
            raise TableError(f"{self.path} row {row + 1}: {shown} is of {kind}, not whole numbers; store integers")
        with _readable(self.path):
            return _gathered(self.values, np.int64, lambda chunk: chunk.cast(pa.int64()).to_numpy())

    def _sorted_ids(self, dictionary: Arrow) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return the distinct ids in rising order, and where in it each entry of the dictionary is."""
        import pyarrow as pa  # noqa: PLC0415 - a slow import
        import pyarrow.compute as pc  # noqa: PLC0415 - as above

        from_text = self.path.lower().endswith(_CSV) and _is_text(dictionary.type)
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

        with _readable(self.path):
            good = pc.match_substring_regex(self.values, pattern).to_numpy()
        if not good.all():
            row = int(np.argmin(good))
            shown = str(self.values[row].as_py())[:40]
            raise TableError(f"{self.path} row {row + 1}: {self.name} {shown!r} is not {what}; correct or remove it")


def read_columns(path: str | Path, required: Sequence[str]) -> list[Column]:
    """Read the named columns of a CSV or Parquet file, in that order; others are left alone."""
    return list(read_table(path, required).values())


def read_table(
    path: str | Path, required: Sequence[str], *, optional: Sequence[str] = (), repetitive: Collection[str] = ()
) -> dict[str, Column]:
    """Read columns of a CSV or Parquet file by name, the optional ones if they are there.

    A caller short of memory takes the columns out of the answer one by one.

    Args:
        path: The file.
        required: Columns without which the file is refused.
        optional: Columns that may be absent.
        repetitive: Text columns with few distinct values, to hold as a dictionary.
    """
    read = _read_parquet if is_parquet(path) else _read_csv
    with _readable(path):
        table = read(path, required, optional, repetitive)
    return columns_of(table, required, optional=optional, label=str(path))


def columns_of(
    table: Arrow, required: Sequence[str], *, optional: Sequence[str] = (), label: str = "the table"
) -> dict[str, Column]:
    """Return columns of an Arrow table by name, the optional ones if they are there; `label` names it in errors."""
    wanted = _chosen(label, table.column_names, required, optional)
    if table.num_rows == 0:
        raise TableError(f"{label} has a header but no rows; give at least one")
    columns = {name: Column(label, name, table.column(name)) for name in wanted}
    for column in columns.values():
        _refuse_missing(column)
    return columns


def read_delimited(
    stream: BinaryIO, fields: Sequence[str], *, delimiter: str, header: bool = False, label: str
) -> dict[str, Column]:
    """Read `user`, `item` and `rating` from text with these fields in every line; others are left alone.

    Ids must be whole numbers below 2^31. The stream is read in blocks, and what is kept takes 16 bytes a line.
    """
    import pyarrow as pa  # noqa: PLC0415 - a slow import
    import pyarrow.csv as pacsv  # noqa: PLC0415 - as above

    wanted = {"user": pa.int32(), "item": pa.int32(), "rating": pa.float64()}
    with _readable(label):
        table = pacsv.read_csv(
            stream,
            read_options=pacsv.ReadOptions(column_names=fields, skip_rows=int(header)),
            parse_options=pacsv.ParseOptions(delimiter=delimiter, quote_char=False),
            convert_options=pacsv.ConvertOptions(column_types=wanted, include_columns=list(wanted)),
        )
    return columns_of(table, list(wanted), label=label)


def column_of(values: NDArray[Any], name: str, *, label: str = "the table") -> Column:
    """Return an array as a column, to read its ids or numbers by the same rules."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    try:
        column = Column(label, name, pa.chunked_array([pa.array(values)]))
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise TableError(f"{label}: {name} has entries of several kinds or none; give whole numbers or text") from error
    _refuse_missing(column)
    return column


def read_metadata(path: str | Path, key: str) -> str | None:
    """Read an entry of a Parquet file's metadata; a CSV file has none."""
    if not is_parquet(path):
        return None
    import pyarrow.parquet as pq  # noqa: PLC0415 - a slow import

    with _readable(path):
        return metadata_of(pq.read_schema(path), key)


def metadata_of(schema: Arrow, key: str) -> str | None:
    """Return an entry of an Arrow schema's metadata."""
    entry = (schema.metadata or {}).get(key.encode())
    return None if entry is None else entry.decode(errors="replace")


def write_columns(
    path: str | Path, columns: Mapping[str, Sequence[Any] | NDArray[Any]], metadata: Mapping[str, str]
) -> None:
    """Write columns as Parquet, with metadata, or as CSV, perhaps compressed, by the name's ending."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import
    import pyarrow.csv as pacsv  # noqa: PLC0415 - as above
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    table = pa.table(dict(columns)).replace_schema_metadata(dict(metadata))
    as_parquet = is_parquet(path)
    with written_atomically(path) as temporary:
        if as_parquet:
            pq.write_table(table, temporary, compression="zstd")
        else:
            with pa.output_stream(temporary, compression="gzip" if str(path).endswith(".gz") else None) as stream:
                pacsv.write_csv(table, stream)


def write_parts(folder: str | Path, parts: Iterable[Mapping[str, NDArray[Any]]]) -> None:
    """Write columns that come in parts as a folder of Parquet files, as Spark does: whole when `_SUCCESS` is there."""
    place = Path(folder)
    try:
        place.mkdir()
    except FileExistsError as error:
        raise FileError(f"{folder} is there already; choose another folder") from error
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "it is no name of a folder"
        raise FileError(f"cannot make {folder}: {reason}; choose another folder") from error
    for number, columns in enumerate(parts):
        write_columns(place / f"part-{number:05}.parquet", columns, {})
    (place / "_SUCCESS").touch()


def release_memory() -> None:
    """Give back to the system what Arrow no longer needs but keeps for later: it can be most of a large file."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    pa.default_memory_pool().release_unused()


def is_parquet(path: str | Path) -> bool:
    """Tell Parquet from CSV by the name's ending, or refuse a name that is neither."""
    name = Path(path).name.lower()
    if not name.endswith((*_PARQUET, *_CSV)):
        raise TableError(f"{path} ends in {Path(path).suffix or 'nothing'!r}; name it .csv or .parquet")
    return name.endswith(_PARQUET)


def files_of(path: str | Path) -> list[Path]:
    """Return a file, or the files that a folder holds, as Spark and others write them: tables in several parts.

    Names that begin with a dot or an underscore are marks, not parts.
    """
    place = Path(path)
    if not place.is_dir():
        return [place]
    found = sorted(file for file in place.iterdir() if file.is_file() and not file.name.startswith((".", "_")))
    if not found:
        raise TableError(f"{path} has no files in it; give a folder of Parquet or CSV files")
    return found


def count_rows(path: str | Path) -> int:
    """Count the rows of a Parquet file without reading them; those of a CSV file are guessed from its size."""
    with _readable(path):
        if not is_parquet(path):
            return Path(path).stat().st_size // _BYTES_A_LINE
        import pyarrow.parquet as pq  # noqa: PLC0415 - a slow import

        return int(pq.read_metadata(path).num_rows)


def _chosen(label: str, names: Sequence[str], required: Sequence[str], optional: Sequence[str]) -> list[str]:
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


def _read_parquet(
    path: str | Path, required: Sequence[str], optional: Sequence[str], repetitive: Collection[str]
) -> Arrow:
    import pyarrow as pa  # noqa: PLC0415 - a slow import
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    schema = pq.read_schema(path)
    wanted = _chosen(str(path), schema.names, required, optional)
    few = [name for name in wanted if name in repetitive and _is_text(schema.field(name).type)]
    with pq.ParquetFile(path, read_dictionary=few) as file:
        # One group at a time: reading all at once keeps buffers as large as the result.
        groups = [file.read_row_group(group, columns=wanted) for group in range(file.num_row_groups)]
        table = pa.concat_tables(groups or [file.read(columns=wanted)])
    release_memory()
    return table


def _read_csv(path: str | Path, required: Sequence[str], optional: Sequence[str], repetitive: Collection[str]) -> Arrow:
    import pyarrow as pa  # noqa: PLC0415 - a slow import
    import pyarrow.csv as pacsv  # noqa: PLC0415 - as above

    with pacsv.open_csv(path) as file:
        wanted = _chosen(str(path), file.schema.names, required, optional)
    # Every field is text here: guessing types would merge the ids 01 and 1, and take "true" for a rating.
    few, any_text = pa.dictionary(pa.int32(), pa.string()), pa.string()
    texts = pacsv.ConvertOptions(
        column_types={name: few if name in repetitive else any_text for name in wanted},
        include_columns=wanted,
        null_values=[""],
        strings_can_be_null=True,
    )
    return pacsv.read_csv(path, convert_options=texts)


def _gathered(values: Arrow, kind: type[np.generic], read: Callable[[Arrow], NDArray[Any]]) -> NDArray[Any]:
    """Read a column's chunks one at a time into one array: joining them first would take the memory twice."""
    array, done = np.empty(len(values), dtype=kind), 0
    for chunk in values.chunks:
        array[done : done + len(chunk)] = read(chunk)
        done += len(chunk)
    return array


def _is_text(kind: Arrow) -> bool:
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _refuse_missing(column: Column) -> None:
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    values = column.values
    if pa.types.is_dictionary(values.type) and any(chunk.dictionary.null_count for chunk in values.chunks):
        values = values.cast(values.type.value_type)  # an entry may be there and stand for a missing one
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy())) + 1
        raise TableError(f"{column.path} row {row}: {column.name} is missing; fill it in or remove the row")


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """Turn what pyarrow and the system say about an unreadable file into one line."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    try:
        yield
    except (pa.ArrowException, UnicodeError) as error:
        said = str(error).split("\n", 1)[0].rstrip(".")[:200]
        raise TableError(f"{path} is not a readable table: {said}; check the file") from error
    except OSError as error:
        raise FileError(f"cannot read {path}: {reason_of(error)}; check the path") from error
