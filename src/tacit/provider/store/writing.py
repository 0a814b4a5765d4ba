"""Storing groups of batches, one transaction each: what is answered is on the disk, once, whole."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from sqlalchemy import delete, func, select

from tacit.provider.store.schema import devices, items, reports
from tacit.provider.store.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from tacit.provider.store.database import Database

    Row = tuple[int, int, int, int, int]  # device, item, revision, policy, symbol

ACCEPTED, DUPLICATE, DELETED = "accepted", "duplicate", "device-deleted"
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

    def remember(self, entries: Mapping[Key, Value]) -> None:
        """Keep entries, and forget the oldest when there are too many."""
        for key, value in entries.items():
            self[key] = value
            self.move_to_end(key)
        while len(self) > _MOST_REMEMBERED:
            self.popitem(last=False)


@dataclass
class GroupWriter:
    """Stores groups of batches. To be used by one thread at a time.

    It remembers keys and numbers of reports that were committed. Items stay; of devices it asks every time whether they
    are still there, for another provider may have deleted one.
    """

    database: Database
    most_reports: int
    """Of one device; what it says beyond is rejected."""
    _item_keys: Remembered[str, int] = field(default_factory=Remembered)
    _devices: Remembered[bytes, tuple[int, int]] = field(default_factory=Remembered)
    """The key of a device and its number of reports."""
    _log_is_due: bool = False

    def __post_init__(self) -> None:
        """Prepare the statements."""
        self._statements = Statements(self.database.is_sqlite)

    def store(self, batches: Sequence[Batch], noted: Counter[str] | None = None) -> list[Outcome]:
        """Store a group of batches of different devices, and tallies noted elsewhere, in one transaction."""
        with self.database.writing() as connection:
            known = self._keys_of(connection, {one.item for batch in batches for one in batch.said})
            met = self._devices_of(connection, [batch for batch in batches if _says_something(batch, known)])
            drafts = [self._draft(connection, batch, known, met) for batch in batches]
            stored = self._insert(connection, [row for draft in drafts for row in draft.rows])
            outcomes = [draft.outcome(stored) for draft in drafts]
            self._tally(connection, _counts_of(outcomes) + (noted or Counter()))
        self._item_keys.remember(known)
        self._devices.remember({token_hash: (key, count + stored[key]) for token_hash, (key, count) in met.items()})
        return outcomes

    def delete_device(self, token_hash: bytes) -> bool:
        """Delete a device and all its reports; tell whether there was one."""
        self._devices.pop(token_hash, None)
        with self.database.writing() as connection:
            key = connection.scalar(select(devices.c.key).where(devices.c.token_hash == token_hash))
            if key is not None:
                connection.execute(delete(reports).where(reports.c.device == key))
                connection.execute(delete(devices).where(devices.c.key == key))
                self._tally(connection, Counter({DELETED: 1}))
        if key is not None:
            self._log_is_due = self.database.is_sqlite
            self.tidy()
        return key is not None

    @property
    def is_tidy(self) -> bool:
        """Whether nothing that was deleted is left in SQLite's log."""
        return not self._log_is_due

    def tidy(self) -> None:
        """Empty SQLite's log after a deletion; whoever still reads from it is not waited for, but tried again."""
        if self._log_is_due:
            self._log_is_due = not self.database.log_emptied()

    def _keys_of(self, connection: Connection, wanted: set[str]) -> dict[str, int]:
        """Return the keys of those items that are listed."""
        keys = {item: self._item_keys[item] for item in wanted if item in self._item_keys}
        # What is not printable is never listed, and half a character would not even reach the database.
        missing = [item for item in wanted if item not in keys and item.isprintable()]
        if missing:
            keys |= dict(connection.execute(select(items.c.id, items.c.key).where(items.c.id.in_(missing))).all())
        return keys

    def _devices_of(self, connection: Connection, batches: Sequence[Batch]) -> dict[bytes, tuple[int, int]]:
        """Return the keys and numbers of reports of devices, new ones included."""
        wanted = [batch.token_hash for batch in batches]
        met = self._still_there(connection, {one: self._devices[one] for one in wanted if one in self._devices})
        missing = sorted(set(wanted) - met.keys())
        if not missing:
            return met
        added = connection.execute(self._statements.add_devices, [{"token_hash": one} for one in missing])
        met |= {bytes(token_hash): (key, 0) for token_hash, key in added}
        return met | _counted(connection, [token_hash for token_hash in missing if token_hash not in met])

    def _still_there(
        self, connection: Connection, remembered: Mapping[bytes, tuple[int, int]]
    ) -> dict[bytes, tuple[int, int]]:
        if not remembered:
            return {}
        keys = self._statements.given_keys(key for key, _ in remembered.values())
        here = set(connection.scalars(self._statements.still_there, keys))
        return {token_hash: (key, count) for token_hash, (key, count) in remembered.items() if key in here}

    def _draft(
        self, connection: Connection, batch: Batch, known: Mapping[str, int], met: Mapping[bytes, tuple[int, int]]
    ) -> _Draft:
        draft = _Draft()
        key, count = met.get(batch.token_hash, (0, 0))
        for index, one in enumerate(batch.said):
            item = known.get(one.item)
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

    def _tally(self, connection: Connection, counts: Counter[str]) -> None:
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


def _says_something(batch: Batch, known: Mapping[str, int]) -> bool:
    """Tell whether anything in a batch can be stored; a device that says nothing else is not kept."""
    return any(one.item in known and one.symbol < batch.symbols for one in batch.said)


def _counts_of(outcomes: Sequence[Outcome]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts[ACCEPTED] += outcome.accepted
        counts[DUPLICATE] += outcome.duplicates
        counts.update(code for _, code in outcome.rejected)
    return counts


def _counted(connection: Connection, token_hashes: Sequence[bytes]) -> dict[bytes, tuple[int, int]]:
    """Return the keys and numbers of reports of devices; in a subquery each, so that no database reads all reports."""
    if not token_hashes:
        return {}
    own = select(func.count()).where(reports.c.device == devices.c.key).scalar_subquery()
    wanted = select(devices.c.token_hash, devices.c.key, own).where(devices.c.token_hash.in_(token_hashes))
    return {bytes(token_hash): (key, count) for token_hash, key, count in connection.execute(wanted)}


def _pairs_of(connection: Connection, device: int) -> set[tuple[int, int]]:
    """Return the item and revision of all reports of a device."""
    found = connection.execute(select(reports.c.item, reports.c.revision).where(reports.c.device == device))
    return {(item, revision) for item, revision in found}
