"""Alternating sweeps on a device: the factors stay there for the whole fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from tacit.learning.gpu import singular
from tacit.learning.gpu.components import Components
from tacit.learning.gpu.device import computing, squares
from tacit.learning.gpu.sweep import Sweep

if TYPE_CHECKING:
    from torch import Tensor

    from tacit.learning.factors import Ridge
    from tacit.learning.gpu.factors import GpuFactors
    from tacit.learning.gpu.reports import DeviceReports, DeviceRows
    from tacit.learning.gpu.sweep import HalfSweep, Pull
    from tacit.learning.mixture import MixtureStatistics, NoiseMixture


@dataclass(frozen=True, eq=False, slots=True)
class GpuSweeper:
    """What both half-sweeps of a fit share: the reports, less `mean`, the factors, the ridge and its `pull` there."""

    reports: DeviceReports
    factors: GpuFactors
    table: Tensor | None
    mean: float
    ridge: Ridge
    pull: Pull
    half_sweep: HalfSweep
    memory: int

    def users(self, mixture: NoiseMixture) -> float:
        """Solve for the users' factors, the items' held (Eq. 10)."""
        sizes = torch.zeros(2, dtype=torch.float64, device=self.reports.device)
        sweep = self._sweep(mixture, statistics=False)
        with computing(self.reports.device):
            for rows in self.reports.rows(by_item=False, centre=self.mean):
                own = self.factors.users[rows.block.first : rows.block.last]
                before = own.clone()
                sizes[0] += squares(before)
                self._solve(rows, self.factors.items, own, sweep)
                sizes[1] += squares(before.sub_(own))
        size, moved = sizes.tolist()
        return float(np.sqrt(moved / max(size, np.finfo(np.float64).tiny)))

    def items(self, mixture: NoiseMixture) -> MixtureStatistics:
        """Solve for the items' factors, the users' held (Eq. 10), and sum up what Eq. 9 needs."""
        sweep = self._sweep(mixture, statistics=True)
        sums = sweep.mixture.no_sums(self.reports.device)
        with computing(self.reports.device), self.factors.turned():
            for rows in self.reports.rows(by_item=True, centre=self.mean):
                own = self.factors.items[rows.block.first : rows.block.last]
                sums += self._solve(rows, self.factors.users, own, sweep)
        return sweep.mixture.statistics(sums)

    def penalty(self) -> float:
        """Return what the ridge adds to the objective of least squares."""
        with computing(self.reports.device):
            return self.factors.penalty(self.ridge)

    def _sweep(self, mixture: NoiseMixture, *, statistics: bool) -> Sweep:
        coordinates = self.factors.rank + 2 * self.factors.offsets
        return Sweep(self.table, coordinates, self.pull, Components.of(mixture), statistics, self.memory)

    def _solve(self, rows: DeviceRows, fixed: Tensor, own: Tensor, sweep: Sweep) -> Tensor:
        sums, irregular = self.half_sweep(rows, fixed, own, sweep)
        if len(irregular):
            sums += singular.solve(irregular, rows, fixed, own, sweep)
        return sums
