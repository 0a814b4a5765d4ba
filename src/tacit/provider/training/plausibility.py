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

# How steeply a bet rises along the symbols' values, from one end of them to the middle.
_SLOPES = (0.5, 1.0, 2.0, 4.0)
# Ends of the symbols, in parts of all of them, and how far beyond what the channel allows their share is bet to be.
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
        """Add up what the codes of every group paid: one row for each bet, one column for each group.

        Codes are counted first, so that the order of reports changes no bit of the sums.
        """
        from scipy.sparse import coo_array  # noqa: PLC0415 - a slow import

        ones = np.ones(len(codes), dtype=np.int32)
        counts = coo_array((ones, (group, codes.astype(np.int32))), shape=(groups, self.logs.shape[1])).tocsr()
        return np.asarray((counts @ self.logs.T).T)

    def limit(self, chance: float) -> float:
        """Return what no bet on honest reports exceeds, but with this chance for all of them together."""
        return float(np.log(len(self) / chance))


def implausible(sums: Doubles, chance: float) -> NDArray[np.bool_]:
    """Tell which groups paid more than honest reports would with this chance, by the average of all bets."""
    return np.asarray(np.logaddexp.reduce(sums, axis=0) - np.log(len(sums)) > -np.log(chance))


def _bets(channel: Channel) -> Doubles:
    """Lay out all bets on one channel."""
    return np.array([*_rising_bets(channel), *_set_bets(channel)])


def _rising_bets(channel: Channel) -> Iterator[Doubles]:
    """Bet that values are higher, or lower, on average than under any rating: what pushes an item or nukes it."""
    values = channel.symbol_values
    place = 2 * (values - values.min()) / (np.ptp(values) or 1.0) - 1
    for slope in (*_SLOPES, *(-slope for slope in _SLOPES)):
        yield slope * place - np.log((channel.likelihood @ np.exp(slope * place)).max())


def _set_bets(channel: Channel) -> Iterator[Doubles]:
    """Bet that sets of symbols come more often than under any rating.

    Where a set has at most the probability p, a share t > p of it is bet on by t/p inside and (1-t)/(1-p) outside.
    The mean of that rises with the set's probability and is 1 at p.
    """
    for chosen in _sets(channel.symbol_values):
        most = float(channel.likelihood[:, chosen].sum(axis=1).max())
        if most > _NEARLY_CERTAIN:
            continue
        for excess in _EXCESSES:
            share = most + excess * (1 - most)
            pays = np.log(share / most), np.log((1 - share) / (1 - most))
            yield chosen * pays[0] + ~chosen * pays[1]


def _sets(values: Doubles) -> Iterator[NDArray[np.bool_]]:
    """List the sets worth betting on: the lowest values, the highest, both, and each symbol where there are few."""
    symbols, place = len(values), np.argsort(np.argsort(values, kind="stable"))
    for width in sorted({max(1, round(end * symbols)) for end in _ENDS}):
        low, high = place < width, place >= symbols - width
        yield from (low, high, low | high)
    if symbols <= _FEW_SYMBOLS:
        yield from (place == one for one in range(1, symbols - 1))
