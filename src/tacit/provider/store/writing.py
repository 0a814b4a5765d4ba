"""Storing groups of batches, one transaction each: what is answered is on the disk, once, whole."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from sqlalchemy import delete, func, select
from sqlalchemy.exc import IntegrityError

from tacit.errors import StoreError
from tacit.provider.store.schema import devices, items, reports
from tacit.provider.store.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from tacit.provider.store.database import Database

    Row = tuple[int, int, int, int, int]  # device, item, revision, policy, symbol

ACCEPTED, DUPLICATE = "accepted", "duplicate"
UNKNOWN_ITEM, UNKNOWN_SYMBOL, TOO_MANY = "unknown-item", "unknown-symbol", "too-many-reports"

_MOST_REMEMBERED = 200_000
_SECONDS_PER_HOUR = 3600

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Said:
    """One report of a batch, as it came in."""

    item: str
    symbol: int
    revision: int


@dataclass(frozen=True, slots=True)
class Batch:
    """What one device said at once, under one policy that the store knows."""

    token_hash: bytes
    policy: int
    symbols: int
    """How many symbols the policy has."""
    said: Sequence[Said]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch: every report of it is stored, was stored before, or is named here with a reason."""

    accepted: int
    duplicates: int
    rejected: tuple[tuple[int, str], ...] = ()


