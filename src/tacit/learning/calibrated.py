"""Calibrated reports: what each symbol says of the rating behind it, and how surely, from the channel alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.learning.prior import fit_prior
from tacit.privacy.calibration import calibrate
from tacit.privacy.prior import GENERIC_MEAN, Prior

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.engine import ReportSummary
    from tacit.privacy.scale import RatingScale

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]

# The noise of a report that is not listened to, in squared stars: beyond any that a channel can have.
_UNHEARD = 1e30


@dataclass(frozen=True, eq=False, slots=True)
class CalibratedReports:
    """Values of all symbols, unbiased to first order, and the variance of the noise that is left in each.

    Plain numbers, which no channel has touched, have no values of symbols, and no noise.
    """

    values: Doubles | None
    noise_variances: Doubles
    rating_variance: float
    centre: float

    def table(self) -> Floats | None:
        """Return the values as deviations from the centre."""
        return None if self.values is None else (self.values - self.centre).astype(np.float32)

    def precisions(self, residual_variance: float) -> Floats:
        """Return what a report of each symbol weighs, around a score that leaves `residual_variance` unexplained."""
        return (1 / (self.noise_variances + residual_variance)).astype(np.float32)


def calibrated(summary: ReportSummary) -> CalibratedReports:
    """Read the symbols of a matrix, each through its own policy's channel.

    The histogram of ratings that this needs is deconvolved from the reports themselves, all policies together.
    """
    centre = centre_of(summary.scale)
    if summary.symbol_values is None:
        variance = max(summary.variance, _least_variance(summary.scale))
        return CalibratedReports(None, np.zeros(1), variance, centre)
    ends = np.cumsum([policy.channel.weights.symbols for policy in summary.policies])
    counts = np.split(summary.symbol_counts, ends[:-1])
    observed = [(policy.channel, part) for policy, part in zip(summary.policies, counts, strict=True)]
    prior = fit_prior(observed)
    readings = [calibrate(channel.likelihood, prior) for channel, _ in observed]
    noise = [np.full(len(reading.values), reading.noise_variance) for reading in readings]
    values = np.concatenate([reading.values for reading in readings])
    return CalibratedReports(values, np.concatenate(noise), prior.variance, centre)


def unheard(summary: ReportSummary) -> CalibratedReports:
    """Read nothing: every symbol has the same value, and noise without bounds. What is left is the generic prior."""
    symbols = 1 if summary.symbol_values is None else len(summary.symbol_values)
    prior, centre = Prior.generic(summary.scale), centre_of(summary.scale)
    values = None if summary.symbol_values is None else np.full(symbols, centre)
    return CalibratedReports(values, np.full(symbols, _UNHEARD), prior.variance, centre)


def centre_of(scale: RatingScale) -> float:
    """Return where ratings lie before any report is seen."""
    low, high = float(scale.low), float(scale.high)
    return low + GENERIC_MEAN * (high - low)


def _least_variance(scale: RatingScale) -> float:
    """Return what ratings vary by at least: plain numbers may all be the same."""
    return float(np.square(0.05 * (float(scale.high) - float(scale.low))))
