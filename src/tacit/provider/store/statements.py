"""Statements on many rows at once: the same Core expressions for both databases, but for where the rows come from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Insert, Integer, Select, SmallInteger, Table, any_, bindparam, cast, func, select
from sqlalchemy.dialects import postgresql, sqlite

from tacit.provider.store.schema import devices, reports, tallies

if TYPE_CHECKING:
    from collections.abc import Iterable

_REPORT_COLUMNS = {
    "device": BigInteger,
    "item": Integer,
    "revision": Integer,
    "policy": SmallInteger,
    "symbol": SmallInteger,
}


@dataclass(frozen=True)
class Statements:
    """What a group of batches is stored with, on one kind of database."""

    is_sqlite: bool

    @cached_property
    def add_reports(self) -> Insert:
        """Store the reports that are not there yet, and return the device of each of them."""
        new = self.insert(reports).from_select(list(_REPORT_COLUMNS), self._given_reports)
        adding: Insert = new.on_conflict_do_nothing().returning(reports.c.device)
        return adding

    @cached_property
    def add_devices(self) -> Insert:
        """Store the devices that are not there yet, and return those."""
        adding: Insert = self.insert(devices).on_conflict_do_nothing().returning(devices.c.token_hash, devices.c.key)
        return adding

    @cached_property
    def still_there(self) -> Select[int]:
        """Return those of some devices that exist, and let nobody delete them before the transaction ends."""
        found = select(devices.c.key).with_for_update(read=True, key_share=True)
        if self.is_sqlite:  # there is one writer, so nobody will
            return found.where(
                devices.c.key.in_(select(func.json_each(bindparam("keys")).table_valued("value").c.value))
            )
        return found.where(devices.c.key == any_(cast(bindparam("keys"), postgresql.ARRAY(BigInteger))))

    def given_keys(self, keys: Iterable[int]) -> dict[str, Any]:
        """Return the parameters of `still_there`."""
        ordered = sorted(keys)
        return {"keys": json.dumps(ordered) if self.is_sqlite else ordered}

    @cached_property
    def add_tallies(self) -> Insert:
        """Add to the tallies of an hour."""
        new = self.insert(tallies)
        sums = {"count": tallies.c.count + new.excluded.count}
        adding: Insert = new.on_conflict_do_update(index_elements=[tallies.c.hour, tallies.c.code], set_=sums)
        return adding

    def given(self, rows: Iterable[tuple[int, ...]]) -> dict[str, Any]:
        """Return the parameters of `add_reports` for rows of device, item, revision, policy and symbol.

        In their order, so that two providers that store at the same time do not wait for each other in a circle.
        """
        ordered = sorted(rows, key=itemgetter(0, 1, 2))
        if self.is_sqlite:
            return {"rows": json.dumps(ordered)}
        return dict(zip(_REPORT_COLUMNS, map(list, zip(*ordered, strict=True)), strict=True))

    @property
    def _given_reports(self) -> Any:  # noqa: ANN401 - a select of five columns
        """Rows from one parameter: a JSON text, or an array for each column. One statement, whatever their number."""
        if self.is_sqlite:
            each = func.json_each(bindparam("rows")).table_valued("value")
            fields = [func.json_extract(each.c.value, f"$[{at}]") for at in range(len(_REPORT_COLUMNS))]
            # SQLite takes ON CONFLICT after a SELECT for part of its FROM unless there is a WHERE.
            return select(*fields).select_from(each).where(each.c.value.is_not(None))
        arrays = [cast(bindparam(name), postgresql.ARRAY(kind)) for name, kind in _REPORT_COLUMNS.items()]
        return select(func.unnest(*arrays).table_valued(*_REPORT_COLUMNS).render_derived())

    def insert(self, table: Table) -> Any:  # noqa: ANN401 - the two kinds share their methods, not a type
        """Begin an insert that can say what to do on conflict."""
        made: Insert = sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)
        return made
