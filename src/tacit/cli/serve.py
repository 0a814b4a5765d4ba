"""`tacit serve`: collect reports, learn from them, and publish what was learned."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tacit.cli.options import note
from tacit.errors import InvalidInputError, MissingExtraError, TableError
from tacit.files import read_bytes
from tacit.privacy.policy import Policy
from tacit.tables import read_columns

if TYPE_CHECKING:
    from tacit.provider.store import Item

ADMIN_TOKEN = "TACIT_ADMIN_TOKEN"  # noqa: S105 - the name of a variable
_LONGEST_TOKEN = 400

db_option = click.option(
    "--db",
    "address",
    default="sqlite:///tacit.db",
    show_default=True,
    metavar="URL",
    help="The database: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME.",
)


@click.command()
@db_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@click.option("--policy", "policy_path", metavar="FILE", help="Make this the current policy. Old reports stay usable.")
@click.option("--items", "items_path", metavar="FILE", help="CSV or Parquet with the columns item and title, to add.")
@click.option("--models", metavar="FOLDER", help="Where models go. Default: beside the SQLite file, or tacit-models.")
@click.option("--retrain-every", metavar="TIME", help="Train when so much time has passed: 30m, 1h, 1d.")
@click.option("--admin-token-file", metavar="FILE", help=f"Holds the admin token. Default: {ADMIN_TOKEN}, or drawn.")
@click.option("--least-reports", type=click.IntRange(1), default=20, show_default=True, help="To publish an item.")
@click.option("--most-reports", type=click.IntRange(1), default=2000, show_default=True, help="Stored of one device.")
@click.option(
    "--rate-limit",
    type=click.IntRange(0),
    default=120,
    show_default=True,
    help="Requests a minute and device; 0: none.",
)
def serve(
    *,
    address: str,
    host: str,
    port: int,
    policy_path: str | None,
    items_path: str | None,
    models: str | None,
    retrain_every: str | None,
    admin_token_file: str | None,
    least_reports: int,
    most_reports: int,
    rate_limit: int,
) -> None:
    """Serve the whole way of a rating over HTTP.

    Devices fetch the policy and send reports; training runs in a process of its
    own; what was learned is published for devices to rank with. / has a page to
    rate on, /operator one for you, /api the interface. Ctrl-C ends it.

    \b
    Example:
      tacit serve --db sqlite:///tacit.db --items films.csv --retrain-every 1h
    """
    try:
        from tacit.provider.service import RateLimits, Settings  # noqa: PLC0415 - an optional extra
        from tacit.provider.service.server import ServeOptions  # noqa: PLC0415
        from tacit.provider.service.server import serve as run_service  # noqa: PLC0415
        from tacit.provider.training import TrainingSettings, parse_interval  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"tacit serve needs {error.name}; install tacit[serve]") from error
    options = ServeOptions(
        address=address,
        host=host,
        port=port,
        policy=None if policy_path is None else Policy.load(policy_path),
        items=[] if items_path is None else _items_of(items_path),
        models=None if models is None else Path(models),
        admin_token=_admin_token(admin_token_file),
        settings=Settings(
            most_reports_per_device=most_reports,
            least_reports=least_reports,
            limits=RateLimits(per_device=rate_limit),
        ),
        training=TrainingSettings(
            least_reports=least_reports,
            retrain_every=None if retrain_every is None else parse_interval(retrain_every),
        ),
    )
    run_service(options, note)


def _admin_token(path: str | None) -> str | None:
    if path is None:
        return os.environ.get(ADMIN_TOKEN)
    return read_bytes(path, limit=_LONGEST_TOKEN).decode(errors="replace").strip()


def _items_of(path: str) -> list[Item]:
    from tacit.provider.store import Item  # noqa: PLC0415 - an optional extra

    ids, titles = read_columns(path, ["item", "title"])
    listed = []
    for row, (item, title) in enumerate(zip(ids.ids().decoded().tolist(), titles.texts(), strict=True), 1):
        try:
            listed.append(Item(str(item), title))
        except InvalidInputError as error:
            raise TableError(f"{path} row {row}: {error}") from error
    return listed
