"""Ratings in the formats of their publishers, told apart by content: the only home of the spreadsheet library."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tacit.errors import DataSetError, FileError, MissingExtraError, TableError, TacitError
from tacit.files import reason_of
from tacit.tables import Ids, column_of, read_delimited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

# The largest of the known files, that of ml-32m, has 877 MB; a spreadsheet of Jester has less than 100.
MOST_BYTES = 2 << 30
MOST_SHEET_BYTES = 1 << 28

NOT_RATED = 99

_FIRST_LINE = 1 << 14
_NUMBER = r"[-+.0-9eE]+"
_EXCEL = (b"\xd0\xcf\x11\xe0", b"PK\x03\x04")  # .xls and .xlsx


@dataclass(frozen=True, eq=False)
class RawRatings:
    """Ratings as a file has them, in its order."""

    users: Ids
    items: Ids
    ratings: NDArray[np.float64]


@dataclass(frozen=True)
class _Layout:
    """Text with a rating in every line, known by its first line."""

    first_line: str
    delimiter: str
    fields: tuple[str, ...]
    header: bool = False


# Two characters between fields are one, with an empty field that nobody asks for.
_LAYOUTS = (
    _Layout(r"userId,movieId,rating,timestamp", ",", ("user", "item", "rating", "time"), header=True),
    _Layout(rf"\d+::\d+::{_NUMBER}::\d+", ":", ("user", "_1", "item", "_2", "rating", "_3", "time")),
    _Layout(rf"\d+\t\d+\t{_NUMBER}\t\d+", "\t", ("user", "item", "rating", "time")),
    _Layout(rf"\d+\t\t\d+\t\t{_NUMBER}", "\t", ("user", "_1", "item", "_2", "rating")),
    _Layout(rf"\d+,\d+,{_NUMBER}", ",", ("user", "item", "rating")),
)
_MATRIX = rf"\s*{_NUMBER}\s*(,\s*{_NUMBER}\s*){{10,}}"


def read_original(path: Path, names: Collection[str], *, first_user: int = 1) -> RawRatings:
    """Read ratings as their publisher gives them, from the file itself, gzip of it, or a zip archive that holds it.

    Args:
        path: The file; `.zip` and `.gz` are opened.
        names: What the file may be called in an archive, whatever the folder there.
        first_user: The number of the first row of a matrix, which has a row for each user and no ids.
    """
    with _opened(path, names) as (stream, label):
        beginning = stream.peek(_FIRST_LINE)[:_FIRST_LINE]
        if beginning.startswith(_EXCEL):
            return _from_matrix(_read_sheet(stream, label), first_user, label)
        line = beginning.split(b"\n", 1)[0].decode("utf-8", "replace").replace('"', "").strip()
        if re.fullmatch(_MATRIX, line):
            return _from_matrix(_read_matrix(stream, label), first_user, label)
        return _read_lines(stream, line, label)


@contextmanager
def _opened(path: Path, names: Collection[str]) -> Iterator[tuple[io.BufferedReader, str]]:
    """Open a file or what is in it; damage found at any time while it is read becomes one line."""
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                member = _member(archive, path, names)
                with archive.open(member) as inside:
                    yield _bounded(inside, str(path)), f"{path} ({PurePosixPath(member.filename).name})"
        elif path.suffix == ".gz":
            with gzip.open(path) as inside:
                yield _bounded(inside, str(path)), str(path)
        else:
            with path.open("rb") as file:
                yield file, str(path)
    except TacitError:
        raise
    except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, LZMAError, EOFError, NotImplementedError) as error:
        raise DataSetError(f"{path} is damaged: {error}; remove it and fetch it again") from error
    except OSError as error:
        raise FileError(f"cannot read {path}: {reason_of(error)}; check the path") from error


def _member(archive: zipfile.ZipFile, path: Path, names: Collection[str]) -> zipfile.ZipInfo:
    """Choose the one file with a known name; nothing is ever extracted, so where the archive puts it is no matter."""
    members = [info for info in archive.infolist() if PurePosixPath(info.filename).name in names and not info.is_dir()]
    wanted = " or ".join(names)
    if len(members) != 1:
        raise DataSetError(f"{path} holds {len(members) or 'no'} files {wanted}, not one; is it the right archive?")
    if members[0].flag_bits & 1:
        raise DataSetError(f"{path}: {wanted} is encrypted; bring an archive that is not")
    if members[0].file_size > MOST_BYTES:
        size = f"{members[0].file_size:,} bytes"
        raise DataSetError(f"{path}: {wanted} unpacks to {size}, the limit is {MOST_BYTES:,}; is it the right archive?")
    return members[0]


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Bounded(io.RawIOBase):
    """A stream that ends in an error when more comes than a data set can have."""

    def __init__(self, inside: _Readable, label: str) -> None:
        self._inside, self._label, self._left = inside, label, MOST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - as the io module has it
        block = self._inside.read(len(buffer))
        self._left -= len(block)
        if self._left < 0:
            raise DataSetError(
                f"{self._label} unpacks to more than {MOST_BYTES:,} bytes, the limit; is it the right file?"
            )
        buffer[: len(block)] = block
        return len(block)


def _bounded(inside: _Readable, label: str) -> io.BufferedReader:
    return io.BufferedReader(_Bounded(inside, label), 1 << 20)


def _read_lines(stream: io.BufferedReader, first_line: str, label: str) -> RawRatings:
    layout = next((layout for layout in _LAYOUTS if re.fullmatch(layout.first_line, first_line)), None)
    if layout is None:
        raise DataSetError(f"{label} begins {first_line[:40]!r}, which is no known format of ratings; check the file")
    columns = read_delimited(stream, layout.fields, delimiter=layout.delimiter, header=layout.header, label=label)
    # One by one, so that each is given back before the next is made.
    users, items = columns.pop("user").ids(), columns.pop("item").ids()
    return RawRatings(users, items, columns.pop("rating").numbers())


def _read_matrix(stream: io.BufferedReader, label: str) -> NDArray[np.float64]:
    try:
        return np.loadtxt(stream, delimiter=",", ndmin=2)
    except ValueError as error:
        raise TableError(f"{label} is not a readable table: {error}; check the file") from error


def _read_sheet(stream: io.BufferedReader, label: str) -> NDArray[np.float64]:
    """Read the first sheet of a workbook as numbers; an empty cell is NaN."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook  # noqa: PLC0415 - an optional library
    except ImportError as error:
        raise MissingExtraError(f"{label} is a spreadsheet; to read it, install tacit[datasets]") from error
    content = stream.read(MOST_SHEET_BYTES + 1)
    _refuse_large_sheet(content, label)
    try:
        rows = CalamineWorkbook.from_filelike(io.BytesIO(content)).get_sheet_by_index(0).iter_rows()
        return _numbers(rows, label)
    except CalamineError as error:
        raise DataSetError(f"{label} is not a readable spreadsheet: {error}; remove it and fetch it again") from error


