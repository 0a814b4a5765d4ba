"""The Gaussian posterior of every row's factors, given the other side's, which may be uncertain themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from tacit.learning.gpu.batches import Cost, batches, runs
from tacit.learning.gpu.device import computing
from tacit.learning.gpu.plain import Equations, factorised, summed, weighted_products
from tacit.learning.gpu.reading import Part, Reading, looked_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray
    from torch import Tensor

    from tacit.learning.engine import PosteriorProblem
    from tacit.learning.gpu.reading import Which
    from tacit.learning.gpu.reports import DeviceReports, DeviceRows

    Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False, slots=True)
class GpuPosteriorSweeper:
    """Where reports lie beside rows of so many coordinates, and how they are read."""

    laid_out: Callable[[int], tuple[DeviceReports, int]]
    table: Floats | None
    weights: Floats
    centre: float

    def sweep(self, problem: PosteriorProblem, *, by_item: bool) -> float:
        """Solve the rows of users or items; return the weighted sum of squares that is left."""
        reports, memory = self.laid_out(problem.coordinates)
        with computing(reports.device):
            given = _Given.of(problem, self, reports.device, memory)
            side = _Side.of(problem, reports.device)
            squares = torch.zeros((), dtype=torch.float64, device=reports.device)
            for rows in reports.rows(by_item=by_item, centre=self.centre):
                squares += _solve_block(rows, side.part(rows.block.first, rows.block.last), given)
        problem.solved[:], problem.variances[:] = side.solved.cpu().numpy(), side.variances.cpu().numpy()
        return float(squares)


@dataclass(frozen=True, eq=False, slots=True)
class _Given:
    """What is held while rows are solved."""

    table: Tensor | None
    roots: Tensor  # of the weights
    fixed: Tensor
    fixed_variances: Tensor  # of the last of the coordinates solved for
    precision: Tensor
    memory: int

    @classmethod
    def of(cls, problem: PosteriorProblem, read: GpuPosteriorSweeper, device: torch.device, memory: int) -> _Given:
        return cls(
            None if read.table is None else torch.tensor(read.table, device=device),
            torch.tensor(np.sqrt(read.weights), device=device),
            torch.tensor(problem.fixed[:, : problem.coordinates], device=device),
            torch.tensor(problem.fixed_variances, device=device),
            torch.tensor(problem.precision, device=device),
            memory,
        )

    def cost(self, itemsize: int) -> Cost:
        return Cost(self.fixed.shape[1] + self.fixed_variances.shape[1], len(self.precision), itemsize, self.memory)

    def roots_of(self, part: Part) -> Tensor:
        """Return the roots of the weights of a part's reports."""
        roots = self.roots if part.codes is None else looked_up(self.roots, part.codes)
        return roots.to(part.values.dtype) * part.present


@dataclass(frozen=True, eq=False, slots=True)
class _Side:
    """Rows that are solved for: their means, variances, and the centres of their priors."""

    solved: Tensor
    variances: Tensor
    centres: Tensor

    @classmethod
    def of(cls, problem: PosteriorProblem, device: torch.device) -> _Side:
        return cls(
            *(torch.tensor(each, device=device) for each in (problem.solved, problem.variances, problem.centres))
        )

    def part(self, first: int, last: int) -> _Side:
        return _Side(self.solved[first:last], self.variances[first:last], self.centres[first:last])


def _solve_block(rows: DeviceRows, side: _Side, given: _Given) -> Tensor:
    """Solve a block in single precision, then in doubles the rows that were too uncertain."""
    free = len(given.precision)
    silent = (rows.starts.diff() == 0)[:, None]  # without reports the posterior is the prior
    side.solved[:, :free] = torch.where(silent, side.centres, side.solved[:, :free])
    side.variances.copy_(torch.where(silent, 1 / given.precision, side.variances))
    done = silent.squeeze(-1).clone()
    squares = torch.zeros((), dtype=torch.float64, device=done.device)
    reading = Reading(rows, given.table, given.fixed)
    for batch in rows.batches(1, given.cost(4)):
        left, done[batch.rows] = _solve_batch(reading.parts(batch, batch.rows), batch.rows, side, given)
        squares += left
    irregular = torch.nonzero(~done).squeeze(-1)
    return squares + _solve_in_doubles(irregular, rows, side, given) if len(irregular) else squares


