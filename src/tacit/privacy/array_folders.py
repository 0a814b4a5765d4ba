"""Folders of one JSON document and one file of arrays: there complete or not at all, and checked when they are read."""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import shutil
import warnings
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from tacit.errors import FileError, ModelError
from tacit.files import read_bytes, reason_of
from tacit.privacy.canonical import read_json
from tacit.privacy.documents import DAMAGED, Fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

LARGEST_DOCUMENT = 16 * 2**20
LONGEST_NAME = 200  # bytes: room for the ending of a temporary name
LARGEST_COMPRESSED = 64 * 2**20  # bytes of arrays: more is stored as it is, so that no small file fills all memory

_HEADER = 256  # bytes, at most, of an array of plain numbers


@dataclass(frozen=True)
class FolderKind:
    """What a folder is called in its document, and the names of its parts, folders inside it included."""

    format: str
    document: str
    arrays: str
    inner: tuple[tuple[str, FolderKind], ...] = ()
    compressed: bool = False


def check_target(target: Path, kind: FolderKind) -> None:
    """Refuse a place where the folder cannot go: only one like it, or an empty one, is ever replaced."""
    if target.name in {"", ".."} or "\0" in str(target) or len(os.fsencode(target.name)) > LONGEST_NAME:
        raise FileError(f"{str(target)!r} is not the name of a folder; choose another")
    if not os.path.isdir(target.parent):  # noqa: PTH112 - answers False where Path's raises
        raise FileError(f"cannot write {target}: there is no folder {target.parent}; make it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise FileError(f"cannot write {target}: {target.parent} may not be written to; choose another place")
    if os.path.lexists(target) and (os.path.islink(target) or not os.path.isdir(target)):  # noqa: PTH112, PTH114 - as above
        raise FileError(f"{target} is a file or a link; choose another name for the folder")
    stranger = _stranger(target, kind)
    if stranger is not None:
        raise FileError(f"{target} is there and holds {stranger!r}, not only a {kind.format}; choose another folder")


@contextmanager
def folder_written_atomically(target: Path, kind: FolderKind) -> Iterator[Path]:
    """Offer the name of a folder to make, and put it in the target's place once it is complete.

    When writing fails, what was written is removed and what was there before stays.
    """
    check_target(target, kind)
    temporary = _sibling(target, "partial")
    try:
        yield temporary
        check_target(target, kind)
        _put_in_place(temporary, target)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {target}: {reason_of(error)}; free space or choose another place") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_parts(folder: Path, kind: FolderKind, fields: Mapping[str, Any], arrays: Arrays) -> None:
    """Make the folder with its document, which names the format and the content of the arrays' file."""
    folder.mkdir()
    with (folder / kind.arrays).open("x+b") as file:
        _write_arrays(file, arrays, compressed=kind.compressed)
        _flush(file)
        file.seek(0)
        content = _content_of(file)
    document = {"format": kind.format, **fields, "files": {kind.arrays: content}}
    with (folder / kind.document).open("xb") as file:
        file.write(json.dumps(document, indent=1, allow_nan=False).encode() + b"\n")
        _flush(file)


def read_parts(folder: Path, kind: FolderKind) -> tuple[Fields, dict[str, NDArray[Any]]]:
    """Read a folder that may have come from anywhere; what is not as written is refused in one line."""
    fields = read_fields(folder, kind)
    stated = fields.group("files").group(kind.arrays)
    return fields, _read_arrays(folder / kind.arrays, stated, compressed=kind.compressed)


def read_fields(folder: Path, kind: FolderKind) -> Fields:
    """Read the document of a folder, or refuse what is none or of another format."""
    path = folder / kind.document
    if not os.path.isfile(path):  # noqa: PTH113 - answers False where Path's raises; a pipe would never end
        raise ModelError(f"there is no file {path}; give a folder that holds a {kind.format}")
    try:
        document = read_json(read_bytes(path, limit=LARGEST_DOCUMENT))
    except ValueError as error:
        raise ModelError(f"{path} cannot be read ({error}); {DAMAGED}") from error
    if not isinstance(document, dict) or document.get("format") != kind.format:
        raise ModelError(f"{path} is not of the format {kind.format}; give another folder, or update tacit")
    return Fields(str(path), document)


def _stranger(folder: Path, kind: FolderKind) -> str | None:
    """Name something in a folder that is no part of its kind; None if there is nothing, or no folder."""
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is needed
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(f"cannot look into {folder}: {reason_of(error)}; choose another folder") from error
    inner = dict(kind.inner)
    for name in names:
        within = _stranger(folder / name, inner[name]) if name in inner else None
        if within is not None or name not in {kind.document, kind.arrays, *inner}:
            return name
    try:
        if names:
            read_fields(folder, kind)
    except (ModelError, FileError):
        return names[0]
    return None


def _sibling(target: Path, ending: str) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.{ending}")


def _put_in_place(temporary: Path, target: Path) -> None:
    """Give a folder its name; systems cannot exchange folders, so an old one steps aside first."""
    if not target.exists():
        temporary.rename(target)
        return
    old = _sibling(target, "old")
    target.rename(old)
    try:
        temporary.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write_arrays(file: IO[bytes], arrays: Arrays, *, compressed: bool) -> None:
    """Write what `np.savez` writes; it cannot be told in all versions of NumPy never to pickle."""
    small = sum(array.nbytes + _HEADER for array in arrays.values()) <= LARGEST_COMPRESSED
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if compressed and small else zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _content_of(file: IO[bytes]) -> dict[str, Any]:
    """Describe the content of a file from here to its end."""
    digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type] # any binary file will do
    return {"bytes": file.tell(), "sha256": digest.hexdigest()}


