"""The GPU engine: sweeps over reports that lie on a device, or stream through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from tacit.learning import widths
from tacit.learning.gpu.device import computing, device_name, pinnable_memory, scratch_memory
from tacit.learning.gpu.factors import GpuFactors
from tacit.learning.gpu.plan import Demand, Plan, foresee
from tacit.learning.gpu.posterior import GpuPosteriorSweeper
from tacit.learning.gpu.reports import DeviceReports, value_type
from tacit.learning.gpu.sums import row_sums
from tacit.learning.gpu.sweep import Pull
from tacit.learning.gpu.sweeper import GpuSweeper
from tacit.learning.gpu.trial import Kind, half_sweep_for
from tacit.learning.model_parts import structure
from tacit.learning.options import ChannelMfOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tacit.learning.factors import FactorPair, Ridge
    from tacit.learning.gpu.sweep import HalfSweep
    from tacit.learning.matrix import ReportMatrix, Rows
    from tacit.learning.options import Options

    Floats = NDArray[np.float32]

_POSTERIOR_ARRAYS = 3  # rows, and variances and centres of what is solved for


class GpuEngine:
    """A report matrix, a device and how many bytes may be used there.

    What a fit takes is foreseen when it starts; reports are then copied to the device, where they stay, or streamed.
    """

    name = "gpu"

    def __init__(
        self,
        matrix: ReportMatrix,
        device: torch.device,
        limit: int,
        choose: Callable[[torch.device, Kind], HalfSweep] = half_sweep_for,
    ) -> None:
        """Allocate nothing yet; `choose` says what does the half-sweeps of a kind."""
        self.summary, self.device, self.limit = matrix, device, limit
        self._choose, self._kernels = choose, set[str]()
        self._asked = Demand(1, 1, scratch_memory(device), pinnable_memory(device))
        self._reports: DeviceReports | None = None

    def prepare(self, options: Options) -> str:
        """Foresee what a fit takes, and lay reports out for that from the start; refuse what does not fit."""
        widest = _widest(options)
        plan = self.plan(*widest)
        self._asked = self._asked.beside(*widest)
        self._kernels.clear()
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
                self._reports = DeviceReports(
                    self.summary, self.device, most=plan.most, resident=plan.resident, pins=plan.pins
                )
        return self._reports, plan.scratch

    def sweeper(self, pair: FactorPair, mean: float, ridge: Ridge, components: int = 1) -> GpuSweeper:
        """Start alternating sweeps from these factors, which are copied to the device."""
        reports, memory = self.laid_out(pair.coordinates)
        values, pulls = self.summary.symbol_values, tuple(ridge.of(pair).tolist())
        kinds = tuple(pull > 0 for pull in pulls), value_type(self.summary.by_user), components
        half_sweep = self._choose(self.device, Kind(pair.coordinates, *kinds))
        self._kernels.add(half_sweep.__module__.rpartition(".")[2])
        with computing(self.device):
            table = None if values is None else torch.from_numpy(values - np.float32(mean)).to(self.device)
            factors, pull = GpuFactors.of(pair, self.device), Pull.of(pulls, self.device)
        return GpuSweeper(reports, factors, table, mean, ridge, pull, half_sweep, memory)

    def posterior_sweeper(self, table: Floats | None, weights: Floats, centre: float) -> GpuPosteriorSweeper:
        """Read symbols through a table, or plain numbers less the centre."""
        self._kernels.add("plain")
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
        """Name the kernels that were used, PyTorch and the device."""
        kernels = " and ".join(sorted(self._kernels)) or "none"
        named = {"kernel": f"gpu {kernels}", "torch": str(torch.__version__), "device": device_name(self.device)}
        return named | {"triton": _triton_version()} if "fused" in self._kernels else named


def _triton_version() -> str:
    import triton  # noqa: PLC0415 - not everywhere

    return str(triton.__version__)


def _widest(options: Options) -> tuple[int, int]:
    """Return how many coordinates a fit's rows have, and how many arrays of such rows there are."""
    if not isinstance(options, ChannelMfOptions):
        return widths.coordinates(options), 1
    return max(widths.coordinates(options), widths.embedding_columns(options)), _POSTERIOR_ARRAYS
