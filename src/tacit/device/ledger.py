"""The ledger: what a device has agreed to, said and spent, append-only on its own disk.

One line a record: the CRC-32 of its JSON, a space, the JSON. A record counts once
it is complete and on disk, and only then does its report leave the device, so a
crash at any byte loses at most a record of something never said. A file that
ends in an incomplete line was cut off there; damage anywhere else is refused.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tacit.errors import LedgerError
from tacit.files import reason_of
from tacit.privacy.canonical import read_json
from tacit.privacy.exact import parse_canonical_decimal
from tacit.privacy.report import Report

FORMAT = "tacit-ledger/1"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One report as the device remembers it; `rating` is the true one and stays here."""

    item: str
    rating: str = field(repr=False)  # nothing that is printed or logged shows it
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
        self._owner = os.getpid()
        self._file = _open_locked(self.path)
        try:
            self.records = self._read()
            self._keep_name()
        except BaseException:
            self.close()
            raise

    def append(self, *records: dict[str, Any]) -> None:
        """Write records through to the disk, or leave the ledger as it was and say why not."""
        if os.getpid() != self._owner:
            raise LedgerError(f"the ledger {self.path} was opened by another process; open it again in this one")
        if self._file < 0:
            raise LedgerError(f"the ledger {self.path} is closed; open the device again")
        lines = b"".join(_line(record) for record in records)
        self._cut_back()
        try:
            self._write(lines)
        except OSError as error:
            self._cut_back()
            raise LedgerError(
                f"cannot write the ledger {self.path}: {reason_of(error)}; nothing was said or spent, free space first"
            ) from error
        except BaseException:
            # An interrupt: what was not confirmed must not be found later behind a newer record.
            self._cut_back()
            raise
        self._length += len(lines)
        self.records.extend(records)

    def _write(self, lines: bytes) -> None:
        written = 0
        while written < len(lines):
            written += os.write(self._file, lines[written:])
        os.fsync(self._file)

    def close(self) -> None:
        """Unlock and close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _read(self) -> list[dict[str, Any]]:
        content = self._content()
        complete, newline, _torn = content.rpartition(b"\n")
        self._length = len(complete) + len(newline)
        if not complete:
            if not _line({"format": FORMAT}).startswith(content):
                raise LedgerError(f"{self.path} is not a tacit ledger; name another file")
            self._length = 0
        lines = complete.split(b"\n") if complete else []
        records = [_record(self.path, number, line) for number, line in enumerate(lines, start=1)]
        if records:
            _check_format(self.path, records[0])
        # Only now is it known to be a ledger of ours, whose incomplete end may be dropped.
        self._cut_back()
        if not records:
            self._start()
        return records[1:]

    def _content(self) -> bytes:
        size = os.fstat(self._file).st_size
        content = os.pread(self._file, size, 0) if size else b""
        if len(content) != size:
            raise LedgerError(f"the ledger {self.path} cannot be read to its end; check the disk")
        return content

    def _start(self) -> None:
        self.records = []
        self.append({"format": FORMAT})

    def _keep_name(self) -> None:
        """Make sure the file's name survives a power cut: a ledger that vanished would be started, and spent, again."""
        try:
            _sync_folder(self.path.resolve().parent)
        except OSError as error:
            msg = f"the folder of the ledger {self.path} cannot be written through: {reason_of(error)}; choose another"
            raise LedgerError(msg) from error

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
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise LedgerError(f"the ledger {path} is in use by another process; close that first") from error
    return file


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
    try:
        record = read_json(text)
    except ValueError as error:
        raise LedgerError(f"line {number} of the ledger {path} cannot be read ({error}); restore the file") from error
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
    """Read an entry back, checking it as if it came from the wire; the caller answers for what is missing."""
    entry = LedgerEntry(**{name: record[name] for name in LedgerEntry.__slots__})
    Report(entry.policy, entry.item, entry.symbol, entry.revision)
    parse_canonical_decimal(entry.rating)
    parse_canonical_decimal(entry.epsilon)
    return entry
