"""A person's own coordinates among published items, solved on the device from true ratings, which stay there.

Given the items, a rating is Gaussian around a score that is linear in the person's coordinates: their offset, their
weights on the items' traits and their coordinates on the factors. The provider publishes what it believes of these
beforehand; the ratings do the rest, by one small system of linear equations. docs/personal-ranking.md has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ModelError
from tacit.privacy.array_checks import LARGEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tacit.privacy.item_model import ItemModel

    Reals = NDArray[np.float64]
    Indices = NDArray[np.int64]

SPREADS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""How many times more, in variance, a person's weights on traits may differ from others' than the provider believes."""

# The inverse-gamma prior of a scale that all variances of a person share has this shape and this rate.
_SHAPE = _RATE = 5.0

# Where a provider publishes no beliefs, as the classical factorisations do: the deviations of a rating around its
# score, and of ratings among each other, in widths of the scale; the offset, and all factors together, each explain
# this share of the latter.
_RESIDUAL_DEVIATION = 0.24
_RATING_DEVIATION = 0.3
_EXPLAINED_SHARE = 0.15


@dataclass(frozen=True, eq=False, repr=False)  # what is printed or logged must not show it
class Person:
    """A person among the items of one item model; to be kept as secret as the ratings it follows from."""

    offset: float
    trait_weights: Reals
    """(T,)."""
    factors: Reals
    """(rank,)."""
    place: Reals
    """(D,) where in the embedding the person is; follows from which items they rated alone."""
    rated: Indices
    """The indices of the rated items, rising."""
    residuals: Reals
    """By how much each rating is above what was to be expected without it."""
    spread_weights: Reals
    """How much the person's ratings speak for each of the spreads, in sum 1."""


def fit_person(items: ItemModel, rated: NDArray[np.integer], ratings: Reals) -> Person:
    """Solve a person's coordinates.

    Args:
        items: What the provider published.
        rated: The indices of the items that the person rated, each once, in any order.
        ratings: The true ratings of them.
    """
    rated, ratings = _checked(items, rated, ratings)
    place = np.zeros(0) if items.pattern is None else items.pattern.place_of(rated)
    residuals = ratings - _expected(items, rated, place)
    equations = _Equations.of(items, rated)
    coordinates, spread_weights = equations.solved(residuals)
    if not ((np.abs(coordinates) <= LARGEST).all() and (np.abs(place) <= LARGEST).all()):
        raise ModelError(f"{len(rated)} ratings do not place this person among the items; the model is damaged")
    factors_from = len(coordinates) - items.rank
    offset, traits, factors = float(coordinates[0]), coordinates[1:factors_from], coordinates[factors_from:]
    return Person(offset, traits, factors, place, rated, residuals, spread_weights)


def effects_on(items: ItemModel, person: Person, index: int) -> Reals:
    """Return by how much every rating of a person moves the score of one item, in the order of `rated`."""
    equations = _Equations.of(items, person.rated)
    row = _design(items, np.array([index]))[0]
    shares = zip(person.spread_weights, equations.solutions(row), strict=True)
    answer = np.sum([weight * solution for weight, (solution, _) in shares], axis=0)
    return np.asarray(equations.design @ answer * equations.weights * person.residuals)


