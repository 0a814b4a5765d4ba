"""The normal equations of one person among published items.

What their coordinates are believed to be beforehand, what each rating says of them, and the solution;
docs/personal-ranking.md has them in full.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.device.cholesky import lower_root
from tacit.device.likeness import MOST_LANDMARKS, Landmarks
from tacit.privacy.array_checks import LARGEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.privacy.item_model import ItemModel

    Reals = NDArray[np.float64]
    Indices = NDArray[np.int64]

SPREADS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""How many times more, in variance, a person's tastes may differ from others' than the provider believes."""

# The inverse-gamma prior of a scale that all variances of a person share has this shape and this rate.
_SHAPE = _RATE = 5.0

# Where a provider publishes no beliefs, as the classical factorisations do: the deviations of a rating around its
# score, and of ratings among each other, in widths of the scale; the offset, and all factors together, each explain
# this share of the latter.
_RESIDUAL_DEVIATION = 0.24
_RATING_DEVIATION = 0.3
_EXPLAINED_SHARE = 0.15


@dataclass(frozen=True, eq=False)
class Columns:
    """What a person's coordinates are multiplied by in an item's score: 1, traits, likeness to landmarks, factors."""

    items: ItemModel
    landmarks: Landmarks | None

    @classmethod
    def of(cls, items: ItemModel, rated: Indices) -> Columns:
        """Make the columns for a person who rated these items, rising."""
        if items.pattern is None:
            return cls(items, None)
        return cls(items, Landmarks.of(items.pattern.directions[rated[:MOST_LANDMARKS]]))

    def at(self, indices: Indices) -> Reals:
        """Return the rows of some items."""
        pattern = self.items.pattern
        parts: list[NDArray[np.floating]] = [np.ones((len(indices), 1))]
        if pattern is not None and self.landmarks is not None:
            parts += [pattern.traits[indices], self.landmarks.columns(pattern.directions[indices])]
        return np.hstack([*parts, self.items.factors[indices]])

    def prior(self) -> tuple[float, Reals]:
        """Return the variance of ratings around scores, and the prior variances of all coordinates."""
        beliefs, pattern = self.items.beliefs, self.items.pattern
        if beliefs is None:
            return _default_prior(self.items)
        tastes: list[NDArray[np.floating]] = []
        if pattern is not None and self.landmarks is not None:
            tastes = [pattern.trait_variances, np.full(len(self.landmarks.directions), pattern.embedded_variance)]
        return beliefs.residual_variance, np.concatenate([[beliefs.offset_variance], *tastes, beliefs.factor_variances])


@dataclass(frozen=True, eq=False)
class Equations:
    """The equations of a person, one system for every spread, each solved for any right side."""

    columns: Columns
    design: Reals
    """The rows of the rated items; what has no variance is zero there, so that it stays at zero."""
    weights: Reals
    roots: tuple[Reals, ...]
    """Lower Cholesky factors."""
    log_determinants: Reals
    """Of each system, over that of the prior."""

    @classmethod
    def of(cls, items: ItemModel, rated: Indices) -> Equations:
        """Set the equations of a person up who rated these items, rising."""
        columns = Columns.of(items, rated)
        residual_variance, variances = columns.prior()
        design = columns.at(rated)
        design[:, variances == 0] = 0
        noise = np.full(len(rated), residual_variance)
        if items.beliefs is not None:
            noise += items.beliefs.item_offset_variances[rated]
        weights = 1 / noise
        precisions = _precisions(items, variances, np.array([1.0] if items.pattern is None else SPREADS))
        if items.beliefs is not None:
            precisions[:, len(variances) - items.rank :] += weights @ items.beliefs.item_factor_variances[rated]
        weighted = design * np.sqrt(weights)[:, None]
        gram = weighted.T @ weighted
        roots = tuple(lower_root(gram, precision) for precision in precisions)
        log_determinants = [2 * np.log(root.diagonal()).sum() for root in roots] - np.log(precisions).sum(axis=1)
        return cls(columns, design, weights, roots, np.asarray(log_determinants))

    def solved(self, residuals: Reals) -> tuple[Reals, Reals]:
        """Return the coordinates, averaged over spreads, and what each spread weighs by its evidence."""
        pull = self.design.T @ (self.weights * residuals)
        found = self.solutions(pull)
        left = np.maximum(self.weights @ residuals**2 - found @ pull, 0)
        evidence = -0.5 * self.log_determinants - (_SHAPE + len(residuals) / 2) * np.log(_RATE + left / 2)
        if len(found) > 1:
            evidence -= 0.5 * np.log(SPREADS) ** 2
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        return weights @ found, weights

    def solutions(self, right: Reals) -> Reals:
        """Solve for every spread: a row each."""
        from scipy.linalg.lapack import dpotrs  # noqa: PLC0415 - a slow import

        return np.array([dpotrs(root, right, lower=True)[0] for root in self.roots])


def _default_prior(items: ItemModel) -> tuple[float, Reals]:
    """Return a prior for models that publish none; see docs/personal-ranking.md."""
    width = float(items.scale.width)
    # The median: without a ridge, factors of an item with one report can be huge.
    sizes = items.rank * np.median(np.square(items.factors, dtype=np.float64), axis=0)
    sizes[sizes == 0] = 1  # a factor that few items have says little, whatever its variance
    explained = _EXPLAINED_SHARE * (_RATING_DEVIATION * width) ** 2
    offset = explained
    if items.mean == 0 and not items.offsets.any():
        # The factors alone carry the level of the ratings, so a person's own offset would take it away from them.
        offset, explained = 0.0, float(max(abs(items.scale.low), abs(items.scale.high))) ** 2
    return (_RESIDUAL_DEVIATION * width) ** 2, np.concatenate([[offset], np.minimum(explained / sizes, LARGEST)])


def _precisions(items: ItemModel, variances: Reals, spreads: Reals) -> Reals:
    """Return the prior precisions of all coordinates for every spread; it widens tastes that the pattern tells only."""
    scaled = np.tile(variances, (len(spreads), 1))
    scaled[:, 1 : len(variances) - items.rank] *= spreads[:, None]
    return np.divide(1, scaled, out=np.ones_like(scaled), where=scaled > 0)