def _read_arrays(path: Path, stated: Fields, *, compressed: bool) -> dict[str, NDArray[Any]]:
    size, checksum = stated.count("bytes"), stated.text("sha256")
    if not os.path.isfile(path):  # noqa: PTH113 - as above
        raise ModelError(f"there is no file {path}; {DAMAGED}")
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != size or _content_of(file)["sha256"] != checksum:
                raise ModelError(f"{path} is not the file its document describes; {DAMAGED}")
            return _arrays_of(file, path, compressed=compressed)
    except OSError as error:
        raise FileError(f"cannot read {path}: {reason_of(error)}; check the file") from error


def _arrays_of(file: IO[bytes], path: Path, *, compressed: bool) -> dict[str, NDArray[Any]]:
    """Read what `np.savez` would write; not with `np.load`, which takes other formats too."""
    size = os.fstat(file.fileno()).st_size
    try:
        with zipfile.ZipFile(file) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers written by older versions
            entries = archive.infolist()
            _refuse_bombs(entries, size, compressed=compressed)
            return {entry.filename.removesuffix(".npy"): _array_of(archive, entry) for entry in entries}
    except MemoryError:
        raise
    except Exception as error:  # zipfile and NumPy have no common word for a file that is not theirs
        raise ModelError(f"{path} does not hold plain arrays; {DAMAGED}") from error


def _refuse_bombs(entries: list[zipfile.ZipInfo], size: int, *, compressed: bool) -> None:
    """Refuse entries that share bytes or a name, or are compressed too much: a small file could fill all memory."""
    names = {entry.filename for entry in entries}
    if len(names) < len(entries) or sum(entry.compress_size for entry in entries) > size:
        raise ValueError("entries overlap")
    if sum(entry.file_size for entry in entries) > max(size, LARGEST_COMPRESSED if compressed else 0):
        raise ValueError("entries take more memory than they may")
    known = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} if compressed else {zipfile.ZIP_STORED}
    if any(entry.compress_type not in known for entry in entries):
        raise ValueError("compressed in a way that is not expected here")


def _array_of(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(entry) as stream:
        _refuse_other_sizes(stream, entry.file_size)
    with archive.open(entry) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def _refuse_other_sizes(stream: IO[bytes], size: int) -> None:
    """Refuse an array whose header promises more or fewer bytes than there are, before memory is taken for it."""
    kinds = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(stream)
    if version not in kinds:
        raise ValueError(f"version {version} of the format is not one that models are written in")
    shape, _, kind = kinds[version](stream)
    if math.prod(shape) * kind.itemsize != size - stream.tell():
        raise ValueError("the header promises another number of bytes")
