"""Plausibility: whether symbols can have come through their channels at all, whatever the ratings behind them.

A *bet* gives every symbol a factor whose mean is at most 1 under every rating. The product over reports that were
drawn honestly then has a mean of at most 1 too, whatever the ratings, and exceeds x with a chance of at most 1/x
(Markov). So does the average over several bets, which is how many of them are tried at no further cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from tacit.privacy.channel import Channel

    Doubles = NDArray[np.float64]

# Ends of the scale, in parts of all symbols, and how far beyond what the channel allows their share is bet to be.
_ENDS = (0.0, 1 / 16, 1 / 4)
_EXCESSES = (0.05, 0.3, 0.9)
_FEW_SYMBOLS = 16  # each of so few is bet on by itself
_NEARLY_CERTAIN = 0.999  # a set that some rating nearly always leads to cannot be exceeded


@dataclass(frozen=True, eq=False, slots=True)
class Bets:
    """The logarithm of what every bet pays for every code: one row for each bet, the symbols of all policies."""

    logs: Doubles

    @classmethod
    def on(cls, channels: Sequence[Channel]) -> Bets:
        """Lay out bets on channels, symbols one channel after the other; a channel with fewer bets sits some out."""
        tables = [_bets(channel) for channel in channels]
        rows = max(len(table) for table in tables)
        return cls(np.hstack([np.pad(table, ((0, rows - len(table)), (0, 0))) for table in tables]))

    def __len__(self) -> int:
        return len(self.logs)

    def sums(self, codes: NDArray[Any], group: NDArray[np.int32], groups: int) -> Doubles:
        """Add up what the codes of every group paid: one row for each bet, one column for each group."""
        return np.stack([np.bincount(group, weights=pays[codes], minlength=groups) for pays in self.logs])

    def limit(self, chance: float) -> float:
        """Return what no bet on honest reports exceeds, but with this chance for all of them together."""
        return float(np.log(len(self) / chance))


def implausible(sums: Doubles, chance: float) -> NDArray[np.bool_]:
    """Tell which groups paid more than honest reports would with this chance, by the average of all bets."""
    return np.asarray(np.logaddexp.reduce(sums, axis=0) - np.log(len(sums)) > -np.log(chance))


def _bets(channel: Channel) -> Doubles:
    """Bet that sets of symbols come more often than under any rating.

    Where a set has at most the probability p, a share t > p of it is bet on by t/p inside and (1-t)/(1-p) outside.
    The mean of that rises with the set's probability and is 1 at p.
    """
    table = []
    for chosen in _sets(channel.weights.symbols):
        most = float(channel.likelihood[:, chosen].sum(axis=1).max())
        if most > _NEARLY_CERTAIN:
            continue
        for excess in _EXCESSES:
            share = most + excess * (1 - most)
            table.append(np.where(chosen, np.log(share / most), np.log((1 - share) / (1 - most))))
    return np.array(table).reshape(-1, channel.weights.symbols)


def _sets(symbols: int) -> Iterator[NDArray[np.bool_]]:
    """List the sets worth betting on: either end of the symbols, both, and each where there are few."""
    place = np.arange(symbols)
    for width in sorted({max(1, round(end * symbols)) for end in _ENDS}):
        low, high = place < width, place >= symbols - width
        yield from (low, high, low | high)
    if symbols <= _FEW_SYMBOLS:
        yield from (place == one for one in range(1, symbols - 1))
