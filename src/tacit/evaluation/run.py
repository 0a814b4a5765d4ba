"""Running the tasks of a study on several cores: what was done before is not done again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tacit.errors import InvalidInputError, WorkerError
from tacit.evaluation.fold import FoldResult, run_fold
from tacit.learning.kernels import default_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tacit.evaluation.ratings import RatingData
    from tacit.evaluation.results import ResultStore
    from tacit.evaluation.source import DataSource
    from tacit.evaluation.task import Task

MOST_JOBS = 256

# Workers compute with the threads they are told to; more of BLAS's own would get in their way, and sums would
# depend on how many there are.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a study has come."""

    done: int
    total: int
    seconds_left: float
    """An estimate from the pace so far."""


def run_tasks(
    tasks: Sequence[Task],
    store: ResultStore,
    *,
    jobs: int,
    watch: Callable[[Progress], None] | None = None,
    weigh: Callable[[Task], float] = lambda _: 1.0,
) -> dict[Task, FoldResult]:
    """Return the result of every task: kept ones at once, others from so many processes side by side.

    Results do not depend on the number of processes. Each is kept as soon as it is there, so whatever ends a run
    early, the next one goes on from it. `weigh` says how long a task takes beside others, to tell the time left.
    """
    if not 1 <= jobs <= MOST_JOBS:
        raise InvalidInputError(f"{jobs} jobs are not 1 to {MOST_JOBS}; choose as many as there are cores")
    found = {task: store.find(task) for task in dict.fromkeys(tasks)}
    done = {task: result for task, result in found.items() if result is not None}
    missing = [task for task, result in found.items() if result is None]
    began, ahead, behind = time.perf_counter(), sum(map(weigh, missing)), 0.0
    for task, result in _computed(missing, jobs):
        store.keep(task, result)
        done[task] = result
        ahead, behind = ahead - weigh(task), behind + weigh(task)
        if watch is not None:
            watch(Progress(len(done), len(found), (time.perf_counter() - began) * ahead / behind))
    return done


def _computed(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, FoldResult]]:
    """Compute tasks in worker processes, and hand each result over when it is there."""
    if not tasks:
        return
    threads = max(1, default_threads() // jobs)
    with _pool(min(jobs, len(tasks))) as pool:
        try:
            with _interrupts_held():  # workers start here, and inherit it: none of them is interrupted while it loads
                futures: dict[Future[FoldResult], Task] = {pool.submit(_work, task, threads): task for task in tasks}
            for future in as_completed(futures):
                yield futures.pop(future), future.result()
        except BrokenProcessPool as error:
            raise WorkerError(
                "a worker process ended without an answer, perhaps for want of memory; what was computed is kept: "
                "run the same again, with fewer --jobs"
            ) from error


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)  # read when a worker loads NumPy
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_ignore_interrupts)
    finished = False
    try:
        yield pool
        finished = True
    finally:
        if not finished:  # nobody waits for what the workers are at
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextmanager
def _interrupts_held() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that hands out the work: a fit here would take it as a wish to stop early."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(task: Task, threads: int) -> FoldResult:
    data = _loaded(task.source)
    if data.sha256 != task.sha256:
        raise InvalidInputError(f"{task.source.place} changed while the study was running; run it again")
    return run_fold(data, task.setting, task.fold, threshold=task.threshold, threads=threads)


@lru_cache(maxsize=2)
def _loaded(source: DataSource) -> RatingData:
    return source.load()
