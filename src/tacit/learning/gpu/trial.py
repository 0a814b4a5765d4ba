"""Trying the fused kernels out: those a fit will run, on a few short rows, before the fit is given to them."""

from __future__ import annotations

import functools
import importlib.util
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from tacit.errors import EngineError
from tacit.learning.gpu import plain, singular
from tacit.learning.gpu.components import Components
from tacit.learning.gpu.device import computing
from tacit.learning.gpu.reports import Block, DeviceRows
from tacit.learning.gpu.sweep import Pull, Sweep
from tacit.learning.kernels import padded
from tacit.learning.mixture import NoiseMixture

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from tacit.learning.gpu.sweep import HalfSweep

_OLDEST_GPU = 8, 0  # compute capability: older ones have too little memory of a program's own for the widest systems
_SHORT_ROWS = 1, 16, 32, 64, 128  # one of every size that systems in reports are filled up to
_SYMBOLS = 10
_RIDGE = 0.1  # where there is one; how large it is makes no difference to kernels
_MEMORY = 1 << 24
_TOLERANCE = 1e-2  # beside the largest of a row
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Kind:
    """What kernels are compiled for: coordinates, which of those solved for have a ridge, values, and components."""

    coordinates: int
    pulled: tuple[bool, ...]
    values: torch.dtype
    components: int

    @property
    def codes(self) -> bool:
        """Whether values are codes, to be read through a table."""
        return not self.values.is_floating_point


@functools.cache
def half_sweep_for(device: torch.device, kind: Kind) -> HalfSweep:
    """Return the fused kernels for a GPU where Triton can compile them, else plain PyTorch, with a word of why."""
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return plain.half_sweep
    try:
        from tacit.learning.gpu import fused  # noqa: PLC0415 - Triton is heavy, and not everywhere

        _refuse_older(device)
        try_out(fused.half_sweep, device, kind)
    except EngineError:  # memory, which another try may have
        raise
    except Exception as error:  # noqa: BLE001 - no C compiler, an old GPU, wrong results: the other way works
        reason = ([line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__])[-1]
        warnings.warn(
            f"Triton is of no use here ({reason[:_SHOWN]}); plain PyTorch does the same, slower", stacklevel=2
        )
        return plain.half_sweep
    return fused.half_sweep


def _refuse_older(device: torch.device) -> None:
    """Raise what is wrong with a GPU on which the kernels would start, and fail at the first wide system."""
    found = torch.cuda.get_device_capability(device)
    if found < _OLDEST_GPU:
        oldest, this = (".".join(map(str, version)) for version in (_OLDEST_GPU, found))
        raise RuntimeError(f"its kernels need a GPU of compute capability {oldest} or later, and this has {this}")


def try_out(half_sweep: HalfSweep, device: torch.device, kind: Kind) -> None:
    """Solve rows of all lengths, some of them badly determined; whatever is wrong with compiler or device is raised."""
    rng = np.random.default_rng(0)
    counts = _row_lengths(kind)
    fixed = _factors(kind, int(counts.max()), rng)
    start = padded(rng.standard_normal((2 * len(counts), kind.coordinates)))
    with computing(device, on_trial=True):
        rows, sweep = _rows(kind, counts, rng, device), _sweep(kind, device)
        given, begun = (torch.from_numpy(array).to(device) for array in (fixed, start))
        solutions = [_solution(way, rows, given, begun, sweep) for way in (half_sweep, plain.half_sweep)]
    for found, expected in zip(*solutions, strict=True):
        if not bool(((found - expected).abs() <= _TOLERANCE * expected.abs().amax(dim=-1, keepdim=True)).all()):
            raise RuntimeError("what its kernels compute is wrong")


def _row_lengths(kind: Kind) -> NDArray[np.int64]:
    free = len(kind.pulled)
    return np.array(sorted({free + 8, *(length for length in (*_SHORT_ROWS, free - 1) if 0 < length < free)}))[::-1]


def _factors(kind: Kind, longest: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw factors that determine rows well, and as many that hardly do: two coordinates alike, two of them large."""
    well, badly = rng.standard_normal((2, longest, kind.coordinates))
    badly[:, :2] = 1.0 + 1e-2 * badly[:, :2]
    badly[:2] = 30.0 * badly[0]
    return padded(np.concatenate([well, badly]))


def _rows(kind: Kind, counts: NDArray[np.int64], rng: np.random.Generator, device: torch.device) -> DeviceRows:
    longest = int(counts.max())
    columns = np.concatenate([first + np.arange(count) for first in (0, longest) for count in counts])
    counts = np.concatenate([counts, counts])
    starts = np.concatenate([[0], np.cumsum(counts)])
    values = rng.integers(1, _SYMBOLS, len(columns))  # never zero: a row of zeros has solutions of rounding alone
    there = [torch.from_numpy(array).to(device) for array in (starts, columns.astype(np.int32), values)]
    there[2] = there[2].to(kind.values)
    return DeviceRows(Block(0, len(counts), counts), *there)


def _sweep(kind: Kind, device: torch.device) -> Sweep:
    count = kind.components
    mixture = NoiseMixture(np.full(count, 1 / count), np.geomspace(0.5, 2.0, count))
    table = torch.arange(_SYMBOLS, dtype=torch.float32, device=device) if kind.codes else None
    pull = Pull.of([_RIDGE * pulled for pulled in kind.pulled], device)
    return Sweep(table, kind.coordinates, pull, Components.of(mixture), statistics=True, memory=_MEMORY)


def _solution(
    half_sweep: HalfSweep, rows: DeviceRows, fixed: Tensor, start: Tensor, sweep: Sweep
) -> tuple[Tensor, Tensor]:
    """Return products with the factors found, which are certain where these are not, and the sums over reports.

    Directions count, not lengths: large factors would hide all other products.
    """
    solved = start.clone()
    sums, irregular = half_sweep(rows, fixed, solved, sweep)
    if len(irregular):
        sums += singular.solve(irregular, rows, fixed, solved, sweep)
    return solved @ torch.nn.functional.normalize(fixed).mT, sums
