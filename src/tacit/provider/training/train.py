"""Training: from the reports in the store to a model in the run's folder."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ModelError, RunError, TacitError
from tacit.learning import ReportMatrix, fit
from tacit.provider.store import ReportStore, open_database
from tacit.provider.training.influence import InfluenceLimits, bounded
from tacit.provider.training.memory import check_memory, peak_memory
from tacit.provider.training.orders import DATA, DONE, FIT, ITERATION
from tacit.provider.training.quality import hold_out, quality
from tacit.provider.training.request_options import checked_options
from tacit.provider.training.snapshot import read_snapshot, write_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tacit.learning import Iteration, Model, Options
    from tacit.learning.reports import Part
    from tacit.provider.training.orders import Orders
    from tacit.provider.training.run_folder import RunFolder

    Say = Callable[..., None]

_LEAST_TO_MEASURE = 100  # reports: of fewer, a tenth says nothing


def train(folder: RunFolder, orders: Orders, say: Say) -> None:
    """Do a whole run, or the rest of one that was cut off: the result is the same."""
    request = folder.read_request()
    options = checked_options(request)
    parts = _snapshot(folder, orders)
    matrix = ReportMatrix.of_parts(parts)
    _check_public(matrix, orders.least_reports)
    memory = check_memory(matrix, options, orders.most_memory)
    devices, items = matrix.shape
    say(DATA, reports=matrix.reports, devices=devices, items=items, of_iterations=_limit_of(options), memory=memory)
    note(f"{matrix.reports} reports of {devices} devices on {items} items; fitting takes about {memory / 1e6:.0f} MB")
    training = _Training(folder.checkpoint, options, int(request.seed or 0), orders.threads, say)
    measured = training.measured(parts)
    model = training.fitted(matrix, "all")
    shutil.rmtree(folder.model, ignore_errors=True)  # of an attempt that was cut off after it
    model.save(folder.model, least_reports=orders.least_reports)
    trace, peak = model.trace.to_document(), peak_memory()
    note(f"the whole run took {peak / 1e6:.0f} MB of memory at its peak")
    say(DONE, quality=measured, objective=trace["objective"], likelihood=trace["likelihood"], memory=peak)


def note(line: str) -> None:
    """Say something to people: standard error is the run's log."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@dataclass(frozen=True, slots=True)
class _Training:
    """How the fits of a run are done."""

    checkpoint: Path
    options: Options
    seed: int
    threads: int
    say: Say

    def measured(self, parts: list[Part]) -> dict[str, Any] | None:
        """Measure the quality of a model that is fitted without some of the reports, on those."""
        reports = sum(len(users) for users, *_ in parts)
        if reports < _LEAST_TO_MEASURE:
            note(f"quality is not measured: {reports} reports are fewer than {_LEAST_TO_MEASURE}")
            return None
        try:
            known, held = hold_out(parts, rng=np.random.default_rng([self.seed, 1]))
            found = quality(self.fitted(ReportMatrix.of_parts(known), "measured"), held).to_document()
        except TacitError as error:
            note(f"quality is not measured: {error}")
            return None
        note(f"error on {found['held_out']} held-out reports: {found['rmse']:.4f}")
        return found if np.isfinite(list(found.values())).all() else None

    def fitted(self, matrix: ReportMatrix, name: str) -> Model:
        """Fit a model, from where it was cut off if it was."""
        self.say(FIT)
        note(f"fitting {self.options.model} to {matrix.reports} reports, seed {self.seed}")
        rng = np.random.default_rng(self.seed)
        place = self.checkpoint / name
        model = fit(
            matrix, self.options, rng, seed=self.seed, threads=self.threads, watch=self._watch, checkpoint=place
        )
        for line in model.trace.notes:
            note(line)
        note(f"{len(model.trace.iterations)} iterations ({model.trace.stopped}), objective {model.trace.objective:.6g}")
        if model.trace.stopped == "diverged":
            raise ModelError(f"{self.options.model}: the objective grew beyond all bounds; choose other options")
        return model

    def _watch(self, done: Iteration) -> None:
        self.say(ITERATION, number=done.number, objective=done.objective, likelihood=done.likelihood)


def _snapshot(folder: RunFolder, orders: Orders) -> list[Part]:
    """Return the reports to train on: always as read from disk, so that going on is no different from going through."""
    store = ReportStore(open_database(orders.database))
    try:
        if not folder.snapshot.exists():
            write_snapshot(folder.snapshot, _heard(store, orders))
        return read_snapshot(folder.snapshot, store.policies().values())
    finally:
        store.close()


def _heard(store: ReportStore, orders: Orders) -> list[Part]:
    parts = store.latest_reports()
    if not parts:
        raise RunError("there are no reports to learn from; wait until devices have sent some")
    heard = bounded(parts, InfluenceLimits(bytes.fromhex(orders.influence_key), orders.most_heard))
    if heard.left_out.reports:
        counts = ", ".join(
            f"{name.replace('_', ' ')} {count}" for name, count in heard.left_out.to_document().items() if count
        )
        note(f"left out, so that nobody has too much influence: {counts}")
    if not heard.parts:
        raise RunError("no report is left to learn from: all were implausible; check the devices and the policy")
    return heard.parts


def _limit_of(options: Options) -> int:
    """Return how many iterations there are at most."""
    return int(getattr(options, "iterations", getattr(options, "epochs", 1)))


def _check_public(matrix: ReportMatrix, least: int) -> None:
    """Refuse to learn what could not be published: who rated an item with few reports can be told."""
    most = int(matrix.by_item.counts().max())
    if most < least:
        raise RunError(f"no item has {least} reports yet, the most is {most}; wait for more, or lower --least-reports")
