"""The database behind an address: SQLite in a file, or PostgreSQL."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from tacit.errors import MissingExtraError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

_EXAMPLES = "write sqlite:///tacit.db or postgresql://user:password@host/name"
_OLDEST_POSTGRES = 15
_WAIT_SECONDS = 10
_READERS = 8
_SECRET = re.compile("pass|secret|token|key", re.IGNORECASE)
_NAMES_OF_FILES = ("passfile", "sslkey")

_PATIENCE = f"PRAGMA busy_timeout = {_WAIT_SECONDS * 1000}"
_SQLITE_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    # FULL: an answered report is on the disk even if the power fails next.
    "PRAGMA synchronous = FULL",
    # Deleted rows are overwritten, so that what a person deleted cannot be read off the file.
    "PRAGMA secure_delete = ON",
    _PATIENCE,
)


@dataclass(frozen=True)
class Database:
    """Two ways into one database: SQLite has one writer, and its readers must not begin as if they were."""

    url: URL
    writer: Engine
    reader: Engine

    @property
    def is_sqlite(self) -> bool:
        """Whether it is SQLite."""
        return self.writer.dialect.name == "sqlite"

    @property
    def file(self) -> Path | None:
        """The file of an SQLite database."""
        return Path(str(self.url.database)) if self.is_sqlite else None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Offer a transaction that writes; it is committed at the end, or what the database says is a `StoreError`."""
        with _told(self.url), self.writer.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Offer a transaction to read in: on SQLite one state of the database, on PostgreSQL one for each statement."""
        with _told(self.url), self.reader.begin() as connection:
            yield connection

    def log_emptied(self) -> bool:
        """Move SQLite's log into its file and empty it, unless somebody reads; tell whether that was done."""
        with _told(self.url), self.writer.connect() as connection:
            own: Any = connection.connection.driver_connection
            own.execute("PRAGMA busy_timeout = 0")  # the only writer must not wait for a long read
            try:
                busy, *_ = own.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                own.execute(_PATIENCE)
        return not busy

    def close(self) -> None:
        """Give all connections back."""
        self.writer.dispose()
        self.reader.dispose()


def open_database(address: str) -> Database:
    """Open the database at an address; nothing is made or changed but an empty file."""
    url = _checked(address)
    if url.get_backend_name() == "sqlite":
        writer, reader = _sqlite(url, "BEGIN IMMEDIATE", 1), _sqlite(url, "BEGIN", _READERS)
    else:
        writer = reader = _postgres(url)
    database = Database(url, writer, reader)
    try:
        _check_version(database)
    except BaseException:
        database.close()
        raise
    return database


def shown(url: URL) -> str:
    """Write an address without its password, wherever in it that is."""
    hidden = {name: "***" for name in url.query if _is_secret(name)}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def has_password(address: str) -> bool:
    """Tell whether there is a password in an address, wherever in it that may be."""
    try:
        url = make_url(address)
    except (ArgumentError, SQLAlchemyError, ValueError):  # whatever it is, it may have one
        return True
    return url.password is not None or any(map(_is_secret, url.query))


def _is_secret(name: str) -> bool:
    """Tell whether a setting in an address is a password or the like; the name of a file with one may be told."""
    return name not in _NAMES_OF_FILES and bool(_SECRET.search(name))


def absolute_address(address: str) -> str:
    """Return the same place for others, whose own folder may be another."""
    url = _checked(address)
    if url.get_backend_name() != "sqlite" or url.database is None:
        return address
    return url.set(database=str(Path(url.database).absolute())).render_as_string(hide_password=False)


def _checked(address: str) -> URL:
    try:
        url = make_url(address)
        backend = url.get_backend_name()
    except (ArgumentError, SQLAlchemyError, ValueError) as error:
        kind = address.partition(":")[0][:20]  # what follows may have a password in it
        raise StoreError(f"what begins with {kind!r} is no address of a database; {_EXAMPLES}") from error
    if backend == "sqlite":
        if url.query or not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise StoreError(f"{shown(url)} is not a plain file; {_EXAMPLES}")
        folder = Path(url.database).resolve().parent
        if not folder.is_dir():
            raise StoreError(f"there is no folder {folder} for the database; make it first")
        _make_private(Path(url.database))
        return url.set(drivername="sqlite+pysqlite")
    if backend == "postgresql":
        if "@" in (url.host or ""):
            raise StoreError(f"the address of the database has more than one @; write %40 in a password; {_EXAMPLES}")
        return url.set(drivername="postgresql+psycopg")
    raise StoreError(f"{backend} is not a database that tacit knows; {_EXAMPLES}")


def _make_private(file: Path) -> None:
    """Make a new file that only its owner can read; SQLite gives its log the same rights."""
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot make {str(file)!r}: {error}; choose another place for the database") from error


def _sqlite(url: URL, begin: str, connections: int) -> Engine:
    arguments = {"timeout": _WAIT_SECONDS, "check_same_thread": False}
    engine = create_engine(
        url, connect_args=arguments, pool_size=connections, max_overflow=0, pool_timeout=30, hide_parameters=True
    )

    def connected(connection: Any, _: object) -> None:  # noqa: ANN401 - sqlite3's own
        connection.isolation_level = None  # transactions begin below, not where the driver guesses
        for setting in _SQLITE_SETTINGS:
            connection.execute(setting)

    def began(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", began)
    return engine


def _postgres(url: URL) -> Engine:
    try:
        return create_engine(
            url,
            pool_size=_READERS,
            max_overflow=4,
            pool_pre_ping=True,  # a connection that was lost is replaced before it is used
            pool_timeout=30,
            hide_parameters=True,  # what is stored is in no message, and so in no log
            connect_args={
                "connect_timeout": _WAIT_SECONDS,
                "keepalives_idle": _WAIT_SECONDS,  # what is between may forget a connection that says nothing
                "options": "-c timezone=utc -c statement_timeout=300000",
            },
        )
    except ImportError as error:
        raise MissingExtraError("PostgreSQL needs the postgres extra; install tacit[postgres]") from error


def _check_version(database: Database) -> None:
    with database.reading() as connection:
        version = connection.dialect.server_version_info or (0,)
    if not database.is_sqlite and int(version[0]) < _OLDEST_POSTGRES:
        found = ".".join(map(str, version))
        raise StoreError(f"PostgreSQL {found} is too old; tacit needs {_OLDEST_POSTGRES} or newer")


@contextmanager
def _told(url: URL) -> Iterator[None]:
    """Say what the database says in one line, without the statement and what it held."""
    try:
        yield
    except DBAPIError as error:
        said = str(error.orig).strip().splitlines() or ["no reason given"]
        raise StoreError(f"{shown(url)}: {said[0][:200]}; check the database, its disk and its address") from error
    except SQLAlchemyError as error:
        raise StoreError(f"{shown(url)}: {str(error).splitlines()[0][:200]}; try again") from error
