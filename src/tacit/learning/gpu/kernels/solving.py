"""Solving systems: a symmetric matrix a row, factorised in panels."""

from __future__ import annotations

import triton
import triton.language as tl

from tacit.learning.gpu.kernels.reading import own_factors

PANEL = tl.constexpr(16)

# How it stands with a row: done, not to be trusted, or solved for its reports and not yet for its factors.
DONE = tl.constexpr(0)
IRREGULAR = tl.constexpr(1)
SOLVED = tl.constexpr(2)


@triton.jit
def _inverse_root(block, begun, least_pivot):
    """Return the transposed inverse of a small matrix's Cholesky factor, and whether all pivots were large enough.

    The inverse takes the matrix's place, column by column; the rest stays symmetric, so that its columns are its lines.
    """
    at = tl.arange(0, PANEL)
    pivots = begun
    for k in range(PANEL):
        column = tl.sum(tl.where((at == k)[None, :], block, 0.0), axis=1)
        pivot = tl.sum(tl.where(at == k, column, 0.0), axis=0)
        pivots = tl.where(at == k, pivot, pivots)
        behind = (at > k)[None, :]
        multiples = column * (1.0 / pivot)
        block = tl.where((at == k)[:, None] & behind, 0.0, block)
        block -= tl.where(at == k, 1.0, column)[:, None] * tl.where(behind, multiples[None, :], 0.0)
    above, on = at[:, None] < at[None, :], at[:, None] == at[None, :]
    root = tl.where(above, block, tl.where(on, 1.0, 0.0)) / tl.sqrt(pivots)[None, :]
    return root, tl.min((pivots > least_pivot * begun).to(tl.int32), axis=0)


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
def _reduced(found, matrices, panel, width: tl.constexpr, real: tl.constexpr, products: tl.constexpr):
    """Take out of a panel's columns what the panels before explain."""
    at, within = tl.arange(0, width), tl.arange(0, PANEL)
    for before in range(0, panel, PANEL):
        below = at[:, None] >= panel
        left = tl.load(matrices + at[:, None] * width + before + within[None, :], mask=below, other=0.0)
        here = tl.load(matrices + (panel + within)[:, None] * width + before + within[None, :])
        found -= tl.dot(left, tl.trans(here), input_precision=products, out_dtype=real)
    return found


@triton.jit
def _substituted(matrices, inverses, right, width: tl.constexpr):
    """Go back through the panels of a factorised matrix."""
    at, within = tl.arange(0, width), tl.arange(0, PANEL)
    for behind in range(0, width, PANEL):
        panel = width - PANEL - behind
        below = at[:, None] >= panel + PANEL
        left = tl.load(matrices + at[:, None] * width + panel + within[None, :], mask=below, other=0.0)
        inverse = tl.load(inverses + panel * PANEL + within[:, None] * PANEL + within[None, :])
        in_panel = at[None, :] == panel + within[:, None]
        rest = tl.sum(tl.where(in_panel, right[None, :], 0.0), axis=1) - tl.sum(left * right[:, None], axis=0)
        found = tl.sum(inverse * rest[None, :], axis=1)
        kept = tl.sum(tl.where(in_panel, found[:, None], 0.0), axis=0)
        right = tl.where((at >= panel) & (at < panel + PANEL), kept, right)
    return right


@triton.jit(do_not_specialize=["first", "first_slot"])
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
    irregular,
    free,
    least_pivot,
    stride: tl.constexpr,
    width: tl.constexpr,
    real: tl.constexpr,
    products: tl.constexpr,
    again: tl.constexpr,
    few: tl.constexpr,
):
    """Solve one row for the change of its factors; a row that cannot be trusted is marked and left as it is.

    A row of `few` reports is a system of its own, solved where its right side is.

    The matrix is factorised as L L' by panels: of every panel its columns of L, which take the place of the matrix's,
    and the inverse of its triangle on the diagonal are kept. Nothing else is inverted, so that rounding is no worse
    than Cholesky's.
    """
    place = first + tl.program_id(0).to(tl.int64)
    row = tl.load(rows + place).to(tl.int64)
    if again:  # noqa: SIM102 - decided when the kernel is compiled, unlike the other
        if tl.load(irregular + row) == DONE:
            return
    slot, last = tl.load(slot_starts + place), tl.load(slot_starts + place + 1)
    matrices += (slot - first_slot) * width * width
    rights += (slot - first_slot) * width
    inverses += (slot - first_slot) * width * PANEL
    slots = (last - slot).to(tl.int32)
    at, within = tl.arange(0, width), tl.arange(0, PANEL)
    across = within[:, None] * PANEL + within[None, :]
    own = tl.zeros([width], dtype=real)
    pull = own
    if not few:
        own = own_factors(solved, row, 0, stride, width).to(real)
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
        found = _reduced(found, matrices, panel, width, real, products)
        of_panel = (at[:, None] >= panel) & (at[:, None] < panel + PANEL)
        tl.debug_barrier()  # all segments' columns are read before the first is overwritten
        tl.store(matrices + at[:, None] * width + panel + within[None, :], found, mask=of_panel)
        tl.debug_barrier()
        square = tl.load(matrices + (panel + within)[:, None] * width + panel + within[None, :])
        inverse, fine = _inverse_root(square, begun, least_pivot)
        regular &= fine
        tl.store(inverses + panel * PANEL + across, inverse)
        found = tl.dot(found, inverse, input_precision=products, out_dtype=real)
        tl.debug_barrier()  # the square is read before columns of the factor take its place
        tl.store(matrices + at[:, None] * width + panel + within[None, :], found, mask=at[:, None] >= panel)
        tl.debug_barrier()  # the next panel reads both
        part_of_right = tl.sum(tl.where(in_panel, right[None, :], 0.0), axis=1)
        scaled = tl.sum(inverse * part_of_right[:, None], axis=0)
        reduced = right - tl.sum(found * scaled[None, :], axis=1)
        kept = tl.sum(tl.where(in_panel, scaled[:, None], 0.0), axis=0)
        right = tl.where(at < panel, right, tl.where(at < panel + PANEL, kept, reduced))
    right = _substituted(matrices, inverses, right, width)
    if few:
        tl.store(rights + at, right)
        tl.store(irregular + row, tl.where(regular == 1, SOLVED, IRREGULAR).to(tl.int8))
    else:
        tl.store(irregular + row, tl.where(regular == 1, DONE, IRREGULAR).to(tl.int8))
        tl.store(solved + row * stride + at, (own + right).to(tl.float32), mask=at < regular * free)
