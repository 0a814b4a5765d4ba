"""The ledger: what a device has agreed to, said and spent, append-only on its own disk.

One line a record: the CRC-32 of its JSON, a space, the JSON. A record counts once
it is complete and on disk, and only then does its report leave the device, so a
crash at any byte loses at most a record of something never said. A file that
ends in an incomplete line was cut off there; damage anywhere else is refused.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tacit.errors import LedgerError
from tacit.files import reason_of
from tacit.privacy.exact import parse_canonical_decimal

FORMAT = "tacit-ledger/1"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One report as the device remembers it; `rating` is the true one and stays here."""

    item: str
    rating: str
    policy: str
    symbol: int
    revision: int
    epsilon: str


class Ledger:
    """An open ledger file, locked against every other process."""

    def __init__(self, path: str | Path) -> None:
        """Open or create the file and read all its records."""
        self.path = Path(path)
        self.records: list[dict[str, Any]] = []
        self._file = _open_locked(self.path)
        try:
            self.records = self._read()
        except BaseException:
            self.close()
            raise

    def append(self, *records: dict[str, Any]) -> None:
        """Write records through to the disk, or leave the ledger as it was and say why not."""
        lines = b"".join(_line(record) for record in records)
        try:
            written = 0
            while written < len(lines):
                written += os.write(self._file, lines[written:])
            os.fsync(self._file)
        except OSError as error:
            self._cut_back()
            msg = (
                f"cannot write the ledger {self.path}: {reason_of(error)}; nothing was said or spent, free space first"
            )
            raise LedgerError(msg) from error
        self._length += len(lines)
        self.records.extend(records)

    def close(self) -> None:
        """Unlock and close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _read(self) -> list[dict[str, Any]]:
        content = self.path.read_bytes()
        complete, newline, _torn = content.rpartition(b"\n")
        self._length = len(complete) + len(newline)
        if not complete:
            if not _line({"format": FORMAT}).startswith(content):
                raise LedgerError(f"{self.path} is not a tacit ledger; name another file")
            self._length = 0
        records = [_record(self.path, number, line) for number, line in enumerate(complete.splitlines(), start=1)]
        self._cut_back()
        if not records:
            self._start()
            return []
        _check_format(self.path, records[0])
        return records[1:]

    def _start(self) -> None:
        self.records = []
        self.append({"format": FORMAT})
        _sync_folder(self.path.parent)

    def _cut_back(self) -> None:
        """Drop what is not a complete record at the end of the file."""
        try:
            if os.fstat(self._file).st_size != self._length:
                os.ftruncate(self._file, self._length)
                os.fsync(self._file)
        except OSError as error:
            self.close()
            raise LedgerError(
                f"the ledger {self.path} cannot be repaired: {reason_of(error)}; nothing was said"
            ) from error


def _open_locked(path: Path) -> int:
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise LedgerError(f"cannot open the ledger {path}: {reason_of(error)}; check the path") from error
    try:
        _lock(file)
    except OSError as error:
        os.close(file)
        raise LedgerError(f"the ledger {path} is in use by another process; close that first") from error
    return file


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

    def _sync_folder(folder: Path) -> None:
        """Windows keeps folder entries by itself."""

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _sync_folder(folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _record(path: Path, number: int, line: bytes) -> dict[str, Any]:
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        raise LedgerError(
            f"line {number} of the ledger {path} is damaged; restore the file, nothing will be sent from it"
        )
    record = json.loads(text)
    if not isinstance(record, dict):
        raise LedgerError(f"line {number} of the ledger {path} is not a record; restore the file")
    return record


def _check_format(path: Path, header: dict[str, Any]) -> None:
    if header.get("format") != FORMAT:
        shown = str(header.get("format"))[:40]
        raise LedgerError(f"the ledger {path} has the format {shown!r}, this tacit writes {FORMAT!r}; update tacit")


def entry_record(entry: LedgerEntry) -> dict[str, Any]:
    """Return an entry as a ledger record."""
    return {"kind": "report", **asdict(entry)}


def entry_of(record: dict[str, Any]) -> LedgerEntry:
    """Read an entry back; the caller answers for records that lack a field."""
    entry = LedgerEntry(**{name: record[name] for name in LedgerEntry.__slots__})
    parse_canonical_decimal(entry.epsilon)
    return entry
