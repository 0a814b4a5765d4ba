"""Summing up what the mixture's update needs, at the new factors."""

from __future__ import annotations

import triton
import triton.language as tl

from tacit.learning.gpu.kernels.reading import MOST_COMPONENTS, factors_of, own_factors, values_of
from tacit.learning.gpu.kernels.solving import DONE


@triton.jit(do_not_specialize=["first_task"])
def summarise(
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
    sums,
    stride: tl.constexpr,
    width: tl.constexpr,
    tile: tl.constexpr,
    block: tl.constexpr,
    components: tl.constexpr,
    codes: tl.constexpr,
):
    """Sum up the log-likelihood (Eq. 6) and what Eq. 9 needs over one segment, unless its row is left to others."""
    slot = tl.program_id(0).to(tl.int64)
    task = first_task + slot
    row = tl.load(task_rows + task).to(tl.int64)
    start, end = tl.load(task_starts + task), tl.load(task_ends + task)
    if tl.load(irregular + row) != DONE:
        end = start
    logarithm = tl.zeros([block], dtype=tl.float32)
    at = tl.arange(0, MOST_COMPONENTS)
    responsibility = tl.zeros([MOST_COMPONENTS], dtype=tl.float32)
    square = tl.zeros([MOST_COMPONENTS], dtype=tl.float32)
    log_scale, widest = tl.load(mixture + 3 * MOST_COMPONENTS), tl.load(mixture)
    for passed in range(0, (end - start).to(tl.int32), block):
        report = start + passed + tl.arange(0, block)
        present = report < end
        column = tl.load(columns + report, mask=present, other=0).to(tl.int64)
        residual = values_of(values, table, centre, report, present, codes)
        for piece in tl.static_range(0, width, tile):
            other = factors_of(fixed, column, present, piece, stride, width, tile)
            residual -= tl.sum(other * own_factors(solved, row, piece, stride, tile)[None, :], axis=1)
        squares = residual * residual
        total = tl.full([block], 1.0, tl.float32)
        for k in tl.static_range(1, components):
            total += tl.exp(
                tl.load(mixture + MOST_COMPONENTS + k) - tl.load(mixture + 2 * MOST_COMPONENTS + k) * squares
            )
        inverse = tl.where(present, 1.0 / total, 0.0)
        for k in tl.static_range(components):
            share = inverse
            if k > 0:
                gap = tl.load(mixture + 2 * MOST_COMPONENTS + k) * squares
                share = inverse * tl.exp(tl.load(mixture + MOST_COMPONENTS + k) - gap)
            responsibility += tl.where(at == k, tl.sum(share, axis=0), 0.0)
            square += tl.where(at == k, tl.sum(share * squares, axis=0), 0.0)
        logarithm += tl.where(present, tl.log(total) - widest * squares + log_scale, 0.0)
    out = sums + slot * (1 + 2 * components)
    tl.store(out, tl.sum(logarithm, axis=0))
    tl.store(out + 1 + at, responsibility, mask=at < components)
    tl.store(out + 1 + components + at, square, mask=at < components)
