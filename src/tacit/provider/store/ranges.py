"""What is learned from, in ranges of devices: each can be read by itself, on another machine too."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import BigInteger, case, cast, func, select

from tacit.errors import InvalidInputError, ReportError, StoreError
from tacit.learning.reports import Reports
from tacit.provider.store.database import open_database
from tacit.provider.store.schema import items, policies, reports
from tacit.tables import Ids, column_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection, Row, Select, Table

    from tacit.learning.reports import Alphabet
    from tacit.provider.store.database import Database

    Numbers = NDArray[np.int64]  # device, item, policy, symbol
    Columns = dict[str, NDArray[Any]]

MOST_PARTS = 1_000_000

_CHUNK = 100_000
_COLUMNS = 4
_NAMES_AT_ONCE = 10_000  # databases take so many values in a question, and not many more
_NAMED = {"item": items, "policy": policies}
_SHOWN_ID = 12
_LIMITS_TRANSACTIONS = (17,)  # the first PostgreSQL that can
_SNAPSHOT = re.compile(r"[0-9A-F]+(-[0-9A-F]+)*")


@dataclass(frozen=True, slots=True)
class DeviceRange:
    """The devices with keys from `first` to `last`, both included, and how many reports they had, old ones too.

    `snapshot` names the state of the database to read; None where it cannot be named.
    """

    first: int
    last: int
    reports: int
    snapshot: str | None = None


@contextmanager
def device_ranges(address: str, parts: int, most: int | None = None) -> Iterator[list[DeviceRange]]:
    """Cut the devices into at most `parts` ranges with about equally many reports; no reports, no ranges.

    Where these would have more than `most` reports, there are more of them.

    On PostgreSQL every range shows the same state of the store, that of now, for as long as this context is open:
    whoever reads a range inside it sees nothing of what is stored or deleted meanwhile. It can be read as often as
    needed, and by as many as there are connections. A range that is read after the end is refused.

    SQLite cannot name a state. There each range shows the state of when it is read, so that what a device said is
    whole, and devices that are new since are in none; but reading a range again may show more, or less.
    """
    if not 1 <= parts <= MOST_PARTS:
        raise InvalidInputError(f"{parts} ranges of devices are not 1 to {MOST_PARTS}; choose another number")
    database = open_database(address)
    try:
        if database.is_sqlite:  # a transaction left open would keep what is deleted meanwhile in its log
            with database.reading() as connection:
                ranges = _ranges(connection, _cut(parts, most), None)
            yield ranges
        else:
            with _exported(database) as (connection, snapshot):
                yield _ranges(connection, _cut(parts, most), snapshot)
    finally:
        database.close()


def _ranges(connection: Connection, cut: Select[int, int, int], snapshot: str | None) -> list[DeviceRange]:
    return [DeviceRange(first, last, own, snapshot) for first, last, own in connection.execute(cut)]


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A range as a part of the reports that a cluster lays out: it is read by the machine that needs it."""

    address: str = field(repr=False)  # it may hold a password
    wanted: DeviceRange

    @property
    def label(self) -> str:
        """What errors call it."""
        return f"devices {self.wanted.first} to {self.wanted.last}"

    def reports(self, alphabet: Alphabet) -> Reports | None:
        """Read the reports; None if there are none."""
        keys, names = _read(self.address, self.wanted)
        if not len(keys["user"]):
            return None
        users, policies = column_of(keys["user"], "user").ids(), _named(keys["policy"], names["policy"])
        indices = np.array([alphabet.find(policy) for policy in policies.distinct], dtype=np.int16)
        if indices.min() < 0:
            shown = str(policies.distinct[int(np.argmin(indices))])[:_SHOWN_ID]
            raise ReportError(f"{self.label}: policy {shown!r} was not given; give it too")
        codes = alphabet.encode(keys["symbol"].astype(np.int64), indices[policies.codes], self.label)
        return Reports(self.label, users, _named(keys["item"], names["item"]), codes)


def _read(address: str, wanted: DeviceRange) -> tuple[Columns, dict[str, dict[int, str]]]:
    """Read a range with keys in the place of ids, and which ids these stand for."""
    database = open_database(address)
    try:
        with _state(database, wanted.snapshot) as connection:
            found = connection.execution_options(stream_results=True, yield_per=_CHUNK).execute(_of_range(wanted))
            keys = _joined(_newest(map(_numbers, found.partitions())))
            names = {name: _names(connection, table, keys[name]) for name, table in _NAMED.items()}
    finally:
        database.close()
    return keys, names