@dataclass(frozen=True, eq=False)
class _Equations:
    """The normal equations of a person, one system for every spread."""

    design: Reals
    weights: Reals
    gram: Reals
    precisions: Reals
    spreads: Reals

    @classmethod
    def of(cls, items: ItemModel, rated: Indices) -> _Equations:
        residual_variance, variances = _prior_of(items)
        design = _design(items, rated)
        design[:, variances == 0] = 0  # what has no variance is not solved: it stays at zero
        noise = np.full(len(rated), residual_variance)
        if items.beliefs is not None:
            noise += items.beliefs.item_offset_variances[rated]
        weights = 1 / noise
        spreads = np.array([1.0] if items.pattern is None else SPREADS)
        precisions = _precisions(items, variances, spreads)
        if items.beliefs is not None:
            precisions[:, len(variances) - items.rank :] += weights @ items.beliefs.item_factor_variances[rated]
        return cls(design, weights, (design * weights[:, None]).T @ design, precisions, spreads)

    def solved(self, residuals: Reals) -> tuple[Reals, Reals]:
        """Return the coordinates, averaged over spreads, and what each spread weighs by its evidence."""
        pull = self.design.T @ (self.weights * residuals)
        size = self.weights @ residuals**2
        found, evidence = [], []
        for solution, log_determinant in self.solutions(pull):
            left = max(float(size - pull @ solution), 0.0)
            found.append(solution)
            evidence.append(-0.5 * log_determinant - (_SHAPE + len(residuals) / 2) * np.log(_RATE + left / 2))
        log_weights = np.array(evidence) - 0.5 * np.log(self.spreads) ** 2
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        return weights @ np.array(found), weights

    def solutions(self, right: Reals) -> Iterator[tuple[Reals, float]]:
        """Solve for every spread; the log determinant is that of the system over the prior's."""
        from scipy.linalg.lapack import dposv  # noqa: PLC0415 - a slow import

        for precision in self.precisions:
            matrix = self.gram.copy(order="F")
            np.einsum("kk->k", matrix)[:] += precision
            root, solution, failed = dposv(matrix, right, overwrite_a=True)
            if failed:
                raise ModelError(f"{len(self.weights)} ratings cannot be solved for with these items; use other ones")
            yield solution, float(2 * np.log(root.diagonal()).sum() - np.log(precision).sum())


def _checked(items: ItemModel, rated: NDArray[np.integer], ratings: Reals) -> tuple[Indices, Reals]:
    """Return ratings in the order of items, so that theirs does not matter, not even to rounding."""
    if rated.ndim != 1 or rated.shape != ratings.shape:
        raise ModelError(f"items of shape {rated.shape} and ratings of {ratings.shape} are no pairs; give one each")
    order = np.argsort(rated, kind="stable")
    indices, numbers = rated[order].astype(np.int64), ratings[order].astype(np.float64)
    if len(indices) and not 0 <= indices[0] <= indices[-1] < len(items.items):
        raise ModelError(f"items {indices[0]} to {indices[-1]} are not all among the {len(items.items)}; check indices")
    if (indices[1:] == indices[:-1]).any():
        raise ModelError("an item is there twice; give one rating for each item, the last one if it was changed")
    if not (np.abs(numbers) <= LARGEST).all():
        raise ModelError(f"a rating is not a finite number up to {LARGEST:g}; give those on the scale {items.scale}")
    return indices, numbers


def _design(items: ItemModel, indices: Indices) -> Reals:
    """Return what a person's coordinates are multiplied by in the scores of some items."""
    traits = 0 if items.pattern is None else items.pattern.traits.shape[1]
    rows = np.ones((len(indices), 1 + traits + items.rank))
    if items.pattern is not None:
        rows[:, 1 : 1 + traits] = items.pattern.traits[indices]
    rows[:, 1 + traits :] = items.factors[indices]
    return rows


def _expected(items: ItemModel, rated: Indices, place: Reals) -> Reals:
    """Return the scores of a person of whom nothing but their place is known."""
    level = items.mean + items.offsets[rated].astype(np.float64)
    return level if items.pattern is None else level + items.pattern.responses[rated] @ place


def _prior_of(items: ItemModel) -> tuple[float, Reals]:
    """Return the variance of ratings around scores, and the prior variances of all coordinates."""
    if items.beliefs is None:
        return _default_prior(items)
    traits = () if items.pattern is None else items.pattern.trait_variances
    offset = [items.beliefs.offset_variance]
    return items.beliefs.residual_variance, np.concatenate([offset, traits, items.beliefs.factor_variances])


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
    """Return the prior precisions of all coordinates for every spread; it widens those of trait weights only."""
    scaled = np.tile(variances, (len(spreads), 1))
    scaled[:, 1 : len(variances) - items.rank] *= spreads[:, None]
    return np.divide(1, scaled, out=np.ones_like(scaled), where=scaled > 0)
