"""The shelf: the models of past runs on disk, and the one of them that is published."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tacit.errors import RunError, TacitError
from tacit.provider.store.runs import SUCCEEDED
from tacit.provider.training.published import PublishedModel
from tacit.provider.training.run_folder import RunFolder, run_folders

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.provider.store.runs import Run, RunStore

_log = logging.getLogger("tacit.provider.training")

_KEPT = 2


class ModelShelf:
    """Keeps the newest two models; what is published changes at once and for everybody."""

    def __init__(self, runs: RunStore, folder: Path) -> None:
        """Begin with nothing published."""
        self._runs, self._folder = runs, folder
        self._published: PublishedModel | None = None

    @property
    def published(self) -> PublishedModel | None:
        """The published model."""
        return self._published

    def restore(self) -> None:
        """Publish the newest model that can be read; damaged ones are passed over."""
        for run in self._runs.succeeded():
            if self._published is None:
                self._published = self._loaded(run)
                if self._published is not None:
                    self._runs.publish(run.id)
                    continue
            if run.published:
                self._runs.update(run.id, published=False)
        self.tidy()

    def publish(self, run: Run, changes: dict[str, Any]) -> None:
        """Publish the model of a run that just ended and note its end, or refuse one that cannot be read."""
        try:
            model = PublishedModel.load(self._model_of(run), replace(run, quality=changes.get("quality")))
        except (TacitError, OSError, MemoryError) as error:
            raise RunError(f"the model cannot be read: {str(error) or 'too little memory'}") from error
        self._published = model  # first: who reads that the run succeeded gets its model
        self._runs.publish(run.id, **changes, state=SUCCEEDED, error=None)
        self.tidy()

    def tidy(self) -> None:
        """Remove what ended runs worked with, and all models but the newest two and the published one."""
        unfinished = {run.id for run in self._runs.unfinished()}
        kept = {run.id for run in self._runs.succeeded()[:_KEPT]} | unfinished
        if self._published is not None:
            kept.add(self._published.run)
        for number, folder in run_folders(self._folder):
            if number not in unfinished:
                folder.clear_work()
            if number not in kept:
                folder.remove_model()

    def _loaded(self, run: Run) -> PublishedModel | None:
        path = self._model_of(run)
        try:
            return PublishedModel.load(path, run) if path.exists() else None
        except (TacitError, OSError, MemoryError) as error:
            _log.error("the model of training run %d is skipped: %s", run.id, error)
            return None

    def _model_of(self, run: Run) -> Path:
        return RunFolder.of(self._folder, run.id).model