class Remembered(OrderedDict[Key, Value], Generic[Key, Value]):
    """The newest entries of a lookup, so that memory stays bounded."""

    def remember(self, key: Key, value: Value) -> None:
        """Keep an entry, and forget the oldest when there are too many."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > _MOST_REMEMBERED:
            self.popitem(last=False)


@dataclass
class GroupWriter:
    """Stores groups of batches. To be used by one thread at a time.

    What it remembers of the database, keys and numbers of reports, is checked by the database's own constraints: if
    another provider deleted a device meanwhile, it forgets everything and tries once more.
    """

    database: Database
    most_reports: int
    """Of one device; what it says beyond is rejected."""
    _item_keys: Remembered[str, int] = field(default_factory=Remembered)
    _devices: Remembered[bytes, tuple[int, int]] = field(default_factory=Remembered)
    """The key of a device and its number of reports."""

    def __post_init__(self) -> None:
        """Prepare the statements."""
        self._statements = Statements(self.database.is_sqlite)

    def store(self, batches: Sequence[Batch], noted: Counter[str] | None = None) -> list[Outcome]:
        """Store a group of batches of different devices, and tallies noted elsewhere, in one transaction."""
        try:
            return self._store(batches, noted)
        except StoreError as error:
            if not isinstance(error.__cause__, IntegrityError):
                raise
        self.forget()
        return self._store(batches, noted)

    def forget(self) -> None:
        """Forget what is remembered of the database."""
        self._item_keys.clear()
        self._devices.clear()

    def delete_device(self, token_hash: bytes) -> bool:
        """Delete a device and all its reports; tell whether there was one."""
        self._devices.pop(token_hash, None)
        with self.database.writing() as connection:
            key = connection.scalar(select(devices.c.key).where(devices.c.token_hash == token_hash))
            if key is not None:
                connection.execute(delete(reports).where(reports.c.device == key))
                connection.execute(delete(devices).where(devices.c.key == key))
        if key is not None and self.database.is_sqlite:
            with self.database.writer.connect() as connection:
                # What was deleted must not stay readable in the log either; readers may make it wait.
                connection.connection.driver_connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[union-attr] # a live connection
        return key is not None

    def _store(self, batches: Sequence[Batch], noted: Counter[str] | None) -> list[Outcome]:
        with self.database.writing() as connection:
            self._learn_items(connection, {one.item for batch in batches for one in batch.said})
            self._learn_devices(connection, batches)
            drafts = [self._draft(connection, batch) for batch in batches]
            stored = self._insert(connection, [row for draft in drafts for row in draft.rows])
            outcomes = [draft.outcome(stored) for draft in drafts]
            self._tally(connection, outcomes, noted)
        for batch, draft in zip(batches, drafts, strict=True):
            if draft.rows:
                key, count = self._devices[batch.token_hash]
                self._devices.remember(batch.token_hash, (key, count + stored[key]))
        return outcomes

    def _learn_items(self, connection: Connection, wanted: set[str]) -> None:
        # What is not printable is never listed, and half a character would not even reach the database.
        missing = [item for item in wanted if item not in self._item_keys and item.isprintable()]
        if missing:
            found = connection.execute(select(items.c.id, items.c.key).where(items.c.id.in_(missing)))
            for item, key in found:
                self._item_keys.remember(item, key)

    def _learn_devices(self, connection: Connection, batches: Sequence[Batch]) -> None:
        missing = {batch.token_hash for batch in batches if self._is_news(batch)}
        if not missing:
            return
        connection.execute(self._statements.add_devices, [{"token_hash": one} for one in sorted(missing)])
        counted = (
            select(devices.c.token_hash, devices.c.key, func.count(reports.c.device))
            .join(reports, isouter=True)
            .where(devices.c.token_hash.in_(missing))
            .group_by(devices.c.key, devices.c.token_hash)
        )
        for token_hash, key, count in connection.execute(counted):
            self._devices.remember(bytes(token_hash), (key, count))

    def _is_news(self, batch: Batch) -> bool:
        """Tell whether a batch is of a device not met yet, and says something that can be stored."""
        return batch.token_hash not in self._devices and any(
            one.item in self._item_keys and one.symbol < batch.symbols for one in batch.said
        )

    def _draft(self, connection: Connection, batch: Batch) -> _Draft:
        draft = _Draft()
        key, count = self._devices.get(batch.token_hash, (0, 0))
        for index, one in enumerate(batch.said):
            item = self._item_keys.get(one.item)
            if item is None:
                draft.rejected.append((index, UNKNOWN_ITEM))
            elif one.symbol >= batch.symbols:
                draft.rejected.append((index, UNKNOWN_SYMBOL))
            else:
                draft.add(index, (key, item, one.revision, batch.policy, one.symbol))
        if count + len(draft.rows) > self.most_reports:
            draft.keep_within(self.most_reports - count, _pairs_of(connection, key))
        return draft

    def _insert(self, connection: Connection, rows: Iterable[Row]) -> Counter[int]:
        """Store rows; return how many were new, by device."""
        given = list(rows)
        if not given:
            return Counter()
        return Counter(connection.scalars(self._statements.add_reports, self._statements.given(given)))

    def _tally(self, connection: Connection, outcomes: Sequence[Outcome], noted: Counter[str] | None) -> None:
        counts = Counter(noted or {})
        for outcome in outcomes:
            counts[ACCEPTED] += outcome.accepted
            counts[DUPLICATE] += outcome.duplicates
            counts.update(code for _, code in outcome.rejected)
        hour = int(time.time()) // _SECONDS_PER_HOUR
        rows = [{"hour": hour, "code": code, "count": count} for code, count in sorted(counts.items()) if count]
        if rows:
            connection.execute(self._statements.add_tallies, rows)


@dataclass
class _Draft:
    """What is to be stored of a batch, and what is not."""

    rows: list[Row] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)

    def add(self, index: int, row: Row) -> None:
        self.rows.append(row)
        self.indices.append(index)

    def keep_within(self, room: int, known: set[tuple[int, int]]) -> None:
        """Reject what is new beyond the room there is; what was stored before is a duplicate, not too much."""
        kept, indices = [], []
        for index, row in zip(self.indices, self.rows, strict=True):
            if row[1:3] in known or room > 0:
                room -= row[1:3] not in known
                known.add(row[1:3])
                kept.append(row)
                indices.append(index)
            else:
                self.rejected.append((index, TOO_MANY))
        self.rows, self.indices = kept, indices
        self.rejected.sort()

    def outcome(self, stored: Counter[int]) -> Outcome:
        accepted = stored[self.rows[0][0]] if self.rows else 0
        return Outcome(accepted, len(self.rows) - accepted, tuple(self.rejected))


def _pairs_of(connection: Connection, device: int) -> set[tuple[int, int]]:
    """Return the item and revision of all reports of a device."""
    found = connection.execute(select(reports.c.item, reports.c.revision).where(reports.c.device == device))
    return {(item, revision) for item, revision in found}
