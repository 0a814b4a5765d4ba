"""The half-sweep in plain PyTorch: batches of rows of about equal length, filled up, and multiplied at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from tacit.learning.gpu.batches import Cost
from tacit.learning.gpu.reading import Part, Reading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from tacit.learning.gpu.components import Components
    from tacit.learning.gpu.reports import DeviceRows
    from tacit.learning.gpu.sweep import Sweep

# A pivot that falls below this share of its diagonal entry is too uncertain in single precision.
LEAST_PIVOT = 1e-3


def half_sweep(rows: DeviceRows, fixed: Tensor, solved: Tensor, sweep: Sweep) -> tuple[Tensor, Tensor]:
    """Solve a block of rows; see `tacit.learning.gpu.sweep.HalfSweep`."""
    coordinates, free, mixture = sweep.coordinates, sweep.free, sweep.mixture
    reading = Reading(rows, sweep.table, fixed[:, :coordinates])
    sums, done = mixture.no_sums(solved.device), torch.zeros(len(rows), dtype=torch.bool, device=solved.device)
    for batch in rows.batches(sweep.pull.least, Cost(coordinates, free, 4, sweep.memory)):
        parts = reading.parts(batch, batch.rows)
        own = solved[batch.rows, :coordinates]
        equations = normal_equations(parts, own, free, mixture)
        change, regular = solve_for_change(equations, own[:, :free], sweep.pull.ridge)
        own[:, :free] += torch.where(regular[:, None], change, 0.0)
        done[batch.rows] = regular
        if sweep.statistics:
            sums += sums_over(parts, own, regular, mixture)
    return sums, torch.nonzero((rows.starts.diff() > 0) & ~done).squeeze(-1)


class Equations(NamedTuple):
    """The normal equations of a batch, for the change of the rows' factors."""

    matrix: Tensor
    right: Tensor


def normal_equations(parts: Iterable[Part], own: Tensor, free: int, mixture: Components) -> Equations:
    """Sum up the equations: every part in single precision, and the parts in doubles."""
    return summed(_equations_of(part, own, free, mixture) for part in parts)


def summed(found: Iterable[Equations]) -> Equations:
    """Add the equations of parts up in doubles; those of a single one are left as they are."""
    several = iter(found)
    total = next(several)
    dtype = total.matrix.dtype
    for more in several:
        total = Equations(total.matrix.double() + more.matrix, total.right.double() + more.right)
    return Equations(total.matrix.to(dtype), total.right.to(dtype))


def _equations_of(part: Part, own: Tensor, free: int, mixture: Components) -> Equations:
    residuals = part.residuals(own)
    roots = mixture.weight_roots(residuals) * part.present
    return weighted_products(part.factors[:, :, :free], residuals, roots)


def weighted_products(factors: Tensor, residuals: Tensor, roots: Tensor) -> Equations:
    """Multiply factors with each other and with residuals, both times the roots of their weights."""
    weighted = factors * roots[:, :, None]
    right = weighted.mT @ (residuals * roots)[:, :, None]
    return Equations(weighted.mT @ weighted, right.squeeze(-1))


def solve_for_change(equations: Equations, own: Tensor, ridge: Tensor) -> tuple[Tensor, Tensor]:
    """Return by how much each row's factors change, and which rows are regular; the others' change is of no meaning."""
    diagonal = equations.matrix.diagonal(dim1=1, dim2=2)
    diagonal += ridge
    right = equations.right - ridge * own
    lower, regular = factorised(equations.matrix)
    return torch.cholesky_solve(right[:, :, None], lower).squeeze(-1), regular


def factorised(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return Cholesky factors, and which of them can be trusted in single precision."""
    lower, failed = torch.linalg.cholesky_ex(matrix)
    pivots = lower.diagonal(dim1=1, dim2=2).square()
    certain = (pivots > LEAST_PIVOT * matrix.diagonal(dim1=1, dim2=2)).all(dim=1)
    return lower, certain & (failed == 0)


def sums_over(parts: Iterable[Part], own: Tensor, counted: Tensor, mixture: Components) -> Tensor:
    """Sum up what Eq. 9 and Eq. 6 need over the reports of some rows of a batch."""
    sums = mixture.no_sums(own.device)
    for part in parts:
        sums += mixture.sums(part.residuals(own).float(), part.present & counted[:, None])
    return sums
