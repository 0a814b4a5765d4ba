"""`tacit db`: the service's database."""

from __future__ import annotations

import click

from tacit.cli.options import json_option, print_json
from tacit.cli.serve import db_option
from tacit.errors import MissingExtraError


@click.group()
def db() -> None:
    """Look after the database of tacit serve.

    \b
    Example:
      tacit db check --db sqlite:///tacit.db
    """


@db.command()
@db_option
@json_option
def check(*, address: str, as_json: bool) -> None:
    """Tell whether a database can be used, and how much is in it.

    \b
    Example:
      tacit db check --db sqlite:///tacit.db
    """
    try:
        from tacit.provider.store import ReportStore, migrate  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"tacit db needs {error.name}; install tacit[serve]") from error
    store = ReportStore.open(address)
    try:
        counts = {name: store.count(name) for name in ("reports", "devices", "items", "policies", "runs")}
        found = {"schema": migrate.newest(), **counts, "bytes": store.size()}
    finally:
        store.close()
    if as_json:
        print_json(found)
    else:
        click.echo(
            ", ".join(
                f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in found.items()
            )
        )


@db.command()
@db_option
def upgrade(*, address: str) -> None:
    """Bring a database to the schema of this tacit; back it up first.

    \b
    Example:
      tacit db upgrade --db sqlite:///tacit.db
    """
    try:
        from tacit.provider.store import migrate, open_database  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"tacit db needs {error.name}; install tacit[serve]") from error
    database = open_database(address)
    try:
        before = migrate.upgrade(database)
    finally:
        database.close()
    click.echo(f"schema {before or 'none'} -> {migrate.newest()}")
