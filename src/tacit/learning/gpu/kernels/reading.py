"""What the fused kernels share: fetching reports, factors and the noise, and the weights of Eq. 10."""

from __future__ import annotations

import triton
import triton.language as tl

from tacit.learning import kernels

MOST_COMPONENTS = tl.constexpr(kernels.MOST_COMPONENTS)  # entries in each row of the table that a mixture is given as


@triton.jit
def weights_of(residual, mixture, components: tl.constexpr):
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
def factors_of(fixed, column, present, piece, stride: tl.constexpr, width: tl.constexpr, tile: tl.constexpr):
    """Fetch a tile of factors from `piece` on, of every report of a block; rows may be shorter than they are wide."""
    at = piece + tl.arange(0, tile)
    wanted = present[:, None]
    if stride < width:
        wanted = wanted & (at < stride)[None, :]
    return tl.load(fixed + column[:, None] * stride + at[None, :], mask=wanted, other=0.0)


@triton.jit
def values_of(values, table, centre, report, present, codes: tl.constexpr):
    """Read what a block of reports stands for: codes in a table, or plain numbers less the centre."""
    said = tl.load(values + report, mask=present, other=0)
    if codes:
        return tl.load(table + said.to(tl.int32), mask=present, other=0.0)
    return tl.where(present, said - centre, 0.0)


@triton.jit
def own_factors(solved, row, piece, stride: tl.constexpr, width: tl.constexpr):
    """Fetch so many factors of one row from `piece` on."""
    at = piece + tl.arange(0, width)
    return tl.load(solved + row * stride + at, mask=at < stride, other=0.0)
