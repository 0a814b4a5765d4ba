"""Sweeps as Triton kernels: reports are read once a pass, and neither weights nor responsibilities are ever stored.

Three kernels make a half-sweep. `accumulate` forms the normal equations of rows, `solve` solves them for the change of
the factors, and `summarise` sums up what the mixture's update needs at the new factors. A row with many reports is
formed in segments that are added in order, so that results do not depend on what runs when. The first two compute in
`real` numbers, single or double: rows that turn out to be nearly singular are done again in doubles.
"""

from __future__ import annotations

import triton
import triton.language as tl

PANEL = tl.constexpr(16)
MOST_COMPONENTS = tl.constexpr(16)  # entries in each row of the table that a mixture is given as


@triton.jit
def _weights(residual, mixture, components: tl.constexpr):
    """Return the weight of Eq. 10, with responsibilities (Eq. 8) relative to the widest component."""
    squares = residual * residual
    total = tl.full(residual.shape, 1.0, tl.float32)
    weighted = total * tl.load(mixture)
    for k in tl.static_range(1, components):
        share = tl.exp(tl.load(mixture + MOST_COMPONENTS + k) - tl.load(mixture + 2 * MOST_COMPONENTS + k) * squares)
        total += share
        weighted += share * tl.load(mixture + k)
    return 2.0 * weighted / total


@triton.jit
def _factors(fixed, column, present, piece, stride: tl.constexpr, width: tl.constexpr):
    """Fetch so many factors from `piece` on, of every report of a block."""
    at = piece + tl.arange(0, width)
    wanted = present[:, None]
    if stride % width != 0:
        wanted = wanted & (at < stride)[None, :]
    return tl.load(fixed + column[:, None] * stride + at[None, :], mask=wanted, other=0.0)


@triton.jit
def _values(values, table, centre, report, present, codes: tl.constexpr):
    """Read what a block of reports stands for: codes in a table, or plain numbers less the centre."""
    said = tl.load(values + report, mask=present, other=0)
    if codes:
        return tl.load(table + said.to(tl.int32), mask=present, other=0.0)
    return tl.where(present, said - centre, 0.0)


@triton.jit
def _own_factors(solved, row, piece, stride: tl.constexpr, width: tl.constexpr):
    at = piece + tl.arange(0, width)
    return tl.load(solved + row * stride + at, mask=at < stride, other=0.0)


@triton.jit
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
        if tl.load(irregular + row) == 0:
            return
    start, end = tl.load(task_starts + first_task + slot), tl.load(task_ends + first_task + slot)
    matrix = tl.zeros([tile, tile], dtype=real)
    right = tl.zeros([tile], dtype=real)
    for passed in range(0, (end - start).to(tl.int32), block):
        report = start + passed + tl.arange(0, block)
        present = report < end
        column = tl.load(columns + report, mask=present, other=0).to(tl.int64)
        residual = _values(values, table, centre, report, present, codes).to(real)
        for piece in tl.static_range(0, width, tile):
            other = _factors(fixed, column, present, piece, stride, tile).to(real)
            residual -= tl.sum(other * _own_factors(solved, row, piece, stride, tile).to(real)[None, :], axis=1)
        weight = tl.where(present, _weights(residual.to(tl.float32), mixture, components), 0.0).to(real)
        left = other
        if width != tile:
            other = _factors(fixed, column, present, along, stride, tile).to(real)
            left = _factors(fixed, column, present, down, stride, tile).to(real)
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


@triton.jit
def _inverted(block, begun, least_pivot):
    """Invert a small system in place by Gauss and Jordan; return also whether all pivots were large enough."""
    at = tl.arange(0, PANEL)
    pivots = begun
    for k in range(PANEL):
        in_line, in_column = (at == k)[:, None], (at == k)[None, :]
        line = tl.sum(tl.where(in_line, block, 0.0), axis=0)
        column = tl.sum(tl.where(in_column, block, 0.0), axis=1)
        pivot = tl.sum(tl.where(at == k, line, 0.0), axis=0)
        pivots = tl.where(at == k, pivot, pivots)
        inverse = 1.0 / pivot
        rest = block - (column * inverse)[:, None] * line[None, :]
        rest = tl.where(in_column, -(column * inverse)[:, None], rest)
        block = tl.where(in_line, tl.where(in_column, inverse, (line * inverse)[None, :]), rest)
    return block, tl.min((pivots > least_pivot * begun).to(tl.int32), axis=0)


@triton.jit
def _panel(matrices, slots, pull, free, panel, width: tl.constexpr, real: tl.constexpr):
    """Add up the columns of a row's segments from `panel` on, as many as a panel has, with the ridge."""
    at, within = tl.arange(0, width), tl.arange(0, PANEL)
    down, along = at[:, None], panel + within[None, :]
    below = (down >= panel) & (down < free) & (along < free)
    found = tl.zeros([width, PANEL], dtype=real)
    for _ in range(slots):
        found += tl.load(matrices + down * width + along, mask=below, other=0.0)
        matrices += width * width  # step by step: the product could pass 2^31
    return found + tl.where(down == along, pull[:, None], 0.0)


