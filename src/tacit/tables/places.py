"""Where tables lie: files by the endings of their names, folders of parts, and what cannot be read there."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import FileError, TableError
from tacit.files import reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator

CSV = (".csv", ".csv.gz")
_PARQUET = (".parquet", ".pq")
_SHOWN_SCHEME = 40


def is_parquet(path: str | Path) -> bool:
    """Tell Parquet from CSV by the name's ending, or refuse a name that is neither."""
    name = Path(path).name.lower()
    if not name.endswith((*_PARQUET, *CSV)):
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


def refuse_secrets(address: str) -> None:
    """Refuse an address with a secret in it, without saying it: logs and errors would tell where a table came from."""
    scheme, _, rest = address.partition("://")
    server, _, path = rest.partition("/")
    login, _, host = server.rpartition("@")
    _, colon, port = host.partition(":")
    cut_short = bool(colon) and "@" in path and not (port.isdigit() and scheme.lower() == "hdfs")  # by a / in a secret
    if ":" in login or cut_short:
        msg = f"an address that begins with {scheme[:_SHOWN_SCHEME]!r} has a secret before its @, which logs would show"
        raise TableError(f"{msg}; leave it out, and set it as the store's own tools want it, as AWS_ACCESS_KEY_ID")


@contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Turn what pyarrow and the system say about an unreadable file into one line."""
    import pyarrow as pa  # noqa: PLC0415 - a slow import

    try:
        yield
    except (pa.ArrowException, UnicodeError) as error:
        said = str(error).split("\n", 1)[0].rstrip(".")[:200]
        raise TableError(f"{path} is not a readable table: {said}; check the file") from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else reason_of(error)  # what Arrow says is long
        raise FileError(f"cannot read {path}: {reason}; check the path") from error
