"""Group commit as requests see it."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

import pytest

from tacit.errors import BusyError, StoreError
from tacit.provider.service import collecting
from tacit.provider.service.collecting import Collector
from tacit.provider.store import Batch, Outcome, ReportStore
from tacit.provider.store.writing import GroupWriter, Said

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Awaitable, Callable, Sequence


class CountingWriter(GroupWriter):
    """A real writer that remembers how large its groups were."""

    sizes: list[int]

    def store(self, batches: Sequence[Batch], noted: Counter[str] | None = None) -> list[Outcome]:
        self.sizes = [*getattr(self, "sizes", []), len(batches)]
        return super().store(batches, noted)


def batch(device: int, *items: str) -> Batch:
    said = [Said(item, 1, 0) for item in items]
    return Batch(hashlib.sha256(str(device).encode()).digest(), 1, 64, said)


def collected(store: ReportStore, work: Callable[[Collector, CountingWriter], Awaitable[None]]) -> None:
    async def run() -> None:
        writer = CountingWriter(store.database, most_reports=1000)
        collector = Collector(writer)
        collector.start()
        try:
            await work(collector, writer)
        finally:
            await collector.stop()

    asyncio.run(run())


def test_what_waits_at_the_same_time_is_one_transaction(store: ReportStore) -> None:
    async def work(collector: Collector, writer: CountingWriter) -> None:
        outcomes = await asyncio.gather(*(collector.submit(batch(device, "1", "2")) for device in range(50)))
        assert outcomes == [Outcome(2, 0)] * 50
        assert sum(writer.sizes) == 50
        assert len(writer.sizes) <= 3

    collected(store, work)
    assert store.count("reports") == 100


def test_two_batches_of_a_device_are_counted_one_after_the_other(store: ReportStore) -> None:
    async def work(collector: Collector, _: CountingWriter) -> None:
        one, other = await asyncio.gather(collector.submit(batch(1, "1", "2")), collector.submit(batch(1, "2", "3")))
        assert (one, other) == (Outcome(2, 0), Outcome(1, 1))

    collected(store, work)


def test_a_deletion_waits_for_what_arrived_before_it(store: ReportStore) -> None:
    async def work(collector: Collector, _: CountingWriter) -> None:
        said = batch(1, "1")
        with collector.arriving(said.token_hash):
            deleting = asyncio.create_task(collector.delete_device(said.token_hash))
            await asyncio.sleep(0.1)
            assert not deleting.done()
            await collector.submit(said)
        assert await deleting
        assert not collector._arriving

    collected(store, work)
    assert store.count("reports") == store.count("devices") == 0


def test_too_much_waiting_is_refused_and_the_rest_is_stored(
    store: ReportStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "MOST_WAITING", 5)

    async def work(collector: Collector, _: CountingWriter) -> None:
        waiting = [asyncio.create_task(collector.submit(batch(device, "1"))) for device in range(9)]
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in found] == [Outcome] * 5 + [BusyError] * 4

    collected(store, work)
    assert store.count("reports") == 5


def test_a_group_that_fails_is_told_to_all_and_the_next_one_is_stored(
    store: ReportStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(collector: Collector, writer: CountingWriter) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(CountingWriter, "store", lambda *_: (_ for _ in ()).throw(RuntimeError("odd")))
            found = await asyncio.gather(
                *(collector.submit(batch(device, "1")) for device in range(3)), return_exceptions=True
            )
            assert all(isinstance(one, StoreError) for one in found)
        assert await collector.submit(batch(1, "1")) == Outcome(1, 0)
        assert writer.sizes

    collected(store, work)


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)  # PostgreSQL has no such log
def test_a_log_that_could_not_be_emptied_is_tried_again(store: ReportStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "_SECONDS_BETWEEN_TRIES", 0.05)

    async def work(collector: Collector, writer: CountingWriter) -> None:
        said = batch(1, "1")
        await collector.submit(said)
        with store.database.reading() as connection:
            connection.exec_driver_sql("SELECT * FROM devices").all()
            assert await collector.delete_device(said.token_hash)
            assert not writer.is_tidy
        for _ in range(100):
            await asyncio.sleep(0.05)
            if writer.is_tidy:
                return
        pytest.fail("the log was not emptied")

    collected(store, work)


def test_what_waits_at_the_end_is_stored(store: ReportStore) -> None:
    async def run() -> list[Outcome]:
        collector = Collector(GroupWriter(store.database, most_reports=1000))
        collector.start()
        waiting = [asyncio.create_task(collector.submit(batch(device, "1"))) for device in range(20)]
        await asyncio.sleep(0)
        await collector.stop()
        return await asyncio.gather(*waiting)

    assert asyncio.run(run()) == [Outcome(1, 0)] * 20
    assert store.count("reports") == 20
