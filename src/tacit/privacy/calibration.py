"""Reading a report: what a symbol says of the rating behind it, to someone with a prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.privacy.prior import Prior


@dataclass(frozen=True, eq=False)
class Calibration:
    """First-order unbiased values of a channel's symbols, and the variance of their noise."""

    values: NDArray[np.float64]
    noise_variance: float

    @property
    def noise_deviation(self) -> float:
        """The standard deviation of the noise in one calibrated report."""
        return float(np.sqrt(self.noise_variance))


def posterior(likelihood: NDArray[np.float64], prior: Prior) -> NDArray[np.float64]:
    """Return P(rank | symbol), one row per symbol, from P(symbol | rank), one row per rank."""
    joint = prior.probabilities[:, np.newaxis] * likelihood
    return np.asarray((joint / joint.sum(axis=0)).T)


def calibrate(likelihood: NDArray[np.float64], prior: Prior) -> Calibration:
    """Give every symbol a value that is unbiased to first order under the prior.

    The posterior mean is stretched about the prior mean until its regression on
    the true rating has slope 1; what is left is noise of known variance that is
    uncorrelated with the rating.
    """
    posterior_mean = posterior(likelihood, prior) @ prior.scale.ratings
    symbol_probability = prior.probabilities @ likelihood
    explained = float(symbol_probability @ (posterior_mean - prior.mean) ** 2)
    stretch = prior.variance / explained
    values = prior.mean + stretch * (posterior_mean - prior.mean)
    return Calibration(values, prior.variance * (stretch - 1.0))
