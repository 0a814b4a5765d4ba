"""The schedule: when to train again without being asked."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tacit.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MOST_SECONDS = 366 * 86400


def parse_interval(text: str) -> int:
    """Read a length of time, a number with its unit, as seconds.

    >>> parse_interval("90s"), parse_interval("1h")
    (90, 3600)
    """
    found = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", text, re.ASCII)
    seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
    if not 0 < seconds <= _MOST_SECONDS:
        raise InvalidInputError(f"{text[:40]!r} is not an interval of up to 366d; write, say, 90s, 30m, 1h or 1d")
    return seconds


@dataclass
class Schedule:
    """Trains so long after the last run began, if anything was stored or deleted since.

    Without a model the first run is due as soon as there are enough reports. By a monotonic clock: one that is set
    changes nothing.
    """

    seconds: float
    count: Callable[[], int]
    """How many changes there were, reports stored and devices deleted."""
    first_at: int = 100
    counted: int | None = None
    """How many there were when the last run began."""
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin now."""
        self._began = self.clock()

    def began(self) -> None:
        """Note that a run begins."""
        self._began, self.counted = self.clock(), self.count()

    def due(self, *, has_model: bool) -> bool:
        """Tell whether to train now."""
        if self.counted is None and not has_model and self.count() >= self.first_at:
            return True
        if self.clock() - self._began < self.seconds:
            return False
        if self.count() not in {0, self.counted}:
            return True
        self._began = self.clock()
        return False
