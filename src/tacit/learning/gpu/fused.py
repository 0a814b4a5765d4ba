"""The half-sweep in fused Triton kernels: which task falls on which program, and how much is done at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import triton.language as tl

from tacit.learning.gpu.kernels import forming, relating, solving, summing
from tacit.learning.gpu.tasks import NARROWEST, Shares, Tasks, filled_up, room_for_slot, shares_of
from tacit.learning.kernels import MOST_COMPONENTS

if TYPE_CHECKING:
    from torch import Tensor

    from tacit.learning.gpu.components import Components
    from tacit.learning.gpu.reports import DeviceRows
    from tacit.learning.gpu.sweep import Sweep

_WIDEST_TILE = 128
_COMPILED = {"enable_fp_fusion": True}  # a product and a sum at once, whatever is usual in a version of Triton
_SUMMED_AT_ONCE = 16  # by one warp each: found by trial, too
_BYTES_OF_A_SUM = 4 + 8  # in singles, and in the doubles that PyTorch makes of them


class Launch(NamedTuple):
    """How many reports a program forms equations of at a time, and how many warps it has: found by trial on an H200."""

    block: int
    warps: int


LAUNCHES = {
    16: Launch(32, 1),
    32: Launch(16, 1),
    64: Launch(16, 2),
    128: Launch(16, 4),
    256: Launch(32, 8),
    512: Launch(32, 8),
}


class FewLaunch(NamedTuple):
    """How many factors a program takes at a time that forms a system in so many reports, and how many warps it has."""

    tile: int
    warps: int


FEW_LAUNCHES = {16: FewLaunch(32, 1), 32: FewLaunch(32, 1), 64: FewLaunch(16, 4), 128: FewLaunch(32, 8)}


class Precision(NamedTuple):
    """The numbers that equations are formed and solved in, and whether this is for what others left over.

    A pivot that falls below `least_pivot` of its diagonal entry is too uncertain in them; rows of few reports, which
    are solved for the factors and not for a change, may lose no more than `least_pivot_of_few` says. Where single
    precision will do, three products of shortened numbers carry nearly all of it, on units that are much faster than
    plain ones. `numbers_a_warp` is how wide a system one warp may hold, and `stages` how far loads run ahead, None for
    as far as the compiler thinks best: doubles take room.
    """

    real: Any
    kind: torch.dtype
    least_pivot: float
    least_pivot_of_few: float
    products: str
    again: bool
    numbers_a_warp: int
    stages: int | None


SINGLE = Precision(tl.float32, torch.float32, 1e-3, 1e-2, "tf32x3", again=False, numbers_a_warp=128, stages=None)
DOUBLE = Precision(tl.float64, torch.float64, 1e-9, 1e-9, "ieee", again=True, numbers_a_warp=64, stages=1)


def half_sweep(rows: DeviceRows, fixed: Tensor, solved: Tensor, sweep: Sweep) -> tuple[Tensor, Tensor]:
    """Solve a block of rows; see `tacit.learning.gpu.sweep.HalfSweep`."""
    pull, device = sweep.pull, solved.device
    shares = shares_of(rows.block, 0 if pull.slack is None else sweep.free, pull.least, device)
    irregular = torch.zeros(len(rows), dtype=torch.int8, device=device)
    whole = _Pass(rows, fixed, solved, sweep, _table_of(sweep.mixture, device), irregular)
    whole.leave(shares.left)
    whole.solve(shares, SINGLE)
    left = torch.nonzero(irregular)
    if len(left):
        whole.solve(shares, DOUBLE)
        left = torch.nonzero(irregular)
    sums = whole.summarise(shares.every) if sweep.statistics else sweep.mixture.no_sums(device)
    return sums, left.squeeze(-1)


@dataclass(frozen=True, eq=False, slots=True)
class _Pass:
    """A half-sweep over one block, and how it stands with its rows."""

    rows: DeviceRows
    fixed: Tensor
    solved: Tensor
    sweep: Sweep
    noise: Tensor
    irregular: Tensor

    def leave(self, rows: Tensor) -> None:
        """Leave rows to others, or to a pass in doubles."""
        if len(rows):
            self.irregular.index_fill_(0, rows.long(), 1)

    def solve(self, shares: Shares, precision: Precision) -> None:
        """Form and solve the equations of all rows, or of those left over, as many at a time as there is memory for.

        Rows with few reports and no ridge are left to doubles: they are solved for the factors and not for a change,
        which would take errors of single precision away again.
        """
        self._solve_many(shares.many, precision)
        for size, tasks in shares.few:
            if self.sweep.pull.everywhere or precision.again:
                self._solve_few(size, tasks, precision)
            else:
                self.leave(tasks.solved)

    def _solve_many(self, tasks: Tasks, precision: Precision) -> None:
        width = self._width
        launch, most = LAUNCHES[width], self._at_once(width, precision)
        equations = Equations.of(tasks, most, width, precision.kind, self.solved.device)
        for run, slots in tasks.runs(most):
            forming.accumulate[slots.stop - slots.start, tiles_of(width)](
                *(slots.start, *self._reports(tasks), self.irregular, equations.matrices, equations.rights),
                **self._shape,
                **self._kinds,
                real=precision.real,
                again=precision.again,
                block=launch.block,
                num_warps=launch.warps,
                num_stages=1,
                **_COMPILED,
            )
            self._solve_systems(run, slots, tasks, equations, precision, few=False)

    def _solve_few(self, size: int, tasks: Tasks, precision: Precision) -> None:
        most, reports, free = self._at_once(size, precision), self._reports(tasks), self.sweep.free
        equations = Equations.of(tasks, most, size, precision.kind, self.solved.device)
        launch = FEW_LAUNCHES[size]
        shape = self._shape | {"tile": min(self._width, launch.tile), "size": size, "real": precision.real}
        for run, slots in tasks.runs(most):
            relating.relate[(slots.stop - slots.start,)](
                *(slots.start, *reports, self.irregular, equations.matrices, equations.rights, equations.roots),
                *(self.sweep.pull.slack, float(self.sweep.pull.everywhere), free),
                **shape,
                **self._kinds,
                products=precision.products,
                again=precision.again,
                num_warps=launch.warps,
                **_COMPILED,
            )
            self._solve_systems(run, slots, tasks, equations, precision, few=True)
            relating.combine[(slots.stop - slots.start,)](
                *(slots.start, *tasks.segments, self.rows.columns, self.fixed, self.solved, self.irregular),
                *(equations.rights, equations.roots, self.sweep.pull.slack, free),
                **shape,
                num_warps=launch.warps,
                **_COMPILED,
            )

    def _solve_systems(  # noqa: PLR0913 - which, and how
        self, run: slice, slots: slice, tasks: Tasks, equations: Equations, precision: Precision, *, few: bool
    ) -> None:
        size = equations.rights.shape[1]
        solving.solve[(run.stop - run.start,)](
            *(
                run.start,
                slots.start,
                tasks.solved,
                tasks.slot_starts,
                *equations[:3],
                self.solved,
                self.sweep.pull.ridge,
            ),
            *(self.irregular, size if few else self.sweep.free),
            precision.least_pivot_of_few if few else precision.least_pivot,
            stride=self.solved.stride(0),
            width=size,
            real=precision.real,
            products=precision.products,
            again=precision.again,
            few=few,
            num_warps=max(1, size // precision.numbers_a_warp),
            **({} if precision.stages is None else {"num_stages": precision.stages}),
            **_COMPILED,
        )

    def summarise(self, tasks: Tasks) -> Tensor:
        """Sum up over all rows that were solved, as many tasks at a time as there is memory for."""
        sums = self.sweep.mixture.no_sums(self.solved.device)
        at_once = max(1, self.sweep.memory // (_BYTES_OF_A_SUM * len(sums)))
        for first in range(0, len(tasks), at_once):
            count = min(at_once, len(tasks) - first)
            parts = torch.empty((count, len(sums)), dtype=torch.float32, device=self.solved.device)
            summing.summarise[(count,)](
                *(first, *self._reports(tasks), self.irregular, parts),
                **self._shape,
                **self._kinds,
                block=_SUMMED_AT_ONCE,
                num_warps=1,
                **_COMPILED,
            )
            sums += parts.sum(dim=0, dtype=torch.float64)
        return sums

    @property
    def _width(self) -> int:
        return int(filled_up(np.array([self.sweep.coordinates]))[0])

    def _at_once(self, size: int, precision: Precision) -> int:
        return max(1, self.sweep.memory // room_for_slot(size, precision.kind.itemsize))

    @property
    def _shape(self) -> dict[str, int]:
        """Return how wide rows of factors are, which the kernels are compiled for."""
        return {"stride": self.solved.stride(0), "width": self._width, "tile": min(self._width, _WIDEST_TILE)}

    @property
    def _kinds(self) -> dict[str, Any]:
        """Return what noise and values are like, which they are compiled for, too."""
        return {"components": len(self.sweep.mixture), "codes": self.sweep.table is not None}

    def _reports(self, tasks: Tasks) -> tuple[Any, ...]:
        rows, table = self.rows, self.rows.values if self.sweep.table is None else self.sweep.table
        return *tasks.segments, rows.columns, rows.values, table, rows.centre, self.fixed, self.solved, self.noise


class Equations(NamedTuple):
    """Room for the systems of as many tasks as are done at once: matrices, right sides, inverses of blocks, roots."""

    matrices: Tensor
    rights: Tensor
    inverses: Tensor
    roots: Tensor

    @classmethod
    def of(cls, tasks: Tasks, most: int, width: int, kind: torch.dtype, device: torch.device) -> Equations:
        """Make room for the longest run."""
        slots = max((part.stop - part.start for _, part in tasks.runs(most)), default=0)
        shapes = (slots, width, width), (slots, width), (slots, width, NARROWEST), (slots, width)
        return cls(*(torch.empty(shape, dtype=kind, device=device) for shape in shapes))


def tiles_of(width: int) -> int:
    """Return how many tiles of a matrix lie on and below its diagonal."""
    side = width // min(width, _WIDEST_TILE)
    return side * (side + 1) // 2


def _table_of(mixture: Components, device: torch.device) -> Tensor:
    """Lay a mixture out as the kernels read it: half precisions, log ratios, precision gaps, and the log scale."""
    table = np.zeros((4, MOST_COMPONENTS), dtype=np.float32)
    named = mixture.half_precisions, mixture.log_ratios, mixture.precision_gaps, (mixture.log_scale,)
    for row, numbers in zip(table, named, strict=True):
        row[: len(numbers)] = numbers
    return torch.from_numpy(table).to(device)
