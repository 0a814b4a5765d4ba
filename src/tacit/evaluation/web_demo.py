"""The demonstration in the browser: a service that a thousand simulated devices have spoken to, and one more person."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import RunError
from tacit.evaluation.world import EMBEDDED, make_world
from tacit.privacy.policy import Policy
from tacit.provider.service.server import ServeOptions, listen, serve
from tacit.provider.store import Batch, Item, ReportStore
from tacit.provider.store.runs import RunRequest, RunStore
from tacit.provider.store.writing import GroupWriter, Said
from tacit.provider.training import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tacit.evaluation.world import World
    from tacit.privacy.scale import RatingScale

_HOST = "127.0.0.1"
_DEVICES_AT_ONCE = 100
_MOST_REPORTS = 10_000
_SECONDS_BETWEEN_LOOKS = 0.2


def run_web_demo(  # noqa: PLR0913 - the world, where it is kept, where it is served, and who is told
    scale: RatingScale,
    epsilon: str,
    folder: Path,
    *,
    seed: int,
    port: int,
    progress: Callable[[str], None],
    opened: Callable[[str], None],
) -> None:
    """Fill a store and train, unless an earlier demonstration did; then serve until interrupted."""
    listening = listen(_HOST, port)  # a port that is taken is better found before the work than after it
    policy = Policy.make("bounded-laplace", scale, epsilon)
    database = folder / f"web-{policy.id[:12]}-{seed}.db"
    address, models = f"sqlite:///{database}", database.with_suffix(".models")
    store = ReportStore.open(address)
    try:
        if store.count("reports") < EMBEDDED.ratings:  # none, or part of them if it was interrupted
            progress("inventing a world of people and films, and letting 1,000 devices report")
            fill(store, make_world(scale, seed=seed), policy)
        train(store, models, progress)
    finally:
        store.close()
    serve(ServeOptions(address, host=_HOST, policy=policy, models=models), progress, opened, listening)


def fill(store: ReportStore, world: World, policy: Policy) -> None:
    """Put a world's films and the reports of its people into a store; true ratings end here.

    A simulation: everything is drawn from the world's seed, so that to fill it again changes nothing.
    """
    key = store.adopt(policy)
    titles = world.titles()
    store.put_items([Item(str(number), titles[number]) for number in range(world.shape.items)])
    rng = np.random.default_rng([world.seed, 1])
    words = rng.integers(0, 2**64, len(world.users), dtype=np.uint64)
    symbols = policy.channel.draw(policy.scale.ranks_of(world.ratings), words)
    batches = [
        Batch(
            hashlib.sha256(rng.bytes(16).hex().encode()).digest(),
            key,
            policy.channel.weights.symbols,
            [Said(str(world.items[row]), int(symbols[row]), 0) for row in rows],
        )
        for rows in np.split(np.arange(len(symbols)), np.flatnonzero(np.diff(world.users)) + 1)
    ]
    writer = GroupWriter(store.database, _MOST_REPORTS)
    for first in range(0, len(batches), _DEVICES_AT_ONCE):
        writer.store(batches[first : first + _DEVICES_AT_ONCE])


def train(store: ReportStore, models: Path, progress: Callable[[str], None]) -> None:
    """Train once, in a process of its own as the service does, unless a model is there already."""
    runs = RunStore(store.database)
    trainer = Trainer(store, runs, models)
    trainer.start()
    try:
        if trainer.published is not None:
            return
        progress("training on their reports")
        run = (runs.unfinished() or [trainer.request(RunRequest())])[0]
        while not run.ended:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            run = runs.get(run.id) or run
        if run.error is not None:
            raise RunError(f"the demonstration's training failed: {run.error}; its log is in {models}")
    finally:
        trainer.stop()
