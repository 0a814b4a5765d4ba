"""Reading and writing whole files: a file is there complete, or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator


def read_bytes(path: str | Path, *, limit: int) -> bytes:
    """Read a whole file of at most `limit` bytes."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise FileError(f"cannot read {path}: {reason_of(error)}; check the path") from error
    except ValueError as error:
        raise FileError(f"{str(path)!r} is not the name of a file; check the path") from error
    if len(content) > limit:
        raise FileError(f"{path} is larger than the limit of {limit} bytes; is it the right file?")
    return content


@contextmanager
def written_atomically(path: str | Path) -> Iterator[Path]:
    """Offer a temporary path to write to, and give it its name once it is complete and on disk.

    When writing fails, the temporary file is removed and what was there before stays.
    """
    target = Path(path)
    _check_target(target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise FileError(f"cannot write {path}: {reason_of(error)}; free space or choose another place") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _check_target(target: Path) -> None:
    """Refuse a name that is none, a folder, or a device that must not be replaced."""
    if not target.name or "\0" in str(target) or (os.path.exists(target) and not os.path.isfile(target)):  # noqa: PTH110, PTH113 - these answer False where Path's raise
        raise FileError(f"{str(target)!r} is not the name of a plain file; choose another")


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a whole file."""
    with written_atomically(path) as temporary:
        temporary.write_bytes(content)


def reason_of(error: OSError) -> str:
    """Say what the operating system said, without its error number."""
    return error.strerror or str(error) or type(error).__name__
