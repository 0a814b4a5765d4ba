"""The order of copies and work where blocks stream through a GPU: who waits for whom, with streams that keep count."""

from __future__ import annotations

import importlib.util
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if importlib.util.find_spec("torch") is None and not os.environ.get("TACIT_NO_SKIPS"):
    pytest.skip("PyTorch is not installed; install tacit[gpu]", allow_module_level=True)

import torch

from tacit.learning.gpu import reports
from tacit.learning.gpu.reports import Block, DeviceRows, copied_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator

PROCESSOR = torch.device("cpu")


class Stream:
    """A stream that knows what has happened for certain before its next step: its own steps, and what it waited for."""

    def __init__(self, *_: object) -> None:
        self.known: set[str] = set()

    def wait_stream(self, other: Stream) -> None:
        self.known |= other.known


class Streams:
    """The stream that works, the one that copies, and the one that PyTorch uses at the moment."""

    def __init__(self) -> None:
        self.working = self.current = Stream()
        self.working.known.add("before")
        self.made: list[Stream] = []

    def made_one(self, _: object) -> Stream:
        self.made.append(Stream())
        return self.made[-1]

    @contextmanager
    def used(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    found = Streams()
    monkeypatch.setattr(torch.cuda, "Stream", found.made_one)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: found.working)
    monkeypatch.setattr(torch.cuda, "stream", found.used)
    return found


def blocks(count: int) -> list[DeviceRows]:
    """Blocks of growing numbers of reports, all of whose numbers are their own."""
    found = []
    for number in range(count):
        counts = np.array([number + 1, 2])
        block = Block(2 * number, 2 * number + 2, counts)
        starts = torch.tensor([0, number + 1, number + 3])
        columns, values = (torch.full((number + 3,), number, dtype=kind) for kind in (torch.int32, torch.uint8))
        found.append(DeviceRows(block, starts, columns, values))
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_copies_wait_for_work_and_work_for_copies(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    last_use: dict[int, str] = {}  # of each buffer
    copy_into = reports._copy

    def copied(rows: DeviceRows, buffer: tuple[torch.Tensor, ...], stream: Any) -> DeviceRows:
        number, place = rows.block.first // 2, buffer[1].data_ptr()
        assert last_use.get(place, "before") in stream.known  # nobody reads it any more
        stream.known.add(f"copy {number}")
        last_use[place] = f"copy {number}"
        return copy_into(rows, buffer, stream)

    monkeypatch.setattr(reports, "_copy", copied)
    hosts, seen = blocks(count), []
    for number, rows in enumerate(copied_ahead(hosts, PROCESSOR)):
        assert f"copy {number}" in streams.working.known
        place = rows.columns.data_ptr()
        assert last_use[place] == f"copy {number}"  # not overwritten meanwhile
        for found, wanted in zip(reports._tensors(rows), reports._tensors(hosts[number]), strict=True):
            assert torch.equal(found, wanted)
        streams.working.known.add(f"work {number}")
        last_use[place] = f"work {number}"
        seen.append(number)
        ahead = {f"copy {later}" for later in range(number + 2, count)}
        assert not ahead & streams.made[0].known  # there are two buffers
    assert seen == list(range(count))
    assert len(last_use) == min(count, 2)
    assert streams.current is streams.working


def test_who_stops_early_waits_for_what_is_being_copied(streams: Streams) -> None:
    going = copied_ahead(blocks(3), PROCESSOR)
    next(going)
    copying = streams.made[0]
    copying.known.add("still copying")
    going.close()
    assert "still copying" in streams.working.known
