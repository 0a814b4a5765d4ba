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


def read_columns(path: str | Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Read named columns of a CSV or Parquet file as Arrow columns; others are left alone."""
    table = _read(Path(path))
    missing = [name for name in required if name not in table.column_names]
    if missing:
        found = ", ".join(table.column_names) or "none"
        raise TableError(f"{path} has no column {missing[0]!r} (its columns: {found}); it needs {', '.join(required)}")
    wanted = [*required, *(name for name in optional if name in table.column_names)]
    if table.num_rows == 0:
        raise TableError(f"{path} has a header but no rows; give at least one")
    return {name: table.column(name) for name in wanted}


def read_metadata(path: str | Path) -> dict[str, str]:
    """Read the key-value metadata of a Parquet file; a CSV file has none."""
    if Path(path).suffix.lower() not in _PARQUET:
        return {}
    import pyarrow.parquet as pq  # noqa: PLC0415 - a slow import

    with _readable(path):
        raw = pq.read_schema(path).metadata or {}
    return {key.decode(): value.decode() for key, value in raw.items()}


def ids(path: str | Path, name: str, column: Any) -> Ids:  # noqa: ANN401 - Arrow is untyped
    """Return a column of ids, whole numbers or text, as codes into the sorted distinct ones."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    _refuse_missing(path, name, column)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    encoded = encoded.unify_dictionaries().combine_chunks()
    kind = encoded.type.value_type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise TableError(f"{path}: column {name!r} holds {kind}; ids must be whole numbers or text")
    distinct = encoded.dictionary.to_numpy(zero_copy_only=False)
    order = np.argsort(distinct, kind="stable")
    position = np.empty(len(order), dtype=np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    return Ids(distinct[order], position[encoded.indices.to_numpy(zero_copy_only=False)])


def numbers(path: str | Path, name: str, column: Any) -> NDArray[np.float64]:  # noqa: ANN401 - Arrow is untyped
    """Return a column of numbers; the first that is none is refused with its row."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    _refuse_missing(path, name, column)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return np.asarray(column.to_numpy(), dtype=np.float64)
    for row, value in enumerate(column.to_pylist(), start=1):
        try:
            float(value)
        except (TypeError, ValueError):
            raise TableError(f"{path} row {row}: {name} {value!r} is not a number; correct or remove it") from None
    return np.array([float(value) for value in column.to_pylist()])


def write_columns(
    path: str | Path, columns: Mapping[str, Sequence[Any] | NDArray[Any]], metadata: Mapping[str, str]
) -> None:
    """Write columns as Parquet, with metadata, or as CSV, by the name's ending."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import
    import pyarrow.csv as pacsv  # noqa: PLC0415 - as above
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    ending = check_ending(path)
    table = pa.table(dict(columns)).replace_schema_metadata(dict(metadata))
    with written_atomically(path) as temporary:
        if ending in _PARQUET:
            pq.write_table(table, temporary, compression="zstd")
        else:
            pacsv.write_csv(table, temporary)


def is_parquet(path: str | Path) -> bool:
    """Tell whether a path names a Parquet file."""
    return check_ending(path) in _PARQUET


def check_ending(path: str | Path) -> str:
    """Return the path's ending, or refuse one that is neither CSV nor Parquet."""
    ending = Path(path).suffix.lower()
    if ending not in _PARQUET | _CSV:
        raise TableError(f"{path} ends in {ending or 'nothing'!r}; name it .csv or .parquet")
    return ending


def _read(path: Path) -> Any:  # noqa: ANN401 - Arrow is untyped
    import pyarrow.csv as pacsv  # noqa: PLC0415 - a slow import
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    ending = check_ending(path)
    with _readable(path):
        if ending in _PARQUET:
            return pq.read_table(path)
        # Only an empty field is missing: "NaN" must reach the check that names it.
        return pacsv.read_csv(path, convert_options=pacsv.ConvertOptions(null_values=[""]))


def _refuse_missing(path: str | Path, name: str, column: Any) -> None:  # noqa: ANN401 - Arrow is untyped
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy())) + 1
        raise TableError(f"{path} row {row}: {name} is missing; fill it in or remove the row")


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """Turn what pyarrow and the system say about an unreadable file into one line."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    try:
        yield
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        said = str(error).split("\n", 1)[0].rstrip(".")
        raise TableError(f"{path} is not a readable table: {said}; check the file") from error
    except (OSError, pa.ArrowException) as error:
        said = reason_of(error) if isinstance(error, OSError) else str(error).split("\n", 1)[0]
        raise FileError(f"cannot read {path}: {said}; check the path") from error
