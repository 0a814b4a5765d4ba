"""What rows share: prior means that follow known features, and prior variances, both learned from the rows themselves.

A row's coordinate has the prior N(features . coefficients, variance). Given the other side, its reports leave it a
posterior with a mean and a variance; what the marginal likelihood says of coefficients and variance follows from
these two alone, without another look at the reports. The share of the prior that the reports have settled,
1 - posterior variance / prior variance, is what a row counts for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Doubles = NDArray[np.float64]

# A variance is believed to lie within a factor of two (e^0.7) of its default, on all data sets alike.
_LOG_BELIEF = 0.7
# Rows are not independent, as the step assumes: the whole of it can swing from side to side.
_DAMPING = 0.7
_LONGEST_STEP = 0.7


@dataclass(frozen=True, eq=False, slots=True)
class Posterior:
    """One coordinate of many rows, as deviations from its prior mean; or several that share a prior variance."""

    deviations: NDArray[Any]
    variances: NDArray[Any]
    prior_variance: float

    def settled(self) -> Doubles:
        """Return which share of the prior the reports have settled."""
        return np.clip(1 - self.variances.astype(np.float64) / self.prior_variance, 0.0, 1.0)


def updated_coefficients(
    coefficients: Doubles, belief: Doubles, features: NDArray[Any], rows: Posterior
) -> tuple[Doubles, Doubles]:
    """Take the Newton step of the marginal likelihood for the prior mean; return coefficients and their variances.

    `belief` holds the prior variances of the coefficients, which are centred at zero.
    """
    information = rows.settled() / rows.prior_variance
    curvature = (features * information[:, None]).T @ features + np.diag(1 / belief)
    slope = features.T @ (rows.deviations / rows.prior_variance) - coefficients / belief
    covariance = np.linalg.inv(curvature)
    return coefficients + covariance @ slope, np.diag(covariance).copy()


def moved(rows: Posterior, shift: NDArray[Any]) -> NDArray[Any]:
    """Return by how much the posterior means move when the prior means move by `shift`."""
    return shift * (1 - rows.settled())


def updated_variance(default: float, rows: Posterior) -> float:
    """Take the Fisher step of the marginal likelihood for the logarithm of the prior variance.

    Where reports settle little, the information is small beside the belief, and the variance stays at its default.
    """
    settled = rows.settled()
    slope = 0.5 * float((np.square(rows.deviations, dtype=np.float64) / rows.prior_variance - settled).sum())
    slope -= np.log(rows.prior_variance / default) / _LOG_BELIEF**2
    information = 0.5 * float(np.square(settled).sum()) + 1 / _LOG_BELIEF**2
    step = np.clip(_DAMPING * slope / information, -_LONGEST_STEP, _LONGEST_STEP)
    return float(rows.prior_variance * np.exp(step))
