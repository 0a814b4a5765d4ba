"""How wide rows are in a fit: what engines must have room for, and what travels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.learning.options import MOST_PLACES, ChannelMfOptions
from tacit.learning.pattern import SPARE

if TYPE_CHECKING:
    from tacit.learning.options import Options

_ENDS = 2  # an offset, and the one it is multiplied by; what answers for strangers has nothing else


def coordinates(options: Options) -> int:
    """Return how many numbers a row of factors has in sweeps, in the widest of them."""
    rank = int(getattr(options, "rank", 0))
    if isinstance(options, ChannelMfOptions):
        return rank + 2 * places(options) + _ENDS
    return max(rank + _ENDS * bool(getattr(options, "offsets", False)), _ENDS)


def places(options: ChannelMfOptions) -> int:
    """Return how many coordinates of the pattern's embedding have weights."""
    return min(MOST_PLACES, options.dimensions) * options.pattern


def solved(options: ChannelMfOptions) -> int:
    """Return how many of a row's numbers are solved for: an offset, weights and factors."""
    return 1 + places(options) + options.rank


def embedding_columns(options: ChannelMfOptions) -> int:
    """Return how many vectors are multiplied at once to find the pattern's embedding."""
    return (options.dimensions + 1 + SPARE) * options.pattern
