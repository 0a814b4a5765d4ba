"""Symmetric systems in doubles that may be singular: the solution of least norm, many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

# Pivots below this share of the largest count as zero: factors in single precision carry no more than that.
_LEAST_PIVOT = 1e-10
# Above this one, pivots will do as they come: it leaves room for what they may hide, and doubles have digits to spare.
_CERTAIN_PIVOT = 1e-8
# Rows times the cube of their unknowns: so little is done by a processor before a GPU is told all steps of it.
_SMALL = 1 << 24


def solve_symmetric(matrix: Tensor, right: Tensor) -> Tensor:
    """Solve positive semi-definite systems, those that are singular for the least norm; not a number stays so."""
    diagonal = matrix.diagonal(dim1=1, dim2=2)
    lower, failed = torch.linalg.cholesky_ex(matrix)
    smallest = lower.diagonal(dim1=1, dim2=2).square().amin(dim=1)
    certain = (failed == 0) & (smallest > _CERTAIN_PIVOT * diagonal.amax(dim=1))
    found = torch.cholesky_solve(right[:, :, None], lower).squeeze(-1)
    left = torch.nonzero(~certain).squeeze(-1)
    if len(left):
        size, place = len(left) * matrix.shape[1] ** 3, matrix.device
        where = torch.device("cpu") if size <= _SMALL else place
        found[left] = _least_norm(matrix[left].to(where), right[left].to(where)).to(place)
    return found


def _least_norm(matrix: Tensor, right: Tensor) -> Tensor:
    """With matrix = L L', L = Q R and Q'Q = 1, the least solution is Q R'^-1 R^-1 Q' right."""
    basis, upper, live = _orthogonal_root(matrix)
    inner = (basis.mT @ right[:, :, None]) * live[:, :, None]
    inner = torch.linalg.solve_triangular(upper, inner, upper=True)
    inner = torch.linalg.solve_triangular(upper.mT, inner, upper=False)
    found: Tensor = (basis @ inner).squeeze(-1)
    trace = matrix.diagonal(dim1=1, dim2=2).sum(dim=1, keepdim=True)
    return found + (trace - trace)


def _orthogonal_root(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Factorise matrices as L L' with the largest remaining pivot first, until nothing is left, and L as Q R.

    Returns Q, R and which of their columns are live; the others are zero, with 1 on R's diagonal.
    """
    systems, size, _ = matrix.shape
    each = torch.arange(systems, device=matrix.device)
    lower, basis, upper = torch.zeros_like(matrix), torch.zeros_like(matrix), torch.zeros_like(matrix)
    live = torch.zeros(systems, size, dtype=torch.bool, device=matrix.device)
    remaining = matrix.diagonal(dim1=1, dim2=2).clone()
    least = _LEAST_PIVOT * remaining.amax(dim=1)
    for step in range(size):
        pivot, at = remaining.max(dim=1)
        live[:, step] = pivot > least
        column = matrix[each, at] - (lower[:, :, :step] @ lower[each, at, :step, None]).squeeze(-1)
        column[each, at] = pivot
        column = torch.where(live[:, step, None], column / pivot.sqrt()[:, None], 0.0)
        lower[:, :, step] = column
        remaining -= column.square()
        remaining[each, at] = 0.0
        upper[:, :step, step], length, basis[:, :, step] = _orthonormalised(basis[:, :, :step], column)
        upper[:, step, step] = torch.where(live[:, step], length, 1.0)
    return basis, upper, live


def _orthonormalised(basis: Tensor, column: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Take a basis out of a column, twice over for accuracy; return its shares, the length left and its direction."""
    first = basis.mT @ column[:, :, None]
    column = column - (basis @ first).squeeze(-1)
    second = basis.mT @ column[:, :, None]
    column = column - (basis @ second).squeeze(-1)
    length = column.norm(dim=1)
    direction = column / torch.where(length > 0, length, 1.0)[:, None]
    return (first + second).squeeze(-1), length, direction
