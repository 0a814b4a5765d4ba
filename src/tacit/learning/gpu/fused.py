"""The half-sweep in fused Triton kernels: which task falls on which program, and how much is done at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
import triton.language as tl

from tacit.learning.gpu import fused_kernels as kernels
from tacit.learning.gpu.components import Components
from tacit.learning.gpu.reports import Block, DeviceRows
from tacit.learning.gpu.sweep import Sweep
from tacit.learning.mixture import NoiseMixture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from torch import Tensor

SEGMENT = 2048  # reports of one row that one program sums up
_WIDEST_TILE = 128
_PANEL = 16
_MOST_COMPONENTS = 16


class Launch(NamedTuple):
    """How many reports a program forms equations of at a time, and how many warps it has, when it forms and solves.

    Found by trial on an H200.
    """

    block: int
    warps: int
    solving_warps: int


LAUNCHES = {
    16: Launch(32, 1, 1),
    32: Launch(16, 1, 1),
    64: Launch(32, 4, 1),
    128: Launch(32, 8, 2),
    256: Launch(32, 8, 4),
    512: Launch(32, 8, 4),
}
_SUMMED_AT_ONCE = 32


class Precision(NamedTuple):
    """The numbers that equations are formed and solved in, and whether this is for what others left over.

    A pivot that falls below `least_pivot` of its diagonal entry is too uncertain in them. Where single precision will
    do, three products of shortened numbers carry nearly all of it, on units that are much faster than plain ones.
    """

    real: Any
    kind: torch.dtype
    least_pivot: float
    products: str
    again: bool


SINGLE = Precision(tl.float32, torch.float32, 1e-3, "tf32x3", again=False)
DOUBLE = Precision(tl.float64, torch.float64, 1e-9, "ieee", again=True)


def half_sweep(rows: DeviceRows, fixed: Tensor, solved: Tensor, sweep: Sweep) -> tuple[Tensor, Tensor]:
    """Solve a block of rows; see `tacit.learning.gpu.sweep.HalfSweep`."""
    whole = _Pass(rows, fixed, solved, sweep, torch.zeros(len(rows), dtype=torch.int8, device=solved.device))
    tasks = tasks_of(rows)
    whole.solve(tasks, SINGLE)
    if bool(whole.irregular.any()):
        whole.solve(tasks, DOUBLE)
    sums = whole.summarise(tasks) if sweep.statistics and len(tasks) else sweep.mixture.no_sums(solved.device)
    return sums, torch.nonzero(whole.irregular).squeeze(-1)


def try_out(device: torch.device) -> None:
    """Compile and run the kernels on one report; whatever is wrong with compiler or device is raised."""
    block = Block(0, 1, np.ones(1, dtype=np.int64))
    starts, ones = torch.tensor([0, 1], device=device), torch.ones((1, _PANEL), device=device)
    rows = DeviceRows(block, starts, torch.zeros(1, dtype=torch.int32, device=device), ones[0, :1].clone())
    mixture = Components.of(NoiseMixture.single())
    sweep = Sweep(None, 1, ones[0, :1].clone(), 1, mixture, statistics=True, memory=1 << 20)
    sums, _ = half_sweep(rows, ones, ones.clone(), sweep)
    sums.cpu()  # which waits for it


@dataclass(frozen=True, eq=False, slots=True)
class Tasks:
    """Segments of rows: the row of each, where its reports start and end; the rows, and each one's first segment."""

    rows: Tensor
    starts: Tensor
    ends: Tensor
    solved: Tensor
    slot_starts: Tensor
    edges: NDArray[np.int64]  # `slot_starts`, kept here

    @classmethod
    def of(cls, block: Block, device: torch.device) -> Tasks:
        """Cut all rows that have reports into segments."""
        starts, heard = np.concatenate([[0], np.cumsum(block.counts)]), np.flatnonzero(block.counts)
        edges = np.concatenate([[0], np.cumsum(-(-block.counts[heard] // SEGMENT))])
        place = np.repeat(np.arange(len(heard)), np.diff(edges))
        rows = heard[place]
        begins = starts[rows] + SEGMENT * (np.arange(len(rows)) - edges[place])
        ends = np.minimum(begins + SEGMENT, starts[rows + 1])
        arrays = rows.astype(np.int32), begins, ends, heard.astype(np.int32), edges
        there = [torch.from_numpy(array).to(device) for array in arrays]
        return cls(there[0], there[1], there[2], there[3], there[4], edges)

    def __len__(self) -> int:
        return int(self.edges[-1])

    @property
    def segments(self) -> tuple[Tensor, Tensor, Tensor]:
        """What a program must know of its task."""
        return self.rows, self.starts, self.ends

    def runs(self, most: int) -> Iterator[tuple[slice, slice]]:
        """Go through rows and their tasks in runs of at most so many tasks, but at least one row."""
        first, rows = 0, len(self.edges) - 1
        while first < rows:
            fitting = int(np.searchsorted(self.edges, self.edges[first] + most, side="right")) - 1
            last = max(fitting, first + 1)
            yield slice(first, last), slice(int(self.edges[first]), int(self.edges[last]))
            first = last


_TASKS: WeakKeyDictionary[Block, Tasks] = WeakKeyDictionary()


def tasks_of(rows: DeviceRows) -> Tasks:
    """Return the tasks of all rows of a block that have reports; they are the same in every sweep."""
    found = _TASKS.get(rows.block)
    if found is None:
        found = _TASKS[rows.block] = Tasks.of(rows.block, rows.starts.device)
    return found


@dataclass(frozen=True, eq=False, slots=True)
class _Pass:
    """A half-sweep over one block, and which of its rows could not be solved so far."""

    rows: DeviceRows
    fixed: Tensor
    solved: Tensor
    sweep: Sweep
    irregular: Tensor

    def solve(self, tasks: Tasks, precision: Precision) -> None:
        """Form and solve the equations of some rows, as many at a time as there is memory for."""
        width = width_of(self.sweep.coordinates)
        shape = {"stride": self.solved.stride(0), "width": width, "real": precision.real, "again": precision.again}
        launch = LAUNCHES[width]
        each = precision.kind.itemsize * width * (width + 1 + _PANEL)
        most = max(1, self.sweep.memory // each)
        equations = Equations.of(tasks, most, width, precision.kind, self.solved.device)
        reports, reading = self._reports(tasks), self._reading()
        for run, slots in tasks.runs(most):
            kernels.accumulate[slots.stop - slots.start, tiles_of(width)](
                *(slots.start, *reports, self.irregular, *equations[:2]),
                **shape,
                **reading,
                block=launch.block,
                num_warps=launch.warps,
                num_stages=1,
            )
            kernels.solve[(run.stop - run.start,)](
                *(run.start, slots.start, tasks.solved, tasks.slot_starts, *equations, self.solved, self.sweep.ridge),
                *(self.sweep.least, self.rows.starts, self.irregular, self.sweep.free, precision.least_pivot),
                **shape,
                precision=precision.products,
                num_warps=launch.solving_warps,
            )

    def summarise(self, tasks: Tasks) -> Tensor:
        """Sum up over all rows that were solved."""
        sums = self.sweep.mixture.no_sums(self.solved.device)
        width = width_of(self.sweep.coordinates)
        parts = torch.empty((len(tasks), len(sums)), dtype=torch.float32, device=self.solved.device)
        kernels.summarise[(len(tasks),)](
            *(*self._reports(tasks), self.irregular, parts),
            **self._reading(),
            stride=self.solved.stride(0),
            width=width,
            block=_SUMMED_AT_ONCE,
            num_warps=LAUNCHES[width].warps,
        )
        found: Tensor = sums + parts.sum(dim=0, dtype=torch.float64)
        return found

    def _reading(self) -> dict[str, Any]:
        """Return how reports are read, which the kernels are compiled for."""
        tile = min(width_of(self.sweep.coordinates), _WIDEST_TILE)
        return {"components": len(self.sweep.mixture), "codes": self.sweep.table is not None, "tile": tile}

    def _reports(self, tasks: Tasks) -> tuple[Any, ...]:
        rows, table = self.rows, self.rows.values if self.sweep.table is None else self.sweep.table
        noise = _table_of(self.sweep.mixture, self.solved.device)
        return *tasks.segments, rows.columns, rows.values, table, rows.centre, self.fixed, self.solved, noise


class Equations(NamedTuple):
    """Room for the equations of as many tasks as are done at once: matrices, right sides, and inverses of blocks."""

    matrices: Tensor
    rights: Tensor
    inverses: Tensor

    @classmethod
    def of(cls, tasks: Tasks, most: int, width: int, kind: torch.dtype, device: torch.device) -> Equations:
        """Make room for the longest run."""
        slots = max((part.stop - part.start for _, part in tasks.runs(most)), default=0)
        shapes = (slots, width, width), (slots, width), (slots, width, _PANEL)
        return cls(*(torch.empty(shape, dtype=kind, device=device) for shape in shapes))


def width_of(coordinates: int) -> int:
    """Return the power of two that rows are filled up to."""
    return max(_PANEL, 1 << (coordinates - 1).bit_length())


def tiles_of(width: int) -> int:
    """Return how many tiles of a matrix lie on and below its diagonal."""
    side = width // min(width, _WIDEST_TILE)
    return side * (side + 1) // 2


def _table_of(mixture: Components, device: torch.device) -> Tensor:
    """Lay a mixture out as the kernels read it: half precisions, log ratios, precision gaps, and the log scale."""
    table = np.zeros((4, _MOST_COMPONENTS), dtype=np.float32)
    named = mixture.half_precisions, mixture.log_ratios, mixture.precision_gaps, (mixture.log_scale,)
    for row, numbers in zip(table, named, strict=True):
        row[: len(numbers)] = numbers
    return torch.from_numpy(table).to(device)
