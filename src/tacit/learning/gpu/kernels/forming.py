"""Forming the normal equations of rows, segment by segment, in a row's unknowns."""

from __future__ import annotations

import triton
import triton.language as tl

from tacit.learning.gpu.kernels.reading import factors_of, own_factors, values_of, weights_of
from tacit.learning.gpu.kernels.solving import DONE


@triton.jit(do_not_specialize=["first_task"])
def accumulate(
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
    stride: tl.constexpr,
    width: tl.constexpr,
    tile: tl.constexpr,
    block: tl.constexpr,
    components: tl.constexpr,
    codes: tl.constexpr,
    real: tl.constexpr,
    again: tl.constexpr,
):
    """Form the normal equations (Eq. 10) of one segment of a row's reports, for the change of its factors.

    Wide matrices are formed tile by tile, those above the diagonal left out. `again` leaves out rows that are solved.
    """
    slot = tl.program_id(0).to(tl.int64)
    down, along = _tile_of(tl.program_id(1), tile)
    row = tl.load(task_rows + first_task + slot).to(tl.int64)
    if again:  # noqa: SIM102 - decided when the kernel is compiled, unlike the other
        if tl.load(irregular + row) == DONE:
            return
    start, end = tl.load(task_starts + first_task + slot), tl.load(task_ends + first_task + slot)
    matrix = tl.zeros([tile, tile], dtype=real)
    right = tl.zeros([tile], dtype=real)
    for passed in range(0, (end - start).to(tl.int32), block):
        report = start + passed + tl.arange(0, block)
        present = report < end
        column = tl.load(columns + report, mask=present, other=0).to(tl.int64)
        residual = values_of(values, table, centre, report, present, codes).to(real)
        for piece in tl.static_range(0, width, tile):
            other = factors_of(fixed, column, present, piece, stride, width, tile).to(real)
            residual -= tl.sum(other * own_factors(solved, row, piece, stride, tile).to(real)[None, :], axis=1)
        weight = tl.where(present, weights_of(residual.to(tl.float32), mixture, components), 0.0).to(real)
        left = other
        if width != tile:
            other = factors_of(fixed, column, present, along, stride, width, tile).to(real)
            left = factors_of(fixed, column, present, down, stride, width, tile).to(real)
        right += tl.sum(left * (weight * residual)[:, None], axis=0)
        weighted = left * weight[:, None]
        if real == tl.float64:
            # Some compilers trip over doubles that have just been singles; a sum of one term hides what they were.
            weighted, other = tl.sum(weighted[:, :, None], axis=2), tl.sum(other[:, :, None], axis=2)
        # Here plain products are quicker than those of shortened numbers: they keep their pace in small blocks.
        matrix = tl.dot(tl.trans(weighted), other, matrix, input_precision="ieee", out_dtype=real)
    at = tl.arange(0, tile)
    cells = (down + at)[:, None] * width + (along + at)[None, :]
    tl.store(matrices + slot * width * width + cells, matrix)
    if along == 0:
        tl.store(rights + slot * width + down + at, right)


@triton.jit
def _tile_of(number, tile: tl.constexpr):
    """Return where a tile starts, down and along, tiles on and below the diagonal being numbered line by line."""
    down = 0
    while (down + 1) * (down + 2) // 2 <= number:
        down += 1
    return down * tile, (number - down * (down + 1) // 2) * tile