def _names(connection: Connection, table: Table, keys: NDArray[Any]) -> dict[int, str]:
    """Look up what keys stand for: those in use alone, as there may be millions of others."""
    distinct, found = np.unique(keys), dict[int, str]()
    for first in range(0, len(distinct), _NAMES_AT_ONCE):
        wanted = table.c.key.in_(distinct[first : first + _NAMES_AT_ONCE].tolist())
        found.update(dict(connection.execute(select(table.c.key, table.c.id).where(wanted)).all()))
    return found


@contextmanager
def _exported(database: Database) -> Iterator[tuple[Connection, str]]:
    """Let others read the state that a transaction sees, and name it, until it ends.

    Whether it can still be ended by then is of no matter: all that was to be read in it was read.
    """
    done = False
    try:
        with database.reading() as connection:
            _look_only(connection)
            yield connection, str(connection.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one())
            done = True
    except StoreError:
        if not done:
            raise


def _look_only(connection: Connection) -> None:
    """Begin a transaction that sees one state and changes nothing; counting and reading may take hours."""
    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    limits = ["statement_timeout", "idle_in_transaction_session_timeout"]
    if (connection.dialect.server_version_info or (0,)) >= _LIMITS_TRANSACTIONS:
        limits.append("transaction_timeout")
    for limit in limits:
        connection.exec_driver_sql(f"SET LOCAL {limit} = 0")


@contextmanager
def _state(database: Database, snapshot: str | None) -> Iterator[Connection]:
    """Offer a transaction that sees the named state, or the present one."""
    if snapshot is not None and not _SNAPSHOT.fullmatch(snapshot):
        raise InvalidInputError(
            f"{snapshot[:40]!r} names no state of a database; take ranges as device_ranges made them"
        )
    with database.reading() as connection:
        if snapshot is not None:
            _look_only(connection)
            connection.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{snapshot}'")  # it takes no parameter
        yield connection


def _cut(parts: int, most: int | None) -> Select[int, int, int]:
    """Sum up the reports of devices in order of their keys, and cut the sum into equal parts."""
    counts = select(reports.c.device, func.count().label("own")).group_by(reports.c.device).subquery()
    before = cast(func.sum(counts.c.own).over(order_by=counts.c.device) - counts.c.own, BigInteger)
    total = cast(func.sum(counts.c.own).over(), BigInteger)
    wanted = parts if most is None else case((total > parts * most, (total + most - 1) // most), else_=parts)
    running = select(counts.c.device, counts.c.own, (before * wanted // total).label("part")).subquery()
    ends = func.min(running.c.device), func.max(running.c.device), cast(func.sum(running.c.own), BigInteger)
    return select(*ends).group_by(running.c.part).order_by(running.c.part)


def _of_range(wanted: DeviceRange) -> Select[Any]:
    columns = select(reports.c.device, reports.c.item, reports.c.policy, reports.c.symbol)
    own = columns.where(reports.c.device.between(wanted.first, wanted.last))
    return own.order_by(reports.c.device, reports.c.item, reports.c.revision)


def _numbers(chunk: Sequence[Row[Any]]) -> Numbers:
    return np.fromiter(chain.from_iterable(chunk), dtype=np.int64, count=_COLUMNS * len(chunk)).reshape(-1, _COLUMNS)


def _newest(chunks: Iterable[Numbers]) -> Iterator[Numbers]:
    """Keep the last of the rows with equal device and item, which come one after the other."""
    held = np.empty((0, _COLUMNS), dtype=np.int64)
    for chunk in chunks:
        rows = np.concatenate([held, chunk])
        yield rows[:-1][(rows[1:, :2] != rows[:-1, :2]).any(axis=1)]
        held = rows[-1:]  # the next chunk may have a newer one
    yield held


def _joined(chunks: Iterable[Numbers]) -> Columns:
    """Put chunks together, each at once as narrow as the tables are."""
    kinds = {"user": np.int64, "item": np.int32, "policy": np.int16, "symbol": np.int16}
    narrow = [[chunk[:, at].astype(kind) for at, kind in enumerate(kinds.values())] for chunk in chunks]
    return dict(zip(kinds, map(np.concatenate, zip(*narrow, strict=True)), strict=True))


def _named(keys: NDArray[Any], ids: Mapping[int, str]) -> Ids:
    listed, places = np.unique(keys, return_inverse=True)
    if not len(listed):
        return Ids(np.empty(0, dtype=object), places.astype(np.int32))
    texts = column_of(np.array([ids[key] for key in listed.tolist()], dtype=object), "id").ids()
    return Ids(texts.distinct, texts.codes[places])