@triton.jit
def _substituted(matrices, inverses, right, width: tl.constexpr):
    """Go back through the panels of a factorised matrix, from the last but one."""
    at, within = tl.arange(0, width), tl.arange(0, PANEL)
    for behind in range(PANEL, width, PANEL):
        panel = width - PANEL - behind
        below = at[:, None] >= panel + PANEL
        left = tl.load(matrices + at[:, None] * width + panel + within[None, :], mask=below, other=0.0)
        inverse = tl.load(inverses + panel * PANEL + within[:, None] * PANEL + within[None, :])
        taken = tl.sum(inverse * tl.sum(left * right[:, None], axis=0)[None, :], axis=1)
        right -= tl.sum(tl.where(at[None, :] == panel + within[:, None], taken[:, None], 0.0), axis=0)
    return right


@triton.jit
def solve(
    first,
    first_slot,
    rows,
    slot_starts,
    matrices,
    rights,
    inverses,
    solved,
    ridge,
    least_reports,
    starts,
    irregular,
    free,
    least_pivot,
    stride: tl.constexpr,
    width: tl.constexpr,
    real: tl.constexpr,
    precision: tl.constexpr,
    again: tl.constexpr,
):
    """Solve one row for the change of its factors; a row that cannot be trusted is marked and left as it is.

    The matrix is factorised as L D L' by panels, D being block-diagonal: of every panel its columns of L D, which take
    the place of the matrix's, and the inverse of its block of D are kept.
    """
    place = first + tl.program_id(0).to(tl.int64)
    row = tl.load(rows + place).to(tl.int64)
    if again:  # noqa: SIM102 - decided when the kernel is compiled, unlike the other
        if tl.load(irregular + row) == 0:
            return
    slot, last = tl.load(slot_starts + place), tl.load(slot_starts + place + 1)
    matrices += (slot - first_slot) * width * width
    rights += (slot - first_slot) * width
    inverses += (slot - first_slot) * width * PANEL
    slots = (last - slot).to(tl.int32)
    at, within = tl.arange(0, width), tl.arange(0, PANEL)
    across = within[:, None] * PANEL + within[None, :]
    own = _own_factors(solved, row, 0, stride, width).to(real)
    pull = tl.load(ridge + at, mask=at < free, other=1.0).to(real)
    right = -pull * own
    for part in range(slots):
        right += tl.load(rights + part * width + at)
    right = tl.where(at < free, right, 0.0)
    regular = 1
    for panel in range(0, width, PANEL):
        in_panel = at[None, :] == panel + within[:, None]
        found = _panel(matrices, slots, pull, free, panel, width, real)
        begun = tl.sum(tl.where(at[:, None] == panel + within[None, :], found, 0.0), axis=0)
        for before in range(0, panel, PANEL):
            below = at[:, None] >= panel
            left = tl.load(matrices + at[:, None] * width + before + within[None, :], mask=below, other=0.0)
            here = tl.load(matrices + (panel + within)[:, None] * width + before + within[None, :])
            inverse = tl.load(inverses + before * PANEL + across)
            share = tl.dot(here, inverse, input_precision=precision, out_dtype=real)
            found -= tl.dot(left, tl.trans(share), input_precision=precision, out_dtype=real)
        tl.debug_barrier()  # all segments' columns are read before the first is overwritten
        tl.store(matrices + at[:, None] * width + panel + within[None, :], found, mask=at[:, None] >= panel)
        tl.debug_barrier()
        square = tl.load(matrices + (panel + within)[:, None] * width + panel + within[None, :])
        inverse, fine = _inverted(square, begun, least_pivot)
        regular &= fine
        tl.store(inverses + panel * PANEL + across, inverse)
        tl.debug_barrier()  # the next panel reads it
        part_of_right = tl.sum(tl.where(in_panel, right[None, :], 0.0), axis=1)
        scaled = tl.sum(inverse * part_of_right[None, :], axis=1)
        reduced = right - tl.sum(found * scaled[None, :], axis=1)
        kept = tl.sum(tl.where(in_panel, scaled[:, None], 0.0), axis=0)
        right = tl.where(at < panel, right, tl.where(at < panel + PANEL, kept, reduced))
    tl.debug_barrier()
    right = _substituted(matrices, inverses, right, width)
    enough = tl.load(starts + row + 1) - tl.load(starts + row) >= least_reports
    sound = tl.where(enough, regular, 0)
    tl.store(irregular + row, (1 - sound).to(tl.int8))
    tl.store(solved + row * stride + at, (own + right).to(tl.float32), mask=at < sound * free)


@triton.jit
def summarise(
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
    task = tl.program_id(0).to(tl.int64)
    row = tl.load(task_rows + task).to(tl.int64)
    start, end = tl.load(task_starts + task), tl.load(task_ends + task)
    if tl.load(irregular + row) != 0:
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
        residual = _values(values, table, centre, report, present, codes)
        for piece in tl.static_range(0, width, tile):
            other = _factors(fixed, column, present, piece, stride, tile)
            residual -= tl.sum(other * _own_factors(solved, row, piece, stride, tile)[None, :], axis=1)
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
    out = sums + task * (1 + 2 * components)
    tl.store(out, tl.sum(logarithm, axis=0))
    tl.store(out + 1 + at, responsibility, mask=at < components)
    tl.store(out + 1 + components + at, square, mask=at < components)
