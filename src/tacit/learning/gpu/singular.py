"""Rows that their reports do not determine, or nearly not: solved afresh in doubles, for the least norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tacit.learning.gpu.batches import Batch, Cost, batches, runs
from tacit.learning.gpu.least_norm import solve_symmetric
from tacit.learning.gpu.plain import Equations, summed, sums_over
from tacit.learning.gpu.reading import Part, Reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch import Tensor

    from tacit.learning.gpu.components import Components
    from tacit.learning.gpu.reports import DeviceRows
    from tacit.learning.gpu.sweep import Sweep


def solve(irregular: Tensor, rows: DeviceRows, fixed: Tensor, solved: Tensor, sweep: Sweep) -> Tensor:
    """Solve the rows of a block that a half-sweep has left out; return the sums over them."""
    coordinates, free, mixture = sweep.coordinates, sweep.free, sweep.mixture
    reading = Reading(rows, sweep.table, fixed[:, :coordinates], torch.float64)
    sums = mixture.no_sums(solved.device)
    for batch, few in _batches(rows, irregular, sweep.least, Cost(coordinates, free, 8, sweep.memory)):
        which = irregular[batch.rows]
        parts = reading.parts(batch, which)
        own = solved[which, :coordinates].double()
        found = (
            _least_combination(parts, own, free, mixture) if few else _least_solution(parts, own, sweep.ridge, mixture)
        )
        solved[which, :free] = found.float()
        if sweep.statistics:
            own = solved[which, :coordinates].double()
            sums += sums_over(parts, own, torch.ones_like(which, dtype=torch.bool), mixture)
    return sums


def _batches(rows: DeviceRows, irregular: Tensor, least: int, cost: Cost) -> Iterator[tuple[Batch, bool]]:
    """Cut the rows into batches; say of each whether it has fewer reports than unknowns."""
    counts = rows.block.counts[irregular.cpu().numpy()]
    enough = counts >= least
    for few in (False, True):
        among = runs(counts * (enough ^ few), 1)
        yield from ((batch, few) for batch in batches(among, cost))


def _weighted(part: Part, own: Tensor, free: int, mixture: Components) -> tuple[Tensor, Tensor]:
    """Return factors and targets, both times the roots of their weights, which single precision is enough for."""
    held = (part.factors[:, :, free:] @ own[:, free:, None]).squeeze(-1)
    targets = part.values - held
    residuals = targets - (part.factors[:, :, :free] @ own[:, :free, None]).squeeze(-1)
    roots = (mixture.weight_roots(residuals.float()) * part.present).double()
    return part.factors[:, :, :free] * roots[:, :, None], targets * roots


def _least_solution(parts: Iterable[Part], own: Tensor, ridge: Tensor, mixture: Components) -> Tensor:
    """Solve the normal equations for the factors themselves."""
    found = summed(_equations_of(part, own, len(ridge), mixture) for part in parts)
    diagonal = found.matrix.diagonal(dim1=1, dim2=2)
    diagonal += ridge
    return solve_symmetric(found.matrix, found.right)


def _equations_of(part: Part, own: Tensor, free: int, mixture: Components) -> Equations:
    weighted, targets = _weighted(part, own, free, mixture)
    return Equations(weighted.mT @ weighted, (weighted.mT @ targets[:, :, None]).squeeze(-1))


def _least_combination(parts: Iterable[Part], own: Tensor, free: int, mixture: Components) -> Tensor:
    """With fewer reports than unknowns, S x = t has its least solution in S' (S S')^-1 t: a smaller system.

    Reports that only fill a row up are zero and count for nothing.
    """
    (part,) = parts
    weighted, targets = _weighted(part, own, free, mixture)
    shares = solve_symmetric(weighted @ weighted.mT, targets)
    return (weighted.mT @ shares[:, :, None]).squeeze(-1)
