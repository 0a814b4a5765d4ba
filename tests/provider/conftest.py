from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from sqlalchemy import create_engine, text

from tacit.provider.store import Item, ReportStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tacit.privacy.policy import Policy


def postgres_programs() -> Path | None:
    """Find the folder of PostgreSQL's server programs, newest first; Debian keeps them off the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextmanager
def postgres_server(programs: Path) -> Iterator[str]:
    """Run a server of our own in a new folder, reached through a socket there; offer the folder."""
    folder = Path(tempfile.mkdtemp(prefix="tacit-pg-"))
    as_owner: list[str] = []
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, "postgres")
        as_owner = ["runuser", "-u", "postgres", "--"]

    def call(program: str, *arguments: str) -> None:
        command = [*as_owner, str(programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, timeout=120)

    data = str(folder / "data")
    try:
        call("initdb", "-D", data, "-A", "trust", "-U", "tacit", "--no-sync", "-E", "UTF8", "--locale=C")
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c max_connections=60"
        call("pg_ctl", "-D", data, "-w", "-o", options, "-l", str(folder / "log"), "start")
        try:
            yield str(folder)
        finally:
            call("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(absent: Callable[[str], NoReturn]) -> Iterator[str]:
    """A PostgreSQL server: the folder of its socket."""
    programs = postgres_programs()
    if programs is None:
        absent("PostgreSQL's server programs are not installed")
    with postgres_server(programs) as folder:
        yield folder


@pytest.fixture
def postgres_address(postgres: str) -> Iterator[str]:
    """A new, empty database on a real PostgreSQL server."""
    name = f"t{secrets.token_hex(6)}"
    admin = create_engine(f"postgresql+psycopg://tacit@/postgres?host={postgres}", isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield f"postgresql://tacit@/{name}?host={postgres}"
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


@pytest.fixture
def sqlite_address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'tacit.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest) -> str:
    """A new, empty database, on each kind of server."""
    return str(request.getfixturevalue(f"{request.param}_address"))


@pytest.fixture
def store(address: str, policy: Policy) -> Iterator[ReportStore]:
    """A store with a policy and a hundred items."""
    opened = ReportStore.open(address)
    opened.adopt(policy)
    opened.put_items([Item(str(number), f"Title {number}") for number in range(100)])
    yield opened
    opened.close()
