"""Writing columns as CSV or Parquet: a file that is there whole or not at all, or a folder of parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import FileError
from tacit.files import reason_of, written_atomically
from tacit.tables.places import is_parquet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray


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
