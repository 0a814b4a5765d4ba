"""The plain form of collecting, to compare with: the same application, one transaction for each request.

Everything but the storing is `tacit serve` itself: the same FastAPI routes and checks, the same tables and settings
of the database. A batch is stored as is usual: in a thread of the pool, by one SQLAlchemy transaction that looks up
keys and inserts with executemany. It writes no tallies: one row that every transaction adds to would make them wait
for each other, and the comparison should not rest on that.

    python benchmarks/plain_service.py --db sqlite:///x.db --items items.csv [--one-writer]
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request
from sqlalchemy import create_engine, event, func, select

from tacit.cli.serve import _items_of
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.provider.service import RateLimits, Settings, problems
from tacit.provider.service.collecting import Collector
from tacit.provider.service.guard import Guard
from tacit.provider.service.intake import batch_of
from tacit.provider.service.routes import operation, policy
from tacit.provider.service.server import config_of
from tacit.provider.service.state import Service
from tacit.provider.service.tokens import AdminToken, DeviceOf, ServiceOf
from tacit.provider.store import ReportStore
from tacit.provider.store.database import _SQLITE_SETTINGS, Database
from tacit.provider.store.runs import RunStore
from tacit.provider.store.schema import devices, items, reports
from tacit.provider.store.statements import Statements
from tacit.provider.store.writing import TOO_MANY, UNKNOWN_ITEM, UNKNOWN_SYMBOL, GroupWriter
from tacit.provider.training import Trainer

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tacit.provider.store import Batch

_MOST_REPORTS = 2000


async def _body(request: Request) -> bytes:
    return await request.body()


def routes(database: Database) -> APIRouter:
    """Return the route that takes reports."""
    router, plain = APIRouter(), PlainWriter(Statements(database.is_sqlite))

    @router.post("/v1/reports")
    def take_reports(
        request: Request, service: ServiceOf, device: DeviceOf, body: Annotated[bytes, Depends(_body)]
    ) -> dict[str, Any]:
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        batch = batch_of(body, media_type, device, service.policies())
        with database.writing() as connection:
            accepted, duplicates, rejected = plain.store(connection, batch)
        listed = [{"index": index, "code": code} for index, code in rejected]
        return {"accepted": accepted, "duplicates": duplicates, "rejected": listed}

    return router


@dataclass(frozen=True)
class PlainWriter:
    """Stores one batch in the transaction it is given."""

    statements: Statements

    def store(self, connection: Connection, batch: Batch) -> tuple[int, int, list[tuple[int, str]]]:
        """Return how many reports were stored, how many were there, and which were rejected."""
        wanted = select(items.c.id, items.c.key).where(items.c.id.in_({one.item for one in batch.said}))
        keys = dict(connection.execute(wanted).all())
        device = self._device(connection, batch.token_hash)
        count = connection.scalar(select(func.count()).select_from(reports).where(reports.c.device == device)) or 0
        rows: list[dict[str, int]] = []
        rejected: list[tuple[int, str]] = []
        for index, one in enumerate(batch.said):
            if one.item not in keys:
                rejected.append((index, UNKNOWN_ITEM))
            elif one.symbol >= batch.symbols:
                rejected.append((index, UNKNOWN_SYMBOL))
            elif count + len(rows) >= _MOST_REPORTS:
                rejected.append((index, TOO_MANY))
            else:
                row = (device, keys[one.item], one.revision, batch.policy, one.symbol)
                rows.append(dict(zip(reports.c.keys(), row, strict=True)))
        if not rows:
            return 0, 0, rejected
        adding = self.statements.insert(reports).on_conflict_do_nothing().returning(reports.c.device)
        stored = len(connection.execute(adding, rows).all())
        return stored, len(rows) - stored, rejected

    def _device(self, connection: Connection, token_hash: bytes) -> int:
        known = select(devices.c.key).where(devices.c.token_hash == token_hash)
        key = connection.scalar(known)
        if key is None:
            connection.execute(self.statements.add_devices, [{"token_hash": token_hash}])
            key = connection.scalar(known)
        return int(key or 0)


def pooled(database: Database) -> Database:
    """Give SQLite's writers a connection each, as SQLAlchemy does by default; SQLite makes them wait for each other."""
    engine = create_engine(database.url, connect_args={"timeout": 10, "check_same_thread": False})

    def connected(connection: Any, _: object) -> None:  # noqa: ANN401 - sqlite3's own
        connection.isolation_level = None
        for setting in _SQLITE_SETTINGS:
            connection.execute(setting)

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return Database(database.url, engine, database.reader)


def application(store: ReportStore, models: Path, *, one_writer: bool) -> Guard:
    """Make the application; nothing is trained in it."""
    writing = store.database if one_writer or not store.database.is_sqlite else pooled(store.database)
    settings = Settings(limits=RateLimits(per_device=0))
    trainer = Trainer(store, RunStore(store.database), models)
    app = FastAPI(docs_url=None, redoc_url=None)
    collector = Collector(GroupWriter(store.database, _MOST_REPORTS))  # counts what is refused; no report is sent there
    app.state.service = Service(store, collector, trainer, AdminToken.of("not-used-in-here"), settings)
    problems.install(app)
    for router in (routes(writing), policy.router, operation.router):
        app.include_router(router)
    return Guard(app, app.state.service)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True)
    parser.add_argument("--items", required=True)
    parser.add_argument("--one-writer", action="store_true", help="SQLite: one connection that all threads wait for")
    chosen = parser.parse_args()
    store = ReportStore.open(chosen.db)
    store.adopt(Policy.make("bounded-laplace", RatingScale.parse("1:5:1"), "1"))
    store.put_items(_items_of(chosen.items))
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    sys.stderr.write(f"listening on http://127.0.0.1:{listening.getsockname()[1]}\n")
    with tempfile.TemporaryDirectory() as models:
        app = application(store, Path(models), one_writer=chosen.one_writer)
        uvicorn.Server(config_of(app)).run(sockets=[listening])


if __name__ == "__main__":
    main()
