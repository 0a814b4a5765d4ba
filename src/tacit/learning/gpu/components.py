"""The noise mixture as sweeps on a device want it: every component beside the widest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from tacit.learning.mixture import MixtureStatistics

if TYPE_CHECKING:
    from torch import Tensor

    from tacit.learning.mixture import NoiseMixture

_LARGEST_LOG_RATIO = 80.0  # an exponential in single precision bears a little more
_NO_WEIGHT = -1e30


@dataclass(frozen=True, slots=True)
class Components:
    """Zero-mean Gaussians, the widest first, those without weight last.

    With r a residual, the logarithm of component k's share in its density is `log_scale` - `half_precisions[0]` r^2
    plus `log_ratios[k]` - `precision_gaps[k]` r^2. No gap is negative, so nothing overflows.
    """

    order: tuple[int, ...]
    log_scale: float
    half_precisions: tuple[float, ...]
    log_ratios: tuple[float, ...]
    precision_gaps: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.order)

    @classmethod
    def of(cls, mixture: NoiseMixture) -> Components:
        """Sort a mixture's components, and take the widest out of the others."""
        weights, variances = mixture.weights, mixture.variances
        order = sorted(range(len(weights)), key=lambda k: (weights[k] <= 0, -variances[k]))
        scales = [_log_scale(weights[k], variances[k]) for k in order]
        halves = [0.5 / float(variances[k]) for k in order]
        return cls(
            tuple(order),
            scales[0],
            tuple(halves),
            tuple(max(min(_LARGEST_LOG_RATIO, scale - scales[0]), _NO_WEIGHT) for scale in scales),
            tuple(half - halves[0] if weights[k] > 0 else 0.0 for k, half in zip(order, halves, strict=True)),
        )

    def no_sums(self, device: torch.device) -> Tensor:
        """Return sums over no reports: the log-likelihood, then responsibilities and squares of each component."""
        return torch.zeros(1 + 2 * len(self), dtype=torch.float64, device=device)

    def weight_roots(self, residuals: Tensor) -> Tensor:
        """Return the roots of the weights of Eq. 10, the expected precision of the noise."""
        squares = residuals * residuals
        weights, total = torch.full_like(squares, self.half_precisions[0]), torch.ones_like(squares)
        for k in range(1, len(self)):
            share = self._share(k, squares)
            weights += share * self.half_precisions[k]
            total += share
        return (2.0 * weights / total).sqrt_()

    def sums(self, residuals: Tensor, present: Tensor) -> Tensor:
        """Sum up what Eq. 9 and Eq. 6 need over the reports that are `present`."""
        squares = residuals * residuals
        total = torch.ones_like(squares)
        for k in range(1, len(self)):
            total += self._share(k, squares)
        logarithms = torch.log(total).sub_(squares, alpha=self.half_precisions[0]).mul_(present)
        inverse = total.reciprocal_().mul_(present)
        found = [logarithms.sum(dtype=torch.float64) + self.log_scale * present.sum(dtype=torch.float64)]
        by_component = [self._sums_of(k, squares, inverse) for k in range(len(self))]
        return torch.stack([*found, *(sums[0] for sums in by_component), *(sums[1] for sums in by_component)])

    def _sums_of(self, k: int, squares: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
        share = self._share(k, squares).mul_(inverse) if k else inverse
        return share.sum(dtype=torch.float64), (share * squares).sum(dtype=torch.float64)

    def statistics(self, sums: Tensor) -> MixtureStatistics:
        """Bring sums home, the components in the order that the mixture has them in."""
        numbers = sums.cpu().numpy()
        by_component = np.empty((2, len(self)))
        by_component[:, list(self.order)] = numbers[1:].reshape(2, -1)
        return MixtureStatistics(float(numbers[0]), by_component[0], by_component[1])

    def _share(self, k: int, squares: Tensor) -> Tensor:
        return torch.exp(self.log_ratios[k] - self.precision_gaps[k] * squares)


def _log_scale(weight: float, variance: float) -> float:
    return math.log(weight) - 0.5 * math.log(2 * math.pi * variance) if weight > 0 else -math.inf
