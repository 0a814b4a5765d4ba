"""What all requests share: the store, the collector, the trainer, limits and what is counted."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tacit.errors import StoreError
from tacit.provider.service.limits import RateLimits
from tacit.provider.service.metrics import Metrics
from tacit.provider.store.runs import RunStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tacit.privacy.policy import Policy
    from tacit.provider.service.collecting import Collector
    from tacit.provider.service.tokens import AdminToken
    from tacit.provider.store import ReportStore
    from tacit.provider.training import Trainer

    Answer = TypeVar("Answer")

# Policies that another process adopted are noticed after so many seconds.
_POLICIES_FRESH = 5.0

# Requests on these addresses are tallied when they are refused; the others are nobody's reports.
_REPORTS = "/v1/reports"


@dataclass(frozen=True)
class Settings:
    """What an operator can choose about the service."""

    most_reports_per_device: int = 2000
    least_reports: int = 20
    """Of an item, for its popularity to be shown before there is a model."""
    largest_body: int = 2**19
    body_seconds: float = 30.0
    limits: RateLimits = field(default_factory=RateLimits)


@dataclass
class Service:
    """The parts of a running service."""

    store: ReportStore
    collector: Collector
    trainer: Trainer
    admin: AdminToken
    settings: Settings = field(default_factory=Settings)
    metrics: Metrics = field(default_factory=Metrics)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _policies: dict[str, tuple[int, Policy]] = field(default_factory=dict)
    _policies_at: float = -_POLICIES_FRESH
    _kept: dict[str, tuple[float, Any]] = field(default_factory=dict)
    _turns: dict[str, threading.Lock] = field(default_factory=dict)

    @property
    def limits(self) -> RateLimits:
        """How often somebody may ask."""
        return self.settings.limits

    @property
    def runs(self) -> RunStore:
        """All training runs."""
        return RunStore(self.store.database)

    def policies(self) -> Mapping[str, tuple[int, Policy]]:
        """Return all policies in use by id, with their keys, the current one last."""
        with self._lock:
            if time.monotonic() - self._policies_at >= _POLICIES_FRESH:
                if self.store.count("policies") != len(self._policies):
                    self._policies = {policy.id: (key, policy) for key, policy in self.store.policies().items()}
                self._policies_at = time.monotonic()
            return self._policies

    async def known_policies(self) -> Mapping[str, tuple[int, Policy]]:
        """Return the same; if the database has to be asked, other requests do not wait for its answer."""
        if time.monotonic() - self._policies_at < _POLICIES_FRESH:
            return self._policies
        return await self.in_background(self.policies)

    @property
    def policy(self) -> Policy:
        """The current policy."""
        found = list(self.policies().values())
        if not found:
            raise StoreError("the store has no policy; start the service with --policy")
        return found[-1][1]

    def kept(self, name: str, seconds: float, make: Callable[[], Answer]) -> Answer:
        """Answer a costly question with what was found at most so many seconds ago."""
        with self._turns.setdefault(name, threading.Lock()):  # one looks, the others wait for what it finds
            found = self._kept.get(name)
            if found is None or time.monotonic() - found[0] >= seconds:
                found = (time.monotonic(), make())
                self._kept[name] = found
        answer: Answer = found[1]
        return answer

    @staticmethod
    async def in_background(work: Callable[[], Answer]) -> Answer:
        """Do what takes long without making other requests wait."""
        return await asyncio.to_thread(work)

    def note_problem(self, code: str, scope: Mapping[str, Any]) -> None:
        """Count a request that was refused; of reports also in the tallies that the operator sees."""
        self.metrics.problems.labels(code).inc()
        if scope.get("path") == _REPORTS and scope.get("method") == "POST":
            self.collector.note(code)
