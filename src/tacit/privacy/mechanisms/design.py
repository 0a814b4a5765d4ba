"""What a mechanism hands over: a table of probabilities, before it is made exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Two edges closer than this share of the output range are one edge, computed twice.
_SAME_EDGE = 1e-12


@dataclass(frozen=True, eq=False)
class Design:
    """Output values in rising order, and P(value | rank) with one row per rank."""

    values: NDArray[np.float64]
    probabilities: NDArray[np.float64]

    @classmethod
    def sorted_by_value(cls, values: NDArray[np.float64], probabilities: NDArray[np.float64]) -> Design:
        """Bring the columns into rising order of their values."""
        order = np.argsort(values, kind="stable")
        return cls(values[order], probabilities[:, order])


def two_level_density(windows: NDArray[np.float64], output_range: tuple[float, float], epsilon: float) -> Design:
    """Cut a two-level density into the finest intervals on which every rating's density is flat.

    Row r is e^epsilon times as dense inside `windows[r]` as outside. Within one
    of the intervals every rating has a flat density, so naming the interval says
    all that the continuous output would, and its midpoint is its mean: nothing
    is lost, neither information nor unbiasedness.
    """
    low, high = output_range
    edges = np.sort(np.concatenate([[low, high], windows.ravel()]).clip(low, high))
    edges = edges[np.concatenate([[True], np.diff(edges) > _SAME_EDGE * (high - low)])]
    middles, lengths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    inside = (middles > windows[:, :1]) & (middles < windows[:, 1:])
    mass = np.where(inside, lengths, lengths * np.exp(-epsilon))
    return Design(middles, mass / mass.sum(axis=1, keepdims=True))
