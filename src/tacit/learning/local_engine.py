"""The local engine: the kernels on all cores of this machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.learning.factors import relative_change
from tacit.learning.kernels import SweepResult, half_sweep, kernel_name, posterior_sweep, row_sums
from tacit.learning.memory import memory_needed
from tacit.learning.model_parts import structure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.engine import PosteriorProblem
    from tacit.learning.factors import FactorPair, Ridge
    from tacit.learning.matrix import ReportMatrix, Rows
    from tacit.learning.mixture import MixtureStatistics, NoiseMixture
    from tacit.learning.options import Options

    Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False, slots=True)
class LocalEngine:
    """A report matrix in memory, and so many threads."""

    summary: ReportMatrix
    threads: int
    name: str = "local"

    def sweeper(self, pair: FactorPair, mean: float, ridge: Ridge, components: int = 1) -> LocalSweeper:  # noqa: ARG002 - kernels do for any number
        """Start alternating sweeps from these factors, which will change."""
        return LocalSweeper(self.summary, pair, mean, ridge, self.threads)

    def posterior_sweeper(self, table: Floats | None, weights: Floats, centre: float) -> LocalPosteriorSweeper:
        """Read symbols through a table, or plain numbers less the centre."""
        reports = self.summary.by_user, self.summary.by_item
        if table is None:
            by_user, by_item = (replace(rows, values=rows.values - np.float32(centre)) for rows in reports)
            reports = by_user, by_item
        return LocalPosteriorSweeper(*reports, table, weights, self.threads)

    def row_sums(self, dense: Floats, *, by_item: bool) -> Floats:
        """Sum the rows of `dense` that each user or item has reports with."""
        return row_sums(self.summary.by_item if by_item else self.summary.by_user, dense, self.threads)

    def rated(self) -> Rows:
        """Return which items each user reported on; the memory is the matrix's own."""
        return structure(self.summary.by_user.starts, self.summary.by_user.columns)

    def prepare(self, options: Options) -> str:
        """Say how much memory a fit takes."""
        needed = memory_needed(self.summary, options)
        return f"it takes about {needed / 1e9:.1f} GB of memory"

    def versions(self) -> dict[str, str]:
        """Name the kernel."""
        return {"kernel": kernel_name()}


@dataclass(frozen=True, eq=False, slots=True)
class LocalSweeper:
    """What both half-sweeps of a fit share: the reports, less `mean`, the factors and the ridge."""

    matrix: ReportMatrix
    factors: FactorPair
    mean: float
    ridge: Ridge
    threads: int

    def users(self, mixture: NoiseMixture) -> float:
        """Solve for the users' factors, the items' held (Eq. 10)."""
        before = self.factors.users.copy()
        self._solve(self.factors, mixture, statistics=False)
        return relative_change(before, self.factors.users)

    def items(self, mixture: NoiseMixture) -> MixtureStatistics:
        """Solve for the items' factors, the users' held (Eq. 10), and sum up what Eq. 9 needs."""
        with self.factors.turned() as turned:
            return self._solve(turned, mixture, statistics=True, by_item=True).sums

    def penalty(self) -> float:
        """Return what the ridge adds to the objective of least squares."""
        return self.ridge.penalty(self.factors)

    def _solve(
        self, pair: FactorPair, mixture: NoiseMixture, *, statistics: bool, by_item: bool = False
    ) -> SweepResult:
        rows = self.matrix.by_item if by_item else self.matrix.by_user
        if self.matrix.symbol_values is None and self.mean:
            rows = replace(rows, values=rows.values - np.float32(self.mean))
        return half_sweep(
            rows,
            None if self.matrix.symbol_values is None else self.matrix.symbol_values - np.float32(self.mean),
            pair.items,
            pair.users,
            coordinates=pair.coordinates,
            ridge=self.ridge.of(pair),
            mixture=mixture,
            statistics=statistics,
            threads=self.threads,
        )


@dataclass(frozen=True, eq=False, slots=True)
class LocalPosteriorSweeper:
    """Reports in both orders, and how they are read."""

    by_user: Rows
    by_item: Rows
    table: Floats | None
    weights: Floats
    threads: int

    def sweep(self, problem: PosteriorProblem, *, by_item: bool) -> float:
        """Solve the rows of users or items."""
        return posterior_sweep(
            self.by_item if by_item else self.by_user,
            self.table,
            self.weights,
            problem.fixed,
            problem.solved,
            problem.variances,
            coordinates=problem.coordinates,
            precision=problem.precision,
            centres=problem.centres,
            fixed_variances=problem.fixed_variances,
            threads=self.threads,
        )