def _solve_in_doubles(irregular: Tensor, rows: DeviceRows, side: _Side, given: _Given) -> Tensor:
    reading = Reading(rows, given.table, given.fixed, torch.float64)
    squares = torch.zeros((), dtype=torch.float64, device=irregular.device)
    for batch in batches(runs(rows.block.counts[irregular.cpu().numpy()], 1), given.cost(8)):
        which = irregular[batch.rows]
        squares += _solve_batch(reading.parts(batch, which), which, side, given)[0]
    return squares


def _solve_batch(parts: Iterable[Part], which: Which, side: _Side, given: _Given) -> tuple[Tensor, Tensor]:
    """Solve rows for the change of their means; return the squares left, and which rows are solved well enough."""
    free, coordinates = len(given.precision), given.fixed.shape[1]
    equations = summed(_equations_of(part, side.solved[which, :coordinates], given) for part in parts)
    means, variances, regular = _posterior(equations, side.solved[which, :free], side.centres[which], given)
    exact = equations.matrix.dtype == torch.float64
    kept = torch.ones_like(regular) if exact else regular
    side.solved[which, :free] = torch.where(kept[:, None], means, side.solved[which, :free])
    side.variances[which] = torch.where(kept[:, None], variances, side.variances[which])
    return _squares(parts, side.solved[which, :coordinates], kept, given), kept


def _equations_of(part: Part, own: Tensor, given: _Given) -> Equations:
    """Return what a part adds to the equations; the expected square of an uncertain factor has its variance in it."""
    own = own.to(part.values.dtype)
    free, uncertain = len(given.precision), given.fixed_variances.shape[1]
    roots = given.roots_of(part)
    equations = weighted_products(part.factors[:, :, :free], part.residuals(own), roots)
    if uncertain:
        variances = looked_up(given.fixed_variances, part.columns).to(roots.dtype)
        sums = (roots.square()[:, None, :] @ variances).squeeze(1)
        equations.matrix.diagonal(dim1=1, dim2=2)[:, free - uncertain :] += sums
        equations.right[:, free - uncertain :] -= sums * own[:, free - uncertain : free]
    return equations


def _posterior(equations: Equations, own: Tensor, centres: Tensor, given: _Given) -> tuple[Tensor, Tensor, Tensor]:
    """Add the prior; return the means, the variances and which of them can be trusted in single precision."""
    matrix = equations.matrix
    own, precision = own.to(matrix.dtype), given.precision.to(matrix.dtype)
    matrix.diagonal(dim1=1, dim2=2).add_(precision)
    right = equations.right - precision * (own - centres)
    lower, regular = factorised(matrix)
    unit = torch.eye(len(precision), dtype=matrix.dtype, device=matrix.device).expand_as(matrix)
    # With L y = e, e the unit vector of an unknown, its entry on the inverse's diagonal is y'y.
    variances = torch.linalg.solve_triangular(lower, unit, upper=False).square_().sum(dim=1)
    change = torch.cholesky_solve(right[:, :, None], lower).squeeze(-1)
    return (own + change).float(), variances.float(), regular


def _squares(parts: Iterable[Part], own: Tensor, kept: Tensor, given: _Given) -> Tensor:
    squares = torch.zeros((), dtype=torch.float64, device=own.device)
    for part in parts:
        weighted = part.residuals(own.to(part.values.dtype)) * given.roots_of(part) * kept[:, None]
        squares += weighted.square_().sum(dtype=torch.float64)
    return squares
