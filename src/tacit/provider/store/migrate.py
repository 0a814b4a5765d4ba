"""Bringing a database to the schema of this tacit, and checking that it is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from tacit.errors import SchemaError
from tacit.provider.store.database import shown

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tacit.provider.store.database import Database

_FOLDER = Path(__file__).parent / "migrations"


def newest() -> str:
    """Return the name of the schema that this tacit works with."""
    return str(ScriptDirectory(str(_FOLDER)).get_current_head())


def found(connection: Connection) -> str | None:
    """Return the name of a database's schema; None if it has no tables at all."""
    name = MigrationContext.configure(connection).get_current_revision()
    if name is None and inspect(connection).get_table_names():
        raise SchemaError("the database holds tables that are not tacit's; give one of its own")
    return name


def upgrade(database: Database) -> str:
    """Bring a database to the newest schema, step by step, all or nothing; return its name before, or ''."""
    with database.writing() as connection:
        if not database.is_sqlite:
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7461636974)")  # one at a time
        before = found(connection)
        _refuse_newer(before)
        config = Config()
        config.set_main_option("script_location", str(_FOLDER))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return before or ""


def check(database: Database) -> None:
    """Refuse a database whose schema is not this tacit's; an empty one is made ready."""
    with database.reading() as connection:
        name = found(connection)
    if name is None:
        upgrade(database)
    elif name != newest():
        _refuse_newer(name)
        raise SchemaError(
            f"{shown(database.url)} has the schema {name}, this tacit needs {newest()}; back it up, then run "
            "tacit db upgrade with the same --db"
        )


def _refuse_newer(name: str | None) -> None:
    known = {script.revision for script in ScriptDirectory(str(_FOLDER)).walk_revisions()}
    if name is not None and name not in known:
        raise SchemaError(f"the database has the schema {name}, which is newer than this tacit; update tacit")
