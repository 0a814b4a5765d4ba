"""Reports on a device, in both orders: all of them there, or streamed through it block by block."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tacit.learning.gpu.batches import Batch, Cost, Run, batches, runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from torch import Tensor

    from tacit.learning.matrix import ReportMatrix, Rows

_TYPES: dict[type, torch.dtype] = {
    np.int64: torch.int64,
    np.int32: torch.int32,
    np.float32: torch.float32,
    np.uint8: torch.uint8,
    np.uint16: torch.int32,  # PyTorch can do next to nothing with short codes
}
_ROWS_PER_REPORT = 8  # a block of so many reports has at most that share of it in rows


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Block:
    """Rows from `first` up to, not including, `last` of one side; `counts` are their numbers of reports, kept here."""

    first: int
    last: int
    counts: NDArray[np.int64]
    _runs: dict[int, tuple[Run, ...]] = field(default_factory=dict)

    @property
    def reports(self) -> int:
        """How many reports it has."""
        return int(self.counts.sum())

    def runs(self, least: int) -> tuple[Run, ...]:
        """Return runs of rows with at least so many reports, found once."""
        if least not in self._runs:
            self._runs[least] = runs(self.counts, least)
        return self._runs[least]


@dataclass(frozen=True, eq=False, slots=True)
class DeviceRows:
    """A block of rows on the device: row r has `columns[starts[r]:starts[r + 1]]` and the values there.

    Values are codes (uint8, or int32 where there are more than 256), or plain numbers (float32) to be read less
    `centre`.
    """

    block: Block
    starts: Tensor
    columns: Tensor
    values: Tensor
    centre: float = 0.0

    def __len__(self) -> int:
        return self.block.last - self.block.first

    def batches(self, least: int, cost: Cost) -> Iterator[Batch]:
        """Cut the rows with at least so many reports into batches."""
        return batches(self.block.runs(least), cost)


def cut(starts: NDArray[np.int64], most: int) -> list[tuple[int, int]]:
    """Cut rows into blocks of at most so many reports, but at least one row each.

    Where the cuts are depends on the rows and `most` alone, so that streamed reports give the very sums of resident
    ones.
    """
    bounds, rows = [0], len(starts) - 1
    while bounds[-1] < rows:
        first = bounds[-1]
        fitting = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
        bounds.append(min(max(fitting, first + 1), first + max(most // _ROWS_PER_REPORT, 1), rows))
    return list(pairwise(bounds))


def value_type(rows: Rows) -> torch.dtype:
    """Return what values are on a device."""
    return _TYPES[rows.values.dtype.type]


class DeviceReports:
    """The reports of a matrix, cut into blocks, for one device."""

    def __init__(
        self, matrix: ReportMatrix, device: torch.device, *, most: int, resident: bool, pins: bool = False
    ) -> None:
        """Copy them to the device if they are to stay there; `pins` says whether it may read them here by itself."""
        self.device, self.resident, self.most = device, resident, most
        self.users, self.items = (_Side(rows, device, most, pins=pins) for rows in (matrix.by_user, matrix.by_item))
        if resident:
            self.users.stay()
            self.items.stay()

    def rows(self, *, by_item: bool, centre: float = 0.0) -> Iterator[DeviceRows]:
        """Go through the blocks of one side."""
        side = self.items if by_item else self.users
        for rows in side.blocks():
            yield replace(rows, centre=centre) if rows.values.dtype == torch.float32 else rows


class _Side:
    """One order of the reports, on this machine or, if they stay there, on the device."""

    def __init__(self, rows: Rows, device: torch.device, most: int, *, pins: bool) -> None:
        self._rows, self._device, self._pins = rows, device, pins
        self._blocks = [
            Block(*bounds, np.diff(rows.starts[bounds[0] : bounds[1] + 1])) for bounds in cut(rows.starts, most)
        ]
        self._there: list[DeviceRows] | None = None

    def stay(self) -> None:
        """Copy everything to the device."""
        self._there = [_moved(self._host(block), self._device) for block in self._blocks]

    def blocks(self) -> Iterator[DeviceRows]:
        """Go through the blocks, each on the device by then."""
        if self._there is not None:
            yield from self._there
        elif self._pins:
            yield from copied_ahead(self._pinned, self._device)
        else:
            yield from (_moved(self._host(block), self._device) for block in self._blocks)

    @cached_property
    def _pinned(self) -> list[DeviceRows]:
        return [self._host(block, pinned=True) for block in self._blocks]

    def _host(self, block: Block, *, pinned: bool = False) -> DeviceRows:
        part = self._rows.part(block.first, block.last)
        starts, columns, values = (_tensor(array, pinned=pinned) for array in (part.starts, part.columns, part.values))
        return DeviceRows(block, starts, columns, values)


def _tensor(array: NDArray[Any], *, pinned: bool) -> Tensor:
    """Copy an array; pinned memory is what a device can read on its own, meanwhile."""
    held = torch.empty(len(array), dtype=_TYPES[array.dtype.type], pin_memory=pinned)
    held.numpy()[:] = array
    return held


def _moved(rows: DeviceRows, device: torch.device) -> DeviceRows:
    return replace(rows, starts=rows.starts.to(device), columns=rows.columns.to(device), values=rows.values.to(device))


def copied_ahead(hosts: list[DeviceRows], device: torch.device) -> Iterator[DeviceRows]:
    """Copy pinned blocks to a CUDA device, each while the one before is worked on; they share two buffers."""
    copying, working = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    buffers = [_buffer(hosts, device) for _ in hosts[:2]]
    copying.wait_stream(working)  # the buffers' memory may still be read for what it held before
    ahead = _copy(hosts[0], buffers[0], copying)
    try:
        for number, after in enumerate([*hosts[1:], None], start=1):
            rows = ahead
            working.wait_stream(copying)
            if after is not None:
                # The other buffer's block has been given all its work; once that is done the next may overwrite it.
                copying.wait_stream(working)
                ahead = _copy(after, buffers[number % 2], copying)
            yield rows
    finally:
        working.wait_stream(copying)  # the buffers go back to whoever asks next


def _buffer(hosts: list[DeviceRows], device: torch.device) -> tuple[Tensor, ...]:
    widest = [max(tensors, key=len) for tensors in zip(*(_tensors(rows) for rows in hosts), strict=True)]
    return tuple(torch.empty_like(tensor, device=device) for tensor in widest)


def _tensors(rows: DeviceRows) -> tuple[Tensor, Tensor, Tensor]:
    return rows.starts, rows.columns, rows.values


def _copy(rows: DeviceRows, buffer: tuple[Tensor, ...], stream: torch.cuda.Stream) -> DeviceRows:
    with torch.cuda.stream(stream):
        starts, columns, values = (
            to[: len(tensor)].copy_(tensor, non_blocking=True)
            for to, tensor in zip(buffer, _tensors(rows), strict=True)
        )
    return DeviceRows(rows.block, starts, columns, values)
