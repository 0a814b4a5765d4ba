"""Reading CSV and Parquet files: only the columns that are asked for, and in little memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tacit.tables.columns import chosen, columns_of, is_text
from tacit.tables.places import is_parquet, readable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tacit.tables.columns import Column

    Arrow = Any  # tables, schemas: pyarrow has no annotations

_BYTES_A_LINE = 16  # about, of a CSV file of reports


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
    with readable(path):
        table = read(path, required, optional, repetitive)
    return columns_of(table, required, optional=optional, label=str(path))


def read_delimited(
    stream: BinaryIO, fields: Sequence[str], *, delimiter: str, header: bool = False, label: str
) -> dict[str, Column]:
    """Read `user`, `item` and `rating` from text with these fields in every line; others are left alone.

    Ids must be whole numbers below 2^31. The stream is read in blocks, and what is kept takes 16 bytes a line.
    """
    import pyarrow as pa  # noqa: PLC0415 - a slow import
    import pyarrow.csv as pacsv  # noqa: PLC0415 - as above

    wanted = {"user": pa.int32(), "item": pa.int32(), "rating": pa.float64()}
    with readable(label):
        table = pacsv.read_csv(
            stream,
            read_options=pacsv.ReadOptions(column_names=fields, skip_rows=int(header)),
            parse_options=pacsv.ParseOptions(delimiter=delimiter, quote_char=False),
            convert_options=pacsv.ConvertOptions(column_types=wanted, include_columns=list(wanted)),
        )
    return columns_of(table, list(wanted), label=label)


def read_metadata(path: str | Path, key: str) -> str | None:
    """Read an entry of a Parquet file's metadata; a CSV file has none."""
    if not is_parquet(path):
        return None
    import pyarrow.parquet as pq  # noqa: PLC0415 - a slow import

    with readable(path):
        return metadata_of(pq.read_schema(path), key)


def metadata_of(schema: Arrow, key: str) -> str | None:
    """Return an entry of an Arrow schema's metadata."""
    entry = (schema.metadata or {}).get(key.encode())
    return None if entry is None else entry.decode(errors="replace")


def count_rows(path: str | Path) -> int:
    """Count the rows of a Parquet file without reading them; those of a CSV file are guessed from its size."""
    with readable(path):
        if not is_parquet(path):
            return Path(path).stat().st_size // _BYTES_A_LINE
        import pyarrow.parquet as pq  # noqa: PLC0415 - a slow import

        return int(pq.read_metadata(path).num_rows)


def release_memory() -> None:
    """Give back to the system what Arrow no longer needs but keeps for later: it can be most of a large file."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    pa.default_memory_pool().release_unused()


def _read_parquet(
    path: str | Path, required: Sequence[str], optional: Sequence[str], repetitive: Collection[str]
) -> Arrow:
    import pyarrow as pa  # noqa: PLC0415 - a slow import
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    schema = pq.read_schema(path)
    wanted = chosen(str(path), schema.names, required, optional)
    few = [name for name in wanted if name in repetitive and is_text(schema.field(name).type)]
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
        wanted = chosen(str(path), file.schema.names, required, optional)
    # Every field is text here: guessing types would merge the ids 01 and 1, and take "true" for a rating.
    few, any_text = pa.dictionary(pa.int32(), pa.string()), pa.string()
    texts = pacsv.ConvertOptions(
        column_types={name: few if name in repetitive else any_text for name in wanted},
        include_columns=wanted,
        null_values=[""],
        strings_can_be_null=True,
    )
    return pacsv.read_csv(path, convert_options=texts)
