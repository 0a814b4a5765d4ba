"""Rows that their reports do not determine, or nearly not: solved afresh in doubles, for the least norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from tacit.learning.gpu.batches import Batch, Cost, Run, batches, runs
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
    for batch, which, few in _batches(rows, irregular, sweep):
        parts = reading.parts(batch, which)
        own = solved[which, :coordinates].double()
        if few:
            found = _least_combination(parts, own, free, mixture)
        else:
            found = _least_solution(parts, own, sweep.pull.ridge, mixture)
        solved[which, :free] = found.float()
        if sweep.statistics:
            own = solved[which, :coordinates].double()
            sums += sums_over(parts, own, torch.ones_like(which, dtype=torch.bool), mixture)
    return sums


def _batches(rows: DeviceRows, irregular: Tensor, sweep: Sweep) -> Iterator[tuple[Batch, Tensor, bool]]:
    """Cut the rows into batches; say of each which rows it has, and whether these have fewer reports than unknowns.

    Every batch has a price of its own, whatever is in it: as many rows as memory allows are filled up to the longest.
    """
    cost = Cost(sweep.coordinates, sweep.free, 8, sweep.memory)
    counts = rows.block.counts[irregular.cpu().numpy()]
    for few in (False, True):
        chosen = np.flatnonzero((counts < sweep.pull.least) == few)
        among = runs(counts[chosen], 1)
        longest = max((run.length for run in among), default=0)
        if longest and len(chosen) * (cost.row + longest * cost.report) <= cost.memory:
            among = (Run(0, len(chosen), longest),)
        places = irregular[torch.from_numpy(chosen).to(irregular.device)]
        yield from ((batch, places[batch.rows], few) for batch in batches(among, cost))


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

    Reports that only fill a row up are zero and count for nothing; an entry on the diagonal keeps their system regular.
    """
    (part,) = parts
    weighted, targets = _weighted(part, own, free, mixture)
    matrix = weighted @ weighted.mT
    diagonal = matrix.diagonal(dim1=1, dim2=2)
    diagonal += ~part.present * diagonal.amax(dim=1, keepdim=True)
    shares = solve_symmetric(matrix, targets)
    return (weighted.mT @ shares[:, :, None]).squeeze(-1)
