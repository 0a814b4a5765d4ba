"""The trainer: starts training processes, follows them, and publishes what they made."""

from __future__ import annotations

import fcntl
import logging
import threading
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from tacit.errors import FileError, RunError, StoreError
from tacit.learning.kernels import default_threads
from tacit.provider.store.runs import FAILED, QUEUED, RUNNING, Run, RunRequest, RunStore
from tacit.provider.training.child import TrainingProcess
from tacit.provider.training.orders import Orders
from tacit.provider.training.progress import Progress
from tacit.provider.training.request_options import checked_options
from tacit.provider.training.run_folder import RunFolder, make_private
from tacit.provider.training.schedule import Schedule
from tacit.provider.training.settings import TrainingSettings
from tacit.provider.training.shelf import ModelShelf

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.provider.store import ReportStore
    from tacit.provider.training.published import PublishedModel

_log = logging.getLogger("tacit.provider.training")

_MOST_STARTS = 3
_SECONDS_BETWEEN_LOOKS = 1.0
_SECONDS_AFTER_TROUBLE = 5.0
_INFLUENCE = "influence"  # the name of the secret that decides which reports of a busy device are heard


class Trainer:
    """Carries out training runs one at a time, in a process each, and knows the published model.

    All methods may be called from any thread. Training processes only read from the database: what is noted about
    runs is noted here.
    """

    def __init__(
        self,
        store: ReportStore,
        run_store: RunStore,
        folder: Path,
        settings: TrainingSettings | None = None,
    ) -> None:
        """Prepare it; nothing happens before `start`.

        Args:
            store: Where the reports are.
            run_store: Where runs are noted.
            folder: Where runs have their folders; made if it is not there.
            settings: How to train.
        """
        self._store, self._runs, self._folder = store, run_store, folder
        self._settings = settings or TrainingSettings()
        self._shelf = ModelShelf(run_store, folder)
        self._schedule: Schedule | None = None
        self._process: TrainingProcess | None = None
        self._lock: IO[bytes] | None = None
        self._starting = threading.Lock()
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="tacit-trainer", daemon=True)

    @property
    def published(self) -> PublishedModel | None:
        """The model to answer from; None before there is one."""
        return self._shelf.published

    @property
    def process_id(self) -> int | None:
        """The number of the training process, if one is at work."""
        process = self._process
        return None if process is None else process.pid

    def start(self) -> None:
        """Publish the newest model that can be read, and take up what was cut off."""
        make_private(self._folder)
        self._lock = _locked(self._folder)
        try:
            self._shelf.restore()
            self._schedule = self._make_schedule()
            self._thread.start()
        except BaseException:
            self.stop()
            raise

    def request(self, request: RunRequest) -> Run:
        """Note a run to be carried out next, or refuse it: `ModelError` for options, `RunError` while another lasts."""
        checked_options(request)
        run = self._runs.create(request)
        self._woken.set()
        return run

    def log_of(self, run_id: int) -> str:
        """Return what a run said to people; nothing if it has not begun."""
        return RunFolder.of(self._folder, run_id).log_text()

    def stop(self) -> None:
        """Stop following runs; one that is under way is cut off, and taken up at the next start."""
        with self._starting:
            self._stopping.set()
            self._woken.set()
        process = self._process
        if process is not None:
            process.end()
        if self._thread.is_alive():
            self._thread.join()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _make_schedule(self) -> Schedule | None:
        every, done = self._settings.retrain_every, self._runs.succeeded()
        if every is None:
            return None
        return Schedule(every, self._store.changes, self._settings.first_run_at, done[0].changes if done else None)

    def _make_orders(self) -> Orders:
        settings = self._settings
        return Orders(
            database=self._store.database.url.render_as_string(hide_password=False),
            influence_key=self._store.secret(_INFLUENCE).hex(),
            most_heard=settings.most_heard,
            least_reports=settings.least_reports,
            threads=settings.threads or max(default_threads() - 1, 1),
            most_memory=settings.most_memory,
        )

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                self._step()
            except StoreError as error:
                _log.warning("training waits for the database: %s", error)
                self._stopping.wait(_SECONDS_AFTER_TROUBLE)
            except Exception as error:  # noqa: BLE001 - the thread must outlive whatever befalls one run
                _log.exception("training is held up: %s", error)
                self._stopping.wait(_SECONDS_AFTER_TROUBLE)

    def _step(self) -> None:
        """Carry out a run, or wait a moment for one."""
        self._woken.clear()
        waiting = self._runs.unfinished()
        if waiting:
            self._carry_out(waiting[0])
        elif self._schedule is not None and self._schedule.due(has_model=self.published is not None):
            with suppress(RunError):  # somebody else asked just now
                self.request(RunRequest())
        else:
            self._woken.wait(_SECONDS_BETWEEN_LOOKS)

    def _carry_out(self, run: Run) -> None:
        if run.starts >= _MOST_STARTS:
            self._fail(run, f"the service died {run.starts} times during this run; start another one")
            return
        if self._schedule is not None:
            self._schedule.began()
        folder = RunFolder.of(self._folder, run.id)
        try:
            folder.make(RunRequest(run.model, run.options, run.seed))
            process = self._started(run, folder)
        except OSError as error:
            self._fail(run, f"the training process cannot be started: {error}")
            return
        if process is not None:
            try:
                self._follow(run, process)
            finally:
                self._process = None

    def _started(self, run: Run, folder: RunFolder) -> TrainingProcess | None:
        orders = self._make_orders()
        with self._starting:
            if self._stopping.is_set():
                return None
            changes = self._store.changes() if run.changes is None else run.changes  # it may go on from its snapshot
            self._runs.update(run.id, state=RUNNING, starts=run.starts + 1, changes=changes)
            self._process = TrainingProcess(folder, orders)
        return self._process

    def _follow(self, run: Run, process: TrainingProcess) -> None:
        """Write down how far the run is, until it ends one way or another."""
        progress = Progress(run.seconds or 0.0)
        with process:
            for message in process.messages():
                progress.hear(message)
                self._note_progress(run, progress)
            wrong = process.ending()
        if progress.done and wrong is None:
            self._publish(run, progress)
        elif self._stopping.is_set():
            self._runs.update(run.id, state=QUEUED, starts=run.starts)
        else:
            self._fail(run, progress.error or wrong or "the training process ended without a model", progress)

    def _note_progress(self, run: Run, progress: Progress) -> None:
        changes = progress.changes_due()
        try:
            if changes:
                self._runs.update(run.id, **changes)
        except StoreError as error:  # the run goes on; its end will be written down
            _log.warning("the progress of training run %d is not noted: %s", run.id, error)

    def _publish(self, run: Run, progress: Progress) -> None:
        try:
            self._shelf.publish(run, progress.changes())
        except RunError as error:
            self._fail(run, str(error), progress)
        else:
            _log.info("training run %d succeeded; its model is published", run.id)

    def _fail(self, run: Run, error: str, progress: Progress | None = None) -> None:
        """Note that a run failed; the model that is published stays."""
        changes = {} if progress is None else progress.changes()
        self._runs.update(run.id, **changes | {"state": FAILED, "error": error, "quality": None})
        _log.error("training run %d failed: %s", run.id, error)
        with suppress(OSError):  # where the disk is full, or the folder gone, the database still tells
            RunFolder.of(self._folder, run.id).note(f"training run {run.id} failed: {error}")
        self._shelf.tidy()


def _locked(folder: Path) -> IO[bytes]:
    """Keep other services out of a folder for as long as the file is open."""
    try:
        file = (folder / "lock").open("ab")
    except OSError as error:
        raise FileError(f"cannot write into {folder}: {error.strerror}; choose another folder") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise RunError(f"another service trains in {folder}; stop it, or choose another folder") from error
    return file
