"""Progress: what a training process says, as changes to its run."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tacit.provider.store.runs import Trace
from tacit.provider.training.orders import DATA, DONE, FAILED, FIT, ITERATION

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS_BETWEEN = 1.0


@dataclass
class Progress:
    """Gathers what changed of a run, and tells when it is time to write it down: at most once a second."""

    earlier_seconds: float = 0.0
    """How long earlier attempts took."""
    clock: Callable[[], float] = time.monotonic
    done: bool = False
    error: str | None = None
    _trace: Trace = field(default_factory=Trace, init=False)
    _said: dict[str, Any] = field(default_factory=dict, init=False)
    _due: dict[str, Any] = field(default_factory=dict, init=False)
    _began: float = field(init=False)
    _written: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        """Begin now."""
        self._began = self.clock()

    def hear(self, message: dict[str, Any]) -> None:
        """Take in one message."""
        about = message.pop("about", None)
        if about == DATA:
            self._take(message)
        elif about == FIT:
            self._set_trace(Trace())
        elif about == ITERATION:
            self._set_trace(self._trace.with_iteration(**message))
        elif about == DONE:
            self._set_trace(Trace(message["objective"], message["likelihood"]))
            self._take({"quality": message["quality"], "memory": message["memory"]})
            self.done = True
        elif about == FAILED:
            self.error = message["error"]

    def changes_due(self) -> dict[str, Any]:
        """Return what was said since the last time; nothing, if that was a moment ago."""
        if not self._due or self.clock() - self._written < _SECONDS_BETWEEN:
            return {}
        self._written = self.clock()
        changes, self._due = self._due, {}
        return changes | {"seconds": self._seconds}

    def changes(self) -> dict[str, Any]:
        """Return all that was said, written down or not, and how long it took up to now."""
        return self._said | {"seconds": self._seconds}

    @property
    def _seconds(self) -> float:
        return round(self.earlier_seconds + self.clock() - self._began, 3)

    def _set_trace(self, trace: Trace) -> None:
        self._trace = trace
        self._take({"trace": trace, "iterations": len(trace.objective)})

    def _take(self, changes: dict[str, Any]) -> None:
        self._said |= changes
        self._due |= changes
