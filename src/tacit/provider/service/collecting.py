"""Group commit: requests that wait at the same time are stored in one transaction and answered after it."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tacit.errors import BusyError, StoreError, TacitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tacit.provider.store import Batch, Outcome
    from tacit.provider.store.writing import GroupWriter

    Answered = TypeVar("Answered")

MOST_WAITING = 4096
_MOST_BATCHES = 256
_MOST_REPORTS = 20_000
_SECONDS_BETWEEN_TRIES = 2.0


@dataclass(frozen=True, eq=False, slots=True)
class _Waiting:
    batch: Batch
    answer: asyncio.Future[Outcome]


class Collector:
    """Takes batches from all requests and stores them in groups, one at a time, in a thread of its own.

    While a group is on its way to the disk the next one gathers: the busier the service, the larger the groups, and
    no request waits for more than two of them.
    """

    def __init__(self, writer: GroupWriter) -> None:
        """Take over a writer; from now on it is used by the collector's thread alone."""
        self._writer = writer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="collector")
        self._waiting: deque[_Waiting] = deque()
        self._arriving: dict[bytes, set[asyncio.Future[None]]] = {}
        self._noted: Counter[str] = Counter()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.groups = 0

    def start(self) -> None:
        """Begin to store what is submitted."""
        self._task = asyncio.create_task(self._run(), name="collector")

    async def stop(self) -> None:
        """Store what is waiting, then end."""
        await asyncio.gather(*(one.answer for one in self._waiting), return_exceptions=True)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._noted:
            await self._in_thread(lambda: self._writer.store([], self._taken_notes()))
        self._thread.shutdown()

    @property
    def waiting(self) -> int:
        """How many batches wait."""
        return len(self._waiting)

    def note(self, code: str) -> None:
        """Count a request that was refused as a whole; it is written down with the next group."""
        self._noted[code] += 1

    @contextmanager
    def arriving(self, token_hash: bytes) -> Iterator[None]:
        """Mark that a batch of a device is here, though it may not be submitted yet: a deletion has to wait for it."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        others = self._arriving.setdefault(token_hash, set())
        others.add(done)
        try:
            yield
        finally:
            done.set_result(None)
            others.discard(done)
            if not others:
                self._arriving.pop(token_hash, None)

    async def submit(self, batch: Batch) -> Outcome:
        """Store a batch; the outcome is there once it is committed."""
        if len(self._waiting) >= MOST_WAITING:
            raise BusyError(f"{MOST_WAITING} batches are waiting to be stored; send this one again a little later")
        entry = _Waiting(batch, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        self._news.set()
        return await entry.answer

    async def delete_device(self, token_hash: bytes) -> bool:
        """Delete a device between two groups, after what it sent before is stored: else that would outlive it."""
        waiting = [one.answer for one in self._waiting if one.batch.token_hash == token_hash]
        earlier: list[asyncio.Future[Any]] = [*waiting, *self._arriving.get(token_hash, ())]
        if earlier:
            await asyncio.wait(earlier)
        return await self._in_thread(lambda: self._writer.delete_device(token_hash))

    async def flush(self) -> None:
        """Write down what was noted, even if nobody sends reports."""
        if self._noted:
            await self._in_thread(lambda: self._writer.store([], self._taken_notes()))

    async def _run(self) -> None:
        while True:
            await self._news_or_time_to_tidy()
            group = self._next_group()
            if not self._waiting:
                self._news.clear()
            await self._store(group)

    async def _news_or_time_to_tidy(self) -> None:
        """Wait for batches; as long as a deletion is not complete on the disk, try again now and then."""
        while not self._news.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), _SECONDS_BETWEEN_TRIES)
            if not self._writer.is_tidy:
                with suppress(StoreError):  # it will be tried again
                    await self._in_thread(self._writer.tidy)

    async def _store(self, group: list[_Waiting]) -> None:
        notes = self._taken_notes()
        try:
            outcomes = await self._in_thread(lambda: self._writer.store([one.batch for one in group], notes))
        except Exception as error:  # noqa: BLE001 - whatever happened, every request must be answered
            self._noted += notes
            told = error if isinstance(error, TacitError) else StoreError(f"storing failed: {error!r}")
            for one in group:
                if not one.answer.done():
                    one.answer.set_exception(told)
            return
        self.groups += 1
        for one, outcome in zip(group, outcomes, strict=True):
            if not one.answer.done():  # who asked may be gone
                one.answer.set_result(outcome)

    def _next_group(self) -> list[_Waiting]:
        """Take what is waiting; a device's second batch is left for the next group, to be counted by itself."""
        group: list[_Waiting] = []
        later: list[_Waiting] = []
        devices: set[bytes] = set()
        reports = 0
        while self._waiting and len(group) < _MOST_BATCHES and reports < _MOST_REPORTS:
            one = self._waiting.popleft()
            if one.batch.token_hash in devices:
                later.append(one)
                continue
            devices.add(one.batch.token_hash)
            reports += len(one.batch.said)
            group.append(one)
        self._waiting.extendleft(reversed(later))
        return group

    def _taken_notes(self) -> Counter[str]:
        notes, self._noted = self._noted, Counter()
        return notes

    async def _in_thread(self, work: Callable[[], Answered]) -> Answered:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
