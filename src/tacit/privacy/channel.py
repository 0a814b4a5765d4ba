"""The channel: how a rating becomes a symbol, with a privacy loss that is computed, not believed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ChannelError, PrivacyClaimError
from tacit.privacy.calibration import calibrate
from tacit.privacy.exact import decimal_text, exp_lower_bound, log_ratio

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

    from numpy.typing import NDArray

    from tacit.privacy.calibration import Calibration
    from tacit.privacy.prior import Prior
    from tacit.privacy.scale import RatingScale
    from tacit.privacy.weights import WeightTable


@dataclass(frozen=True)
class Channel:
    """A finite table from rating rank to report symbol, proven to lose at most epsilon.

    `values[symbol]` is the rating-scale value a report of that symbol stands for.
    """

    scale: RatingScale
    epsilon: Decimal
    values: tuple[Decimal, ...]
    weights: WeightTable

    def __post_init__(self) -> None:
        """Refuse a table that does not fit its scale, or whose exact loss exceeds epsilon."""
        expected, found = (self.scale.size, len(self.values)), (self.weights.ranks, self.weights.symbols)
        if expected != found:
            msg = f"scale and symbols call for a {expected[0]} x {expected[1]} table, not {found[0]} x {found[1]}"
            raise ChannelError(msg)
        if self.weights.worst_ratio > exp_lower_bound(self.epsilon):
            msg = (
                f"the table loses {self.exact_loss:.6g}, more than the epsilon {decimal_text(self.epsilon)} "
                "it claims; do not use it"
            )
            raise PrivacyClaimError(msg)

    @property
    def worst_ratio(self) -> Fraction:
        """The largest probability ratio of one symbol under two ratings, exactly."""
        return self.weights.worst_ratio

    @cached_property
    def exact_loss(self) -> float:
        """The smallest epsilon this channel satisfies: the logarithm of the worst ratio."""
        return log_ratio(self.worst_ratio)

    @property
    def bits(self) -> int:
        """How many bits one symbol takes on the wire."""
        return (self.weights.symbols - 1).bit_length()

    @cached_property
    def symbol_values(self) -> NDArray[np.float64]:
        """The value of every symbol, as floats."""
        return np.array([float(value) for value in self.values])

    @property
    def likelihood(self) -> NDArray[np.float64]:
        """P(symbol | rank), one row per rank."""
        return self.weights.probabilities

    def draw(self, ranks: NDArray[np.uint16], words: NDArray[np.uint64]) -> NDArray[np.uint16]:
        """Perturb ranks with one uniform 64-bit word each; see `WeightTable.draw`."""
        if ranks.shape != words.shape:
            msg = f"{ranks.size} ranks were given {words.size} random words; each needs one of its own"
            raise ChannelError(msg)
        if ranks.size and not 0 <= int(ranks.min()) <= int(ranks.max()) < self.scale.size:
            msg = f"a rank from {ranks.min()} to {ranks.max()} is beyond the scale's ranks 0 to {self.scale.size - 1}"
            raise ChannelError(msg)
        return self.weights.draw(ranks, words)

    @cached_property
    def mean(self) -> NDArray[np.float64]:
        """E[value | rank]."""
        return np.asarray(self.likelihood @ self.symbol_values)

    @cached_property
    def variance(self) -> NDArray[np.float64]:
        """Var[value | rank]."""
        deviations = self.symbol_values - self.mean[:, np.newaxis]
        return np.asarray((self.likelihood * deviations**2).sum(axis=1))

    @property
    def bias(self) -> NDArray[np.float64]:
        """E[value | rank] minus the rating."""
        return self.mean - self.scale.ratings

    def calibrate(self, prior: Prior) -> Calibration:
        """Give every symbol a value that is unbiased to first order under the prior."""
        return calibrate(self.likelihood, prior)
