"""How often somebody may ask: by token, never by address, and only in memory."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from tacit.provider.service.problems import Problem

_ANONYMOUS, _GUESS = "anonymous", "guess"


@dataclass(frozen=True)
class RateLimits:
    """Limits a minute: for each device, for all anonymous questions that cost time, for guesses of the admin token.

    0 switches a limit off.
    """

    per_device: int = 120
    anonymous: int = 1200
    guesses: int = 30
    _window: FixedWindowRateLimiter = field(default_factory=lambda: FixedWindowRateLimiter(MemoryStorage()), repr=False)

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
        item: RateLimitItem = RateLimitItemPerMinute(limit)
        if not self._window.hit(item, key):
            reset = self._window.get_window_stats(item, key).reset_time
            wait = min(60, max(1, math.ceil(reset - time.time())))
            raise Problem("too-many-requests", f"{limit} requests a minute are the limit; wait", retry_after=wait)
