"""The paper's noise model: a mixture of zero-mean Gaussians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# A component whose variance falls below this share of the squared width of the scale has collapsed onto reports
# that it explains exactly, where its likelihood has no bound; one with less weight than this has emptied.
NARROWEST_SHARE = 1e-6
LEAST_WEIGHT = 1e-10


@dataclass(frozen=True, eq=False, slots=True)
class NoiseMixture:
    """Zero-mean Gaussians with weights that sum to 1; an emptied component has weight 0."""

    weights: Floats
    variances: Floats

    @classmethod
    def single(cls, variance: float = 1.0) -> NoiseMixture:
        """One Gaussian: plain least squares."""
        return cls(np.ones(1), np.array([variance]))

    @classmethod
    def random(cls, components: int, variance: float, rng: np.random.Generator) -> NoiseMixture:
        """Draw a start (Algorithm 2, line 3): weights at random, variances at random around the given one."""
        if components == 1:
            return cls.single(variance)
        weights = rng.dirichlet(np.full(components, 10.0))
        spread = np.exp(np.linspace(-1.0, 1.0, components) + rng.uniform(-0.2, 0.2, components))
        return cls(weights, variance * spread)

    def log_shares(self, residuals: Floats) -> Floats:
        """Return log(weight_k N(residual | 0, variance_k)), one row for each residual."""
        with np.errstate(divide="ignore"):
            scale = np.log(self.weights) - 0.5 * np.log(2 * np.pi * self.variances)
        shares: Floats = scale - 0.5 * np.square(residuals)[:, None] / self.variances
        return shares


def log_densities(mixture: NoiseMixture, residuals: Floats) -> Floats:
    """Return the terms of the log-likelihood (Eq. 6)."""
    shares = mixture.log_shares(residuals)
    largest = shares.max(axis=1)
    densities: Floats = largest + np.log(np.exp(shares - largest[:, None]).sum(axis=1))
    return densities


def responsibilities(mixture: NoiseMixture, residuals: Floats) -> Floats:
    """Return each component's share in each residual (Eq. 8), computed in log space."""
    shares = mixture.log_shares(residuals)
    shares = np.exp(shares - shares.max(axis=1, keepdims=True))
    found: Floats = shares / shares.sum(axis=1, keepdims=True)
    return found


def entry_weights(mixture: NoiseMixture, residuals: Floats) -> Floats:
    """Return the weights of the low-rank step (Eq. 10): the expected precision of each report's noise.

    The paper prints the square root of half of this, and then uses it unsquared; maximising Eq. 7 over the
    factors needs the sum of responsibility over variance itself.
    """
    weights: Floats = responsibilities(mixture, residuals) @ (1 / mixture.variances)
    return weights


@dataclass(frozen=True, eq=False, slots=True)
class MixtureStatistics:
    """Sums over all reports that the mixture's update needs."""

    log_likelihood: float
    responsibility: Floats
    square: Floats

    @property
    def reports(self) -> float:
        """The number of reports."""
        return float(self.responsibility.sum())


def updated_mixture(old: NoiseMixture, sums: MixtureStatistics, narrowest: float) -> NoiseMixture:
    """Update weights and variances (Eq. 9).

    No variance falls below `narrowest`: within that limit the update still maximises Eq. 7, so the likelihood
    never falls by it. A component that has emptied keeps its variance and takes no further part.
    """
    weights = sums.responsibility / sums.reports
    weights[weights < LEAST_WEIGHT] = 0.0
    present = weights > 0
    variances = old.variances.copy()
    variances[present] = np.maximum(sums.square[present] / sums.responsibility[present], narrowest)
    return NoiseMixture(weights / weights.sum(), variances)


def accidents(old: NoiseMixture, new: NoiseMixture, narrowest: float) -> list[str]:
    """Say which components collapsed or emptied in an update."""
    notes = []
    for k in range(len(new.weights)):
        if new.weights[k] == 0 < old.weights[k]:
            notes.append(f"component {k + 1} emptied and was left out")
        elif new.variances[k] <= narrowest < old.variances[k]:
            notes.append(f"component {k + 1} collapsed onto reports it explains exactly; its variance is held")
    return notes
