"""The report store: what the provider keeps, and what is read of it."""

from __future__ import annotations

import secrets as random_secrets
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlalchemy import case, func, select

from tacit.errors import InvalidInputError, StoreError
from tacit.privacy.policy import Policy
from tacit.privacy.report import check_item
from tacit.provider.store import migrate, schema
from tacit.provider.store.database import Database, open_database
from tacit.provider.store.latest import latest_reports
from tacit.provider.store.statements import Statements
from tacit.provider.store.writing import ACCEPTED, DELETED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.learning.reports import Part
    from tacit.privacy.scale import RatingScale

LONGEST_TITLE = 500

_ITEMS_AT_ONCE = 1000
_MOST_POLICIES = 1000


@dataclass(frozen=True, slots=True)
class Item:
    """Something people rate: an id as in reports, and a title to show."""

    id: str
    title: str

    def __post_init__(self) -> None:
        """Refuse what could not be reported on, or not be shown."""
        check_item(self.id)
        if len(self.title) > LONGEST_TITLE or not self.title.isprintable():
            raise InvalidInputError(
                f"the title of item {self.id} has {len(self.title)} characters, or one that cannot be shown; "
                f"give at most {LONGEST_TITLE} printable ones"
            )


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report as it is kept."""

    policy: str
    item: str
    symbol: int
    revision: int


@dataclass(frozen=True)
class ReportStore:
    """Reports, devices, items and policies in a database; `GroupWriter` adds reports, this reads them."""

    database: Database

    @classmethod
    def open(cls, address: str) -> ReportStore:
        """Open the store at an address; an empty database is made ready, one of another schema refused."""
        database = open_database(address)
        try:
            migrate.check(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    def close(self) -> None:
        """Give all connections back."""
        self.database.close()

    def adopt(self, policy: Policy) -> int:
        """Make a policy the current one, known from now on; return its key. An old one keeps its reports usable."""
        with self.database.writing() as connection:
            table = schema.policies
            known = connection.execute(select(table.c.id, table.c.document).order_by(table.c.key)).all()
            if known and known[-1].id != policy.id:
                _check_rotation(policy, [row.id for row in known], Policy.from_json(known[-1].document).scale)
            if not known or known[-1].id != policy.id:
                row = {"id": policy.id, "document": policy.to_json().decode()}
                connection.execute(schema.policies.insert(), [row])
            key = connection.scalar(select(schema.policies.c.key).where(schema.policies.c.id == policy.id))
        return int(key or 0)

    def policies(self) -> dict[int, Policy]:
        """Return all policies by key, the current one last."""
        table = schema.policies
        with self.database.reading() as connection:
            rows = connection.execute(select(table.c.key, table.c.document).order_by(table.c.key)).all()
        return {key: Policy.from_json(document) for key, document in rows}

    def put_items(self, listed: Sequence[Item]) -> tuple[int, int]:
        """Add items, or change their titles; return how many were added and how many changed."""
        if len({item.id for item in listed}) < len(listed):
            raise InvalidInputError("an item is listed twice; keep one of each")
        parts = [listed[first : first + _ITEMS_AT_ONCE] for first in range(0, len(listed), _ITEMS_AT_ONCE)]
        added, changed = zip(*map(self._put_items, parts), strict=True) if parts else ((), ())
        return sum(added), sum(changed)

    def _put_items(self, listed: Sequence[Item]) -> tuple[int, int]:
        table, wanted = schema.items, {item.id: item.title for item in listed}
        with self.database.writing() as connection:
            rows = connection.execute(select(table.c.id, table.c.title).where(table.c.id.in_(wanted)))
            known = dict(rows.all())
            new = [{"id": item, "title": title} for item, title in wanted.items() if item not in known]
            changed = {item: title for item, title in wanted.items() if known.get(item, title) != title}
            if new:
                connection.execute(table.insert(), new)
            for item, title in changed.items():
                connection.execute(table.update().where(table.c.id == item).values(title=title))
        return len(new), len(changed)

    def items(self, *, after: int = 0, limit: int = 1000) -> list[tuple[int, Item]]:
        """Return items with their keys, in order of entry."""
        table = schema.items
        wanted = select(table).where(table.c.key > after).order_by(table.c.key).limit(limit)
        with self.database.reading() as connection:
            return [(key, Item(item, title)) for key, item, title in connection.execute(wanted)]

    def count(self, table: str) -> int:
        """Count the rows of a table."""
        with self.database.reading() as connection:
            return int(connection.scalar(select(func.count()).select_from(schema.metadata.tables[table])) or 0)

    def device_key(self, token_hash: bytes) -> int | None:
        """Return the key of a device, None if it is unknown."""
        table = schema.devices
        with self.database.reading() as connection:
            found = connection.scalar(select(table.c.key).where(table.c.token_hash == token_hash))
        return None if found is None else int(found)

    def reports_of(self, token_hash: bytes) -> list[StoredReport] | None:
        """Return all reports of a device in order of item and revision; None if it is unknown."""
        reports, items, policies = schema.reports, schema.items, schema.policies
        wanted = (
            select(policies.c.id, items.c.id, reports.c.symbol, reports.c.revision)
            .select_from(schema.devices)
            .join(reports, reports.c.device == schema.devices.c.key)
            .join(items, items.c.key == reports.c.item)
            .join(policies, policies.c.key == reports.c.policy)
            .where(schema.devices.c.token_hash == token_hash)
            .order_by(items.c.key, reports.c.revision)
        )
        with self.database.reading() as connection:
            found = [StoredReport(*row) for row in connection.execute(wanted)]
        return found if found or self.device_key(token_hash) is not None else None

    def latest_reports(self) -> list[Part]:
        """Return the newest report of every device on every item: users, items, symbols and policy, by policy."""
        return latest_reports(self.database, self.policies())

    def reports_by_policy(self) -> dict[str, int]:
        """Count the reports made under each policy."""
        policies, reports = schema.policies, schema.reports
        of_policy = reports.c.policy == policies.c.key
        counted = select(policies.c.id, func.count(reports.c.device)).join(reports, of_policy, isouter=True)
        with self.database.reading() as connection:
            return dict(connection.execute(counted.group_by(policies.c.id)).all())

    def epsilon_spent(self) -> dict[Decimal, int]:
        """Count devices by the epsilon they spent, as a pure sum."""
        reports = schema.reports
        grouped = select(reports.c.device, reports.c.policy, func.count().label("reports"))
        grouped_by = grouped.group_by(reports.c.device, reports.c.policy).subquery()
        totals: dict[int, Decimal] = {}
        epsilons = {key: policy.epsilon for key, policy in self.policies().items()}
        with self.database.reading() as connection:
            for device, policy, count in connection.execute(select(grouped_by)):
                totals[device] = totals.get(device, Decimal(0)) + epsilons[policy] * count
        counts: dict[Decimal, int] = {}
        for total in totals.values():
            counts[total] = counts.get(total, 0) + 1
        return counts

    def popular_items(self, limit: int, *, least: int) -> list[str]:
        """Return the items with most reports; those with fewer than `least`, which might tell of one, as entered."""
        items, reports = schema.items, schema.reports
        counts = select(reports.c.item, func.count().label("count")).group_by(reports.c.item).subquery()
        counted = (
            select(items.c.id)
            .join(counts, counts.c.item == items.c.key, isouter=True)
            .order_by(case((counts.c.count >= least, counts.c.count), else_=0).desc(), items.c.key)
            .limit(limit)
        )
        with self.database.reading() as connection:
            return list(connection.scalars(counted))

    def tallies(self, *, since: int) -> list[tuple[int, str, int]]:
        """Return what happened since an hour: hour, code and count, in order."""
        table = schema.tallies
        wanted = select(table).where(table.c.hour >= since).order_by(table.c.hour, table.c.code)
        with self.database.reading() as connection:
            return [(hour, code, count) for hour, code, count in connection.execute(wanted)]

    def changes(self) -> int:
        """Return a number that grows with every report stored and every device deleted."""
        table = schema.tallies
        wanted = select(func.coalesce(func.sum(table.c.count), 0)).where(table.c.code.in_((ACCEPTED, DELETED)))
        with self.database.reading() as connection:
            return int(connection.execute(wanted).scalar_one())

    def secret(self, name: str) -> bytes:
        """Return a secret of this store, drawn when it is first asked for."""
        table, drawn = schema.secrets, {"name": name, "value": random_secrets.token_bytes(32)}
        statement: Any = Statements(self.database.is_sqlite).insert(table).on_conflict_do_nothing()
        with self.database.writing() as connection:
            connection.execute(statement, [drawn])
            return bytes(connection.execute(select(table.c.value).where(table.c.name == name)).scalar_one())

    def size(self) -> int:
        """Return how many bytes the database takes."""
        question = (
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            if self.database.is_sqlite
            else "SELECT pg_database_size(current_database())"
        )
        with self.database.reading() as connection:
            return int(connection.exec_driver_sql(question).scalar_one())


def _check_rotation(policy: Policy, known: Sequence[str], scale: RatingScale) -> None:
    if policy.id in known:
        raise StoreError(f"policy {policy.id[:12]} was in use before and cannot come back; make a new one")
    if policy.scale != scale:
        raise StoreError(
            f"the reports here are on the scale {scale}, not {policy.scale}; start a new database for that"
        )
    if len(known) >= _MOST_POLICIES:
        raise StoreError(f"{len(known)} policies are the limit; start a new database")
