from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pytest
import uvicorn
from sqlalchemy import create_engine, text
from starlette.testclient import TestClient

from tacit.evaluation.world import WorldShape, make_world
from tacit.learning import ChannelMfOptions, ReportMatrix, fit
from tacit.provider.service import AdminToken, create_app
from tacit.provider.service.server import config_of
from tacit.provider.store import Item, ReportStore
from tacit.provider.store.runs import SUCCEEDED, RunRequest, RunStore
from tacit.provider.training import Trainer
from tacit.provider.training.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tacit.privacy.policy import Policy
    from tacit.provider.service import Settings

ADMIN = "an-operator-of-tests"
LEAST_REPORTS = 20


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


@pytest.fixture(scope="session")
def admin() -> dict[str, str]:
    """What the operator sends along."""
    return {"Authorization": f"Bearer {ADMIN}"}


@pytest.fixture(scope="session")
def device() -> Callable[[int], dict[str, str]]:
    """What a device, given by a number, sends along."""
    return lambda number: {"Authorization": f"Bearer {number:032x}"}


@pytest.fixture
def serving(tmp_path: Path) -> Callable[..., TestClient]:
    """How to serve a store in this process; what is asked inside `with` is answered as on the network."""

    def serve(store: ReportStore, settings: Settings | None = None, trainer: Trainer | None = None) -> TestClient:
        own = trainer or Trainer(store, RunStore(store.database), tmp_path / "models")
        return TestClient(create_app(store, own, AdminToken.of(ADMIN), settings), raise_server_exceptions=False)

    return serve


@pytest.fixture(scope="session")
def on_loopback() -> Callable[..., AbstractContextManager[int]]:
    """How to serve a store as `tacit serve` does, at a port of this machine."""

    @contextmanager
    def serve(store: ReportStore, trainer: Trainer, settings: Settings | None = None) -> Iterator[int]:
        server = uvicorn.Server(config_of(create_app(store, trainer, AdminToken.of(ADMIN), settings)))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()
            try:
                yield listening.getsockname()[1]  # who connects early waits for the answer
            finally:
                while not server.started and thread.is_alive():
                    time.sleep(0.01)
                server.should_exit = True
                thread.join()

    return serve


@pytest.fixture
def client(store: ReportStore, serving: Callable[..., TestClient]) -> Iterator[TestClient]:
    """A service over a store, as it is when nothing was trained yet."""
    with serving(store) as asking:
        yield asking


@pytest.fixture(scope="session")
def small_model(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that was learned from the reports of a small world, half of its items public."""
    world = make_world(policy.scale, shape=WorldShape(120, 80, 2400), seed=3)
    ranks, words = policy.scale.ranks_of(world.ratings), np.random.default_rng(4).integers(0, 2**64, 2400, np.uint64)
    symbols = policy.channel.weights.draw(ranks, words)
    parts = [(world.users, np.array([str(item) for item in world.items.tolist()], dtype=object), symbols, policy)]
    options = ChannelMfOptions(iterations=4, dimensions=4)
    model = fit(ReportMatrix.of_parts(parts), options, np.random.default_rng(5), seed=5, threads=1)
    folder = tmp_path_factory.mktemp("small") / "model"
    model.save(folder, least_reports=LEAST_REPORTS)
    return folder


@pytest.fixture
def trained(store: ReportStore, small_model: Path, tmp_path: Path) -> Trainer:
    """A trainer that has published a model, as after a run."""
    runs = RunStore(store.database)
    run = runs.create(RunRequest(seed=5))
    runs.update(run.id, state=SUCCEEDED)
    shutil.copytree(small_model, RunFolder.of(tmp_path / "models", run.id).model)
    trainer = Trainer(store, runs, tmp_path / "models")
    trainer._shelf.restore()  # what a start does first; nothing is trained here
    return trainer
