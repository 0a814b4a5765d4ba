"""The GPU engine: sweeps over reports that lie on a device, or stream through it."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import torch

from tacit.learning.gpu import plain
from tacit.learning.gpu.device import computing, device_name
from tacit.learning.gpu.factors import GpuFactors
from tacit.learning.gpu.plan import Demand, Plan, foresee
from tacit.learning.gpu.posterior import GpuPosteriorSweeper
from tacit.learning.gpu.reports import DeviceReports
from tacit.learning.gpu.sums import row_sums
from tacit.learning.gpu.sweep import Pull
from tacit.learning.gpu.sweeper import GpuSweeper
from tacit.learning.model_parts import structure
from tacit.learning.options import MOST_PLACES, ChannelMfOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.factors import FactorPair, Ridge
    from tacit.learning.gpu.sweep import HalfSweep
    from tacit.learning.matrix import ReportMatrix, Rows
    from tacit.learning.options import Options

    Floats = NDArray[np.float32]

# Memory for what is solved at once: on a GPU enough to keep all of it busy, on a processor little more than its caches.
_SCRATCH_ON_PROCESSOR = 1 << 25
_LEAST_SCRATCH, _MOST_SCRATCH, _SCRATCH_SHARE = 1 << 29, 1 << 31, 1 / 32
_EMBEDDING_SPARE = 11  # vectors beyond the pattern's dimensions that are multiplied to find these
_POSTERIOR_ARRAYS = 3  # rows, and variances and centres of what is solved for


class GpuEngine:
    """A report matrix, a device and how many bytes may be used there.

    What a fit takes is foreseen when it starts; reports are then copied to the device, where they stay, or streamed.
    """

    name = "gpu"

    def __init__(
        self, matrix: ReportMatrix, device: torch.device, limit: int, half_sweep: HalfSweep = plain.half_sweep
    ) -> None:
        """Allocate nothing yet."""
        self.summary, self.device, self.limit, self.half_sweep = matrix, device, limit, half_sweep
        self._asked = Demand(1, 1, _scratch(device, limit), pins=device.type == "cuda")
        self._reports: DeviceReports | None = None

    def prepare(self, options: Options) -> str:
        """Foresee what a fit takes, and lay reports out for that from the start; refuse what does not fit."""
        coordinates, arrays = _widest(options)
        plan = self.plan(coordinates, arrays)
        self._asked = self._asked.beside(coordinates, arrays)
        return plan.describe()

    def plan(self, coordinates: int, arrays: int = 1) -> Plan:
        """Foresee so many arrays of rows of so many coordinates, beside what was asked for before."""
        demand = self._asked.beside(coordinates, arrays)
        return foresee(self.summary, demand, device_name(self.device), self.limit)

    def laid_out(self, coordinates: int, arrays: int = 1) -> tuple[DeviceReports, int]:
        """Return the reports, so laid out that all else has room, and how much scratch memory there is.

        There stays room for whatever was asked for before: a layout gives way to a tighter one, and never back.
        """
        plan = self.plan(coordinates, arrays)
        self._asked = self._asked.beside(coordinates, arrays)
        if self._reports is None or (self._reports.resident, self._reports.most) != (plan.resident, plan.most):
            self._reports = None  # its memory goes back first
            with computing(self.device):
                self._reports = DeviceReports(self.summary, self.device, most=plan.most, resident=plan.resident)
        return self._reports, plan.scratch

    def sweeper(self, pair: FactorPair, mean: float, ridge: Ridge) -> GpuSweeper:
        """Start alternating sweeps from these factors, which are copied to the device."""
        reports, memory = self.laid_out(pair.coordinates)
        values = self.summary.symbol_values
        with computing(self.device):
            table = None if values is None else torch.from_numpy(values - np.float32(mean)).to(self.device)
            factors, pull = GpuFactors.of(pair, self.device), Pull.of(ridge.of(pair).tolist(), self.device)
        return GpuSweeper(reports, factors, table, mean, ridge, pull, self.half_sweep, memory)

    def posterior_sweeper(self, table: Floats | None, weights: Floats, centre: float) -> GpuPosteriorSweeper:
        """Read symbols through a table, or plain numbers less the centre."""
        return GpuPosteriorSweeper(self._for_posteriors, table, weights, centre)

    def _for_posteriors(self, coordinates: int) -> tuple[DeviceReports, int]:
        return self.laid_out(coordinates, _POSTERIOR_ARRAYS)

    def row_sums(self, dense: Floats, *, by_item: bool) -> Floats:
        """Sum the rows of `dense` that each user or item has reports with."""
        reports, memory = self.laid_out(dense.shape[1])
        with computing(self.device):
            return row_sums(reports, dense, by_item=by_item, memory=memory)

    def rated(self) -> Rows:
        """Return which items each user reported on; the memory is the matrix's own."""
        return structure(self.summary.by_user.starts, self.summary.by_user.columns)

    def versions(self) -> dict[str, str]:
        """Name the kernel, PyTorch and the device."""
        kernel = self.half_sweep.__module__.rpartition(".")[2]
        named = {"kernel": f"gpu {kernel}", "torch": str(torch.__version__), "device": device_name(self.device)}
        return named if kernel == "plain" else named | {"triton": version("triton")}


def _scratch(device: torch.device, limit: int) -> int:
    if device.type == "cpu":
        return _SCRATCH_ON_PROCESSOR
    return min(max(int(limit * _SCRATCH_SHARE), _LEAST_SCRATCH), _MOST_SCRATCH)


def _widest(options: Options) -> tuple[int, int]:
    """Return how many coordinates a fit's rows have, and how many arrays of such rows there are."""
    rank, offsets = int(getattr(options, "rank", 0)), 2
    if not isinstance(options, ChannelMfOptions):
        return rank + offsets, 1
    dimensions = options.dimensions * options.pattern
    rows = rank + 2 * min(dimensions, MOST_PLACES) + offsets
    return max(rows, dimensions + _EMBEDDING_SPARE), _POSTERIOR_ARRAYS
