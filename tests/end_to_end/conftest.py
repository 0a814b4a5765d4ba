from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from playwright.sync_api import sync_playwright

from tacit.evaluation.web_demo import fill, train
from tacit.evaluation.world import WorldShape, make_world
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.provider.store import ReportStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

ADMIN = "an-admin-token-for-tests"
WORLD = WorldShape(200, 150, 6000)

# Chromium's own errands have no place in a test of what pages fetch.
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@dataclass(frozen=True)
class Provider:
    """A running `tacit serve`, and its database."""

    address: str
    database: str

    @property
    def store(self) -> ReportStore:
        return ReportStore.open(self.database)


@contextmanager
def served(database: str, models: Path) -> Iterator[Provider]:
    """Run the real command on a free port."""
    command = [str(Path(sys.executable).with_name("tacit")), "serve", "--port", "0", "--db", database]
    environment = {**os.environ, "TACIT_ADMIN_TOKEN": ADMIN}
    process = subprocess.Popen(
        [*command, "--models", str(models)], env=environment, stderr=subprocess.PIPE, text=True, cwd=models.parent
    )
    lines = process.stderr
    assert lines is not None
    said: list[str] = []
    while line := lines.readline():
        said.append(line)
        if "listening on" in line:
            break
    assert line, "".join(said)
    listener = threading.Thread(target=lambda: said.extend(lines))
    listener.start()
    try:
        yield Provider(line.split()[2], database)
    finally:
        process.terminate()
        process.wait(30)
        listener.join()
        lines.close()


@pytest.fixture(scope="session")
def trained() -> Iterator[Path]:
    """A folder with a database that 200 simulated devices reported to, and a model trained on it."""
    with tempfile.TemporaryDirectory(prefix="tacit-e2e-") as name:
        folder = Path(name)
        store = ReportStore.open(f"sqlite:///{folder / 'tacit.db'}")
        policy = Policy.make("bounded-laplace", RatingScale.parse("1:5:1"), "1")
        fill(store, make_world(policy.scale, shape=WORLD), policy)
        train(store, folder / "models", lambda _: None)
        store.close()
        yield folder


@pytest.fixture
def provider(trained: Path, tmp_path: Path) -> Iterator[Provider]:
    """A service of one's own on a copy of that."""
    for entry in trained.iterdir():
        (shutil.copytree if entry.is_dir() else shutil.copy2)(entry, tmp_path / entry.name)
    with served(f"sqlite:///{tmp_path / 'tacit.db'}", tmp_path / "models") as running:
        yield running


@pytest.fixture(scope="module")  # while it is there an event loop runs, and other tests want their own
def browser(absent: Callable[[str], NoReturn]) -> Iterator[Browser]:
    """A real Chromium."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        absent("Chromium is not installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=QUIET)
        yield opened
        opened.close()
