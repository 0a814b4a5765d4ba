"""The integer table behind a channel: its exact loss, and drawing from it.

Row r, column y holds the probability of saying y when the rating has rank r,
as a positive integer in units of 2^-64. What can be said of privacy is said
from these integers; floats appear only where they hold integers exactly.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ChannelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROW_TOTAL = 2**64
MOST_SYMBOLS = 4096
MOST_ENTRIES = 2**18

# A float64 holds integers up to 2^53, so a 64-bit word is compared as its upper
# 53 bits and, only for tables that need them, its lower 11.
LOW_BITS = 11
_LOW_MASK = np.uint64(2**LOW_BITS - 1)

# Draws are made in blocks that stay in the processor's second-level cache.
_BLOCK_BYTES = 2**20


@dataclass(frozen=True)
class WeightTable:
    """One row of positive integers per rank, one column per symbol, each row summing to 2^64."""

    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        """Refuse a table that is ragged, too large, has an impossible symbol or a wrong row sum."""
        symbols = len(self.rows[0]) if self.rows else 0
        if len(self.rows) < 2 or symbols < 2:  # noqa: PLR2004 - one of either tells nothing
            msg = f"a channel needs at least 2 ranks and 2 symbols, not {len(self.rows)} and {symbols}"
            raise ChannelError(msg)
        if symbols > MOST_SYMBOLS or symbols * len(self.rows) > MOST_ENTRIES:
            msg = (
                f"a channel of {len(self.rows)} ranks x {symbols} symbols is over the limit of "
                f"{MOST_SYMBOLS} symbols and {MOST_ENTRIES} entries; use a coarser scale or grid"
            )
            raise ChannelError(msg)
        for rank, row in enumerate(self.rows):
            _check_row(rank, row, symbols)

    @cached_property
    def worst_ratio(self) -> Fraction:
        """The largest ratio of two probabilities of the same symbol: e to the exact privacy loss."""
        columns = zip(*self.rows, strict=True)
        return max(Fraction(max(column), min(column)) for column in columns)

    @property
    def ranks(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def symbols(self) -> int:
        """The number of columns."""
        return len(self.rows[0])

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """The table as floating-point probabilities, for learning; never for claims."""
        table = np.array([[weight / ROW_TOTAL for weight in row] for row in self.rows])
        table.setflags(write=False)
        return table

    @cached_property
    def _thresholds(self) -> NDArray[np.uint64]:
        """Cumulative sums of each row, the last excluded: one column per rank."""
        sums = [list(accumulate(row))[:-1] for row in self.rows]
        return np.ascontiguousarray(np.array(sums, dtype=np.uint64).T)

    @cached_property
    def _limbs(self) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """The thresholds' upper 53 bits, and their lower 11 unless all are zero."""
        upper = (self._thresholds >> np.uint64(LOW_BITS)).astype(np.float64)
        lower = (self._thresholds & _LOW_MASK).astype(np.float64)
        return upper, lower if lower.any() else None

    def draw(self, ranks: NDArray[np.uint16], words: NDArray[np.uint64]) -> NDArray[np.uint16]:
        """Turn each rank and its uniform 64-bit word into a symbol.

        The symbol is the number of cumulative sums of the rank's row, the last
        excluded, that are <= the word. Every draw multiplies the whole table by
        an indicator of the rank and compares the word with the whole selected
        row, so operations and memory accesses depend on neither.
        """
        drawn = np.empty(len(ranks), dtype=np.uint16)
        block = max(64, _BLOCK_BYTES // (8 * self.symbols))
        for start in range(0, len(ranks), block):
            part = slice(start, start + block)
            drawn[part] = self._draw_block(ranks[part], words[part])
        return drawn

    def _draw_block(self, ranks: NDArray[np.uint16], words: NDArray[np.uint64]) -> NDArray[np.uint16]:
        upper, lower = self._limbs
        is_rank = (np.arange(self.ranks, dtype=np.uint16)[:, np.newaxis] == ranks).astype(np.float64)
        # Products with 0 and 1 only, and one term per sum that is not 0: exact.
        row = upper @ is_rank
        if lower is not None:
            # A threshold equal to the word in its upper bits but above it in the
            # lower ones must not count: carry it up by one.
            row += (lower @ is_rank) > (words & _LOW_MASK).astype(np.float64)
        reached = row <= (words >> np.uint64(LOW_BITS)).astype(np.float64)
        small = self.symbols <= 256  # noqa: PLR2004 - counts up to 255 fit a byte, and bytes add faster
        counts = np.add.reduce(reached.view(np.uint8), axis=0, dtype=np.uint8 if small else np.uint16)
        return np.asarray(counts, dtype=np.uint16)


def _check_row(rank: int, row: tuple[int, ...], symbols: int) -> None:
    if len(row) != symbols:
        msg = f"row {rank} of the channel has {len(row)} weights, the first row has {symbols}"
        raise ChannelError(msg)
    if min(row) < 1:
        msg = f"row {rank} of the channel holds the weight {min(row)}; every symbol must be possible for every rating"
        raise ChannelError(msg)
    if sum(row) != ROW_TOTAL:
        msg = f"row {rank} of the channel sums to {sum(row)}, not to 2^64 = {ROW_TOTAL}"
        raise ChannelError(msg)


def round_to_weights(probabilities: NDArray[np.float64]) -> WeightTable:
    """Round probabilities to the nearest table whose cumulative sums fit 53 bits.

    Rounding is downwards with a floor of one unit; what is left over goes to the
    row's largest entry, where it weighs least.
    """
    unit_total = 2 ** (64 - LOW_BITS)
    rows = []
    for row in probabilities / probabilities.sum(axis=1, keepdims=True):
        units = [max(1, int(entry)) for entry in np.floor(row * unit_total)]
        units[int(np.argmax(row))] += unit_total - sum(units)
        rows.append(tuple(entry << LOW_BITS for entry in units))
    return WeightTable(tuple(rows))


def operating_system_words(count: int) -> NDArray[np.uint64]:
    """Draw uniform 64-bit words from the operating system's generator."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
