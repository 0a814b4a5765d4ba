"""Sources of reports that come in parts, each read by the worker that needs it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow.parquet as pq
from pyarrow import fs

from tacit.errors import ReportError
from tacit.learning.reports import Alphabet, Reports, reports_of_arrow, reports_of_file
from tacit.tables import is_parquet, readable, refuse_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Arrow = Any  # tables, files: pyarrow has no annotations

_COLUMNS = ("user", "item", "symbol", "policy")


class Part(Protocol):
    """A part of a source. It travels to workers, perhaps more than once, and must give the same reports each time."""

    @property
    def label(self) -> str:
        """What errors call it."""
        ...

    def reports(self, alphabet: Alphabet) -> Reports | None:
        """Read and check the reports; None if there are none."""
        ...


@dataclass(frozen=True, slots=True)
class ArrowPart:
    """A part that a function returns as an Arrow table, with columns and perhaps metadata as in files of reports."""

    label: str
    read: Callable[[], Arrow]

    def reports(self, alphabet: Alphabet) -> Reports | None:
        """Read and check the reports; None if there are none."""
        table = self.read()
        return reports_of_arrow(table, alphabet, self.label) if table.num_rows else None


@dataclass(frozen=True, slots=True)
class CsvPart:
    """A whole CSV file: it cannot be read from the middle."""

    label: str

    def reports(self, alphabet: Alphabet) -> Reports | None:
        """Read and check the reports."""
        return reports_of_file(self.label, alphabet)


@dataclass(frozen=True, slots=True)
class Place:
    """A file: its path or address, or those of its folder and a name there."""

    path: str
    name: str = ""

    def __str__(self) -> str:
        """Name it."""
        return f"{self.path.rstrip('/')}/{self.name}" if self.name else self.path

    def found(self) -> tuple[Any, str]:
        """Return the file system, and the path there: names in a folder are as they are, those in addresses escaped."""
        if "://" in self.path:
            system, inner = fs.FileSystem.from_uri(self.path)
        else:
            system, inner = fs.LocalFileSystem(), str(Path(self.path).absolute())
        return system, f"{inner.rstrip('/')}/{self.name}" if self.name else inner

    def everywhere(self) -> Place:
        """Return the same place for workers, whose own folder may be another."""
        return self if "://" in self.path else replace(self, path=str(Path(self.path).absolute()))


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Reads one row group of a Parquet file."""

    place: Place
    group: int

    def __call__(self) -> Arrow:
        """Return the columns of reports, with the file's metadata."""
        with _opened(self.place) as file:
            present = [name for name in _COLUMNS if name in file.schema_arrow.names]
            return file.read_row_group(self.group, columns=present)


def parts_of_files(paths: Sequence[str | Path]) -> list[Part]:
    """List the parts of files and folders: every row group of a Parquet file, and whole CSV files.

    A folder stands for the Parquet and CSV files in it, as Spark and others write them; names that begin with a dot
    or an underscore are left out. Besides paths, addresses that Arrow can open (`hdfs://`, `s3://`) will do.
    """
    if not paths:
        raise ReportError("no file of reports was given; give at least one")
    for path in paths:
        refuse_secrets(str(path))
    return [part for path in paths for place in _files_of(str(path)) for part in _parts_of_file(place)]


def _files_of(path: str) -> list[Place]:
    with readable(path):
        system, inner = Place(path).found()
        if system.get_file_info(inner).type != fs.FileType.Directory:
            return [Place(path)]
        listed = [found.base_name for found in system.get_file_info(fs.FileSelector(inner)) if found.is_file]
    kept = sorted(name for name in listed if not name.startswith((".", "_")))
    if not kept:
        raise ReportError(f"{path} has no files of reports in it; give a folder of Parquet or CSV files")
    return [Place(path, name) for name in kept]


def _parts_of_file(place: Place) -> Iterator[Part]:
    shown = str(place)
    if not is_parquet(shown):
        if "://" in shown:
            raise ReportError("a CSV file is read from a path, not an address; write it as Parquet first")
        yield CsvPart(str(place.everywhere()))
        return
    with _opened(place) as file:
        groups = file.num_row_groups
    for group in range(groups):
        label = shown if groups == 1 else f"{shown} row group {group + 1}"
        yield ArrowPart(label, RowGroup(place.everywhere(), group))


@contextmanager
def _opened(place: Place) -> Iterator[Arrow]:
    """Offer a Parquet file; what goes wrong with it is said in one line."""
    with readable(str(place)):
        system, inner = place.found()
        with pq.ParquetFile(inner, filesystem=system) as file:
            yield file
