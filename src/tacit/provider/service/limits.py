"""How often somebody may ask: by token, never by address, and only in memory."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tacit.provider.service.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

_ANONYMOUS, _GUESS = "anonymous", "guess"
_SECONDS = 60.0


@dataclass
class Window:
    """Counts within one minute after the other, by a clock that nobody sets; what is counted is gone after each."""

    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _counts: dict[str, int] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        """Begin the first minute."""
        self._began = self.clock()

    def hit(self, key: str) -> tuple[int, float]:
        """Count once more; return how often it was in this minute, and how many seconds of it are left."""
        with self._lock:
            now = self.clock()
            if now - self._began >= _SECONDS:
                self._began, self._counts = now, {}
            self._counts[key] = self._counts.get(key, 0) + 1
            return self._counts[key], self._began + _SECONDS - now


@dataclass(frozen=True)
class RateLimits:
    """Limits a minute: for each device, for all anonymous questions that cost time, for guesses of the admin token.

    0 switches a limit off.
    """

    per_device: int = 120
    anonymous: int = 3000
    guesses: int = 30
    _window: Window = field(default_factory=Window, repr=False)

    def check(self, device: str) -> None:
        """Count a request of a device, or refuse it."""
        self._count(self.per_device, device)

    def check_anonymous(self) -> None:
        """Count a question that nobody signs, or refuse it."""
        self._count(self.anonymous, _ANONYMOUS)

    def check_guess(self) -> None:
        """Count a wrong admin token; whoever sends too many is told to wait. The right one is never refused."""
        self._count(self.guesses, _GUESS)

    def _count(self, limit: int, key: str) -> None:
        if not limit:
            return
        count, left = self._window.hit(key)
        if count > limit:
            wait = math.ceil(left)
            raise Problem("too-many-requests", f"{limit} requests a minute are the limit; wait", retry_after=wait)