def _refuse_large_sheet(content: bytes, label: str) -> None:
    size = len(content)
    if content.startswith(_EXCEL[1]):  # a zip archive itself
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(info.file_size for info in archive.infolist())
    if size > MOST_SHEET_BYTES:
        raise DataSetError(f"{label} unpacks to more than {MOST_SHEET_BYTES:,} bytes, the limit; is it the right file?")


def _numbers(rows: Iterable[Sequence[Any]], label: str) -> NDArray[np.float64]:
    table = []
    for number, row in enumerate(rows, start=1):
        try:
            table.append(np.array([np.nan if cell == "" else cell for cell in row], dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise TableError(f"{label} row {number} holds something else than numbers; check the file") from error
    return np.vstack(table) if table else np.empty((0, 0))


def _from_matrix(matrix: NDArray[np.float64], first_user: int, label: str) -> RawRatings:
    """Read rows of Jester: how many jokes the user rated, then a rating for each joke."""
    cells = matrix[:, 1:]
    rows, jokes = np.nonzero(~np.isnan(cells) & (cells != NOT_RATED))
    if not len(rows):
        raise TableError(f"{label} has no ratings; check the file")
    users = column_of((rows + first_user).astype(np.int32), "user", label=label).ids()
    return RawRatings(users, column_of((jokes + 1).astype(np.int32), "item", label=label).ids(), cells[rows, jokes])
