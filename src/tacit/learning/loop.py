"""The loop of every iterative fit: progress, stopping, interruption and checkpoints."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import FileError
from tacit.learning.trace import FitTrace, Iteration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from tacit.learning.checkpoint import Checkpoint
    from tacit.learning.engine import Factors
    from tacit.learning.mixture import NoiseMixture

    Watch = Callable[[Iteration], None]


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """Where a fit stands after an iteration."""

    factors: Factors
    mixture: NoiseMixture
    iterations: tuple[Iteration, ...] = ()
    notes: tuple[str, ...] = ()
    extra: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Arrays beside the factors that a step reads and changes in place."""


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """What one iteration leads to: the new mixture, how good the factors are, and by how much the users' changed."""

    mixture: NoiseMixture
    objective: float
    change: float
    likelihood: float | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False, slots=True)
class Conduct:
    """How a fit is run: who watches, and where it is kept."""

    watch: Watch | None = None
    checkpoint: Checkpoint | None = None


def iterate(  # noqa: PLR0913 - what to do, how, and three reasons to stop
    state: State, step: Callable[[State], Step], conduct: Conduct, *, iterations: int, tolerance: float, least: int = 0
) -> tuple[State, FitTrace]:
    """Repeat a step until the user factors stop changing (Algorithm 2), the limit, or an interrupt.

    Before `least` iterations, standing still is no reason to stop.
    """
    if conduct.checkpoint is not None:
        state = conduct.checkpoint.resumed(state)
        conduct.checkpoint.keep(state, now=True)  # a place that cannot be written to is better found before a long fit
    with _held_interrupts() as interrupted:
        stopped = _reason_to_stop(state, iterations, tolerance, least)
        while not stopped:
            state = _advance(state, step)
            stopped = _reason_to_stop(state, iterations, tolerance, least)
            try:
                if conduct.watch is not None:
                    conduct.watch(state.iterations[-1])
            except KeyboardInterrupt:
                interrupted.set()
            if interrupted.is_set():
                stopped = "interrupted"
            if conduct.checkpoint is not None:
                state = _kept(state, conduct.checkpoint, now=bool(stopped))
    return state, FitTrace(state.iterations, stopped, state.notes)


def _kept(state: State, checkpoint: Checkpoint, *, now: bool) -> State:
    """Keep the state; a disk that is full by now must not cost what was fitted."""
    try:
        checkpoint.keep(state, now=now)
    except FileError as error:
        return replace(state, notes=(*state.notes, f"not kept: {error}"))
    return state


def _advance(state: State, step: Callable[[State], Step]) -> State:
    began = time.perf_counter()
    done = step(state)
    this = Iteration(
        number=len(state.iterations) + 1,
        objective=done.objective,
        likelihood=done.likelihood,
        change=done.change,
        seconds=time.perf_counter() - began,
        weights=tuple(done.mixture.weights.tolist()) if done.likelihood is not None else (),
        variances=tuple(done.mixture.variances.tolist()) if done.likelihood is not None else (),
    )
    notes = tuple(f"iteration {this.number}: {note}" for note in done.notes)
    return State(state.factors, done.mixture, (*state.iterations, this), state.notes + notes, state.extra)


def _reason_to_stop(state: State, iterations: int, tolerance: float, least: int) -> str:
    if state.iterations and not np.isfinite(state.iterations[-1].objective):
        return "diverged"
    if state.iterations and state.iterations[-1].change < tolerance and len(state.iterations) >= least:
        return "converged"
    return "iterations" if len(state.iterations) >= iterations else ""


@contextmanager
def _held_interrupts() -> Iterator[threading.Event]:
    """Let the first interrupt wait for the end of the iteration, so that a whole one is kept; not the second."""
    interrupted = threading.Event()
    own = threading.current_thread() is threading.main_thread()
    if not own or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupted
        return

    def hold(*_: object) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, hold)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
