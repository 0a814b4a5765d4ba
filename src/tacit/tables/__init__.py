"""CSV and Parquet files as columns: the only home of pyarrow, which is loaded when a table is, and not before."""

from tacit.tables.columns import Column, Ids, column_of, columns_of
from tacit.tables.places import files_of, is_parquet, readable, refuse_secrets
from tacit.tables.reading import (
    count_rows,
    metadata_of,
    read_columns,
    read_delimited,
    read_metadata,
    read_table,
    release_memory,
)
from tacit.tables.writing import write_columns, write_parts

__all__ = [
    "Column",
    "Ids",
    "column_of",
    "columns_of",
    "count_rows",
    "files_of",
    "is_parquet",
    "metadata_of",
    "read_columns",
    "read_delimited",
    "read_metadata",
    "read_table",
    "readable",
    "refuse_secrets",
    "release_memory",
    "write_columns",
    "write_parts",
]
