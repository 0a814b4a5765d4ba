"""Rows with fewer reports than unknowns: a smaller system, with an unknown for each report.

With S a row's factors times the roots of the weights, t the targets times the same and R the ridge, the factors that
Eq. 10 asks for are R^-1 S' a, where (S R^-1 S' + I) a = t; without a ridge the least of all solutions has R = I, and
nothing is added. It has the eigenvalues of the system in the unknowns, scaled by the ridge, but for those that are just
1: these are all that its ridge has made regular.
"""

from __future__ import annotations

import triton
import triton.language as tl

from tacit.learning.gpu.kernels.reading import factors_of, own_factors, values_of, weights_of
from tacit.learning.gpu.kernels.solving import DONE, SOLVED


@triton.jit(do_not_specialize=["first_task"])
def relate(
    first_task,
    task_rows,
    task_starts,
    task_ends,
    columns,
    values,
    table,
    centre,
    fixed,
    solved,
    mixture,
    irregular,
    matrices,
    rights,
    roots,
    slack,
    added,
    free,
    stride: tl.constexpr,
    width: tl.constexpr,
    tile: tl.constexpr,
    size: tl.constexpr,
    components: tl.constexpr,
    codes: tl.constexpr,
    real: tl.constexpr,
    products: tl.constexpr,
    again: tl.constexpr,
):
    """Form the system of one row with at most `size` reports, and keep the roots of their weights.

    `slack` is 1 over the ridge, or ones without a ridge, and `added` what the diagonal gets. `again` leaves out rows
    that are solved.
    """
    slot = tl.program_id(0).to(tl.int64)
    row = tl.load(task_rows + first_task + slot).to(tl.int64)
    if again:  # noqa: SIM102 - decided when the kernel is compiled, unlike the other
        if tl.load(irregular + row) == DONE:
            return
    start, end = tl.load(task_starts + first_task + slot), tl.load(task_ends + first_task + slot)
    at = tl.arange(0, size)
    report = start + at
    present = report < end
    column = tl.load(columns + report, mask=present, other=0).to(tl.int64)
    target = values_of(values, table, centre, report, present, codes).to(real)
    known = tl.zeros([size], dtype=real)
    matrix = tl.zeros([size, size], dtype=real)
    for piece in range(0, width, tile):
        coordinate = piece + tl.arange(0, tile)
        other = factors_of(fixed, column, present, piece, stride, width, tile).to(real)
        own = own_factors(solved, row, piece, stride, tile).to(real)
        loose = tl.load(slack + coordinate, mask=coordinate < free, other=0.0).to(real)
        target -= tl.sum(other * tl.where(coordinate < free, 0.0, own)[None, :], axis=1)
        known += tl.sum(other * tl.where(coordinate < free, own, 0.0)[None, :], axis=1)
        loosened = other * loose[None, :]
        if real == tl.float64:
            # As where equations are formed in a row's unknowns: a sum of one term hides that these were singles.
            loosened, other = tl.sum(loosened[:, :, None], axis=2), tl.sum(other[:, :, None], axis=2)
        matrix = tl.dot(loosened, tl.trans(other), matrix, input_precision=products, out_dtype=real)
    weight = tl.where(present, weights_of((target - known).to(tl.float32), mixture, components), 0.0)
    root = tl.sqrt(weight).to(real)
    target += known - known  # what is not a number stays so
    matrix = matrix * root[:, None] * root[None, :]
    matrix += tl.where(at[:, None] == at[None, :], tl.where(present, added, 1.0)[:, None], 0.0)
    tl.store(matrices + slot * size * size + at[:, None] * size + at[None, :], matrix)
    tl.store(rights + slot * size + at, root * target)
    tl.store(roots + slot * size + at, root)


@triton.jit(do_not_specialize=["first_task"])
def combine(
    first_task,
    task_rows,
    task_starts,
    task_ends,
    columns,
    fixed,
    solved,
    irregular,
    rights,
    roots,
    slack,
    free,
    stride: tl.constexpr,
    width: tl.constexpr,
    tile: tl.constexpr,
    size: tl.constexpr,
    real: tl.constexpr,
):
    """Put the factors of one row together from the solution of its system, if that could be trusted."""
    slot = tl.program_id(0).to(tl.int64)
    row = tl.load(task_rows + first_task + slot).to(tl.int64)
    if tl.load(irregular + row) != SOLVED:
        return
    start, end = tl.load(task_starts + first_task + slot), tl.load(task_ends + first_task + slot)
    at = tl.arange(0, size)
    present = start + at < end
    column = tl.load(columns + start + at, mask=present, other=0).to(tl.int64)
    share = tl.load(rights + slot * size + at) * tl.load(roots + slot * size + at)
    for piece in range(0, width, tile):
        coordinate = piece + tl.arange(0, tile)
        other = factors_of(fixed, column, present, piece, stride, width, tile).to(real)
        loose = tl.load(slack + coordinate, mask=coordinate < free, other=0.0).to(real)
        found = tl.sum(other * share[:, None], axis=0) * loose
        tl.store(solved + row * stride + coordinate, found.to(tl.float32), mask=coordinate < free)
    tl.store(irregular + row, DONE)
