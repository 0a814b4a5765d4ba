"""Fetching a file from the internet: the only module of tacit that uses the network."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.errors import DataSetError, FileError
from tacit.files import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import FileIO
    from pathlib import Path

MOST_BYTES = 1 << 30  # the largest archive of the catalogue has 262 MB

_BLOCK = 1 << 18
_SILENCE_SECONDS = 60
_CONTINUED = 206
_BEYOND_THE_END = 416
_AGAIN = "run the command again to go on from there"


@dataclass(frozen=True, slots=True)
class Transfer:
    """How far a download has come."""

    done: int
    total: int | None
    seconds_left: float | None


def fetch(
    url: str, target: Path, *, checksum: str | None = None, progress: Callable[[Transfer], None] | None = None
) -> None:
    """Fetch a file; it has its name once it is complete and its checksum is right.

    What an interrupted download left in `NAME.partial` is continued where the server can do that.

    Args:
        url: Its address.
        target: Its name here.
        checksum: `md5:` or `sha256:` and hexadecimal digits, if it is known.
        progress: Told after every block.
    """
    partial = target.with_name(f"{target.name}.partial")
    with _sole_writer(partial) as file:
        try:
            _receive(url, file, partial, progress)
        finally:
            if not file.tell():
                partial.unlink()  # nothing to go on from
        if checksum is not None:
            _verify(partial, url, checksum)
    try:
        partial.replace(target)
    except OSError as error:
        raise _unwritable(target, error) from error


@contextmanager
def _sole_writer(partial: Path) -> Iterator[FileIO]:
    """Open the file to append to, unless another process is at it."""
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        file = partial.open("ab", buffering=0)  # a buffer would try once more, on closing, what failed
    except OSError as error:
        raise _unwritable(partial, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FileError(f"{partial} is being written by another process; wait until it is done") from error
        yield file


def _receive(url: str, file: FileIO, partial: Path, progress: Callable[[Transfer], None] | None) -> None:
    with _answer(url, file.tell()) as response:
        done = file.tell() if _continues(response, file.tell()) else 0
        total = _length(response, done)
        if total is not None and total > MOST_BYTES:
            raise DataSetError(f"{url} has {total:,} bytes, the limit is {MOST_BYTES:,}; is it the right address?")
        _write(file, partial, b"", keep=done)
        started, before = time.monotonic(), done
        while block := _next_block(response, url, done):
            done += len(block)
            if done > MOST_BYTES:
                raise DataSetError(f"{url} sends more than {MOST_BYTES:,} bytes, the limit; is it the right address?")
            _write(file, partial, block)
            if progress is not None:
                pace = (done - before) / max(time.monotonic() - started, 1e-6)
                progress(Transfer(done, total, None if total is None else (total - done) / pace))
    if total is not None and done < total:
        raise DataSetError(f"{url} broke off after {done:,} of {total:,} bytes; {_AGAIN}")
    _settle(file, partial)


def _answer(url: str, have: int) -> Any:  # noqa: ANN401 - urllib's answers have no common type
    """Ask for the file, or for what is missing of it."""
    headers = {"User-Agent": "tacit"} | ({"Range": f"bytes={have}-"} if have else {})
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the catalogue has https addresses only
    try:
        return urllib.request.build_opener(_StayEncrypted).open(request, timeout=_SILENCE_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == _BEYOND_THE_END and have:
            return _answer(url, 0)
        raise DataSetError(
            f"{url} answers {error.code} {error.reason}; try later, or put the file there yourself"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise DataSetError(
            f"cannot reach {url}: {_said(error)}; check the connection, or put the file there yourself"
        ) from error


class _StayEncrypted(urllib.request.HTTPRedirectHandler):
    """Follows an answer to another address, but never from https to one that can be read and changed on the way."""

    def redirect_request(self, req: urllib.request.Request, *answer: Any) -> urllib.request.Request | None:  # noqa: ANN401 - passed on
        request = super().redirect_request(req, *answer)
        if request is not None and req.type == "https" and request.type != "https":
            raise DataSetError(f"{req.full_url} leads to {request.full_url}, which is not https; nothing was fetched")
        return request


def _continues(response: Any, have: int) -> bool:  # noqa: ANN401 - as above
    """Tell whether the answer begins where the file ends, and not at the beginning."""
    return bool(
        response.status == _CONTINUED and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    )


def _length(response: Any, done: int) -> int | None:  # noqa: ANN401 - as above
    text = response.headers.get("Content-Length", "")
    return done + int(text) if text.isdecimal() else None


def _next_block(response: Any, url: str, done: int) -> bytes:  # noqa: ANN401 - as above
    try:
        return bytes(response.read(_BLOCK))
    except (OSError, http.client.HTTPException) as error:
        raise DataSetError(f"{url} broke off after {done:,} bytes: {_said(error)}; {_AGAIN}") from error


def _write(file: FileIO, partial: Path, block: bytes, *, keep: int | None = None) -> None:
    try:
        if keep is not None:
            file.truncate(keep)
        rest = memoryview(block)
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        raise _unwritable(partial, error) from error


def _settle(file: FileIO, partial: Path) -> None:
    try:
        os.fsync(file.fileno())
    except OSError as error:
        raise _unwritable(partial, error) from error


def _verify(partial: Path, url: str, checksum: str) -> None:
    kind, expected = checksum.split(":")
    with partial.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()
    if found != expected:
        partial.unlink()
        raise DataSetError(
            f"{url} has the {kind} {found}, expected {expected}: removed; try again, or ask its publisher"
        )


def _unwritable(path: Path, error: OSError) -> FileError:
    return FileError(f"cannot write {path}: {reason_of(error)}; free space or choose another place with TACIT_CACHE")


def _said(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return reason_of(reason) if isinstance(reason, OSError) else str(reason) or type(error).__name__
