"""Rows of users and items as `channel-mf` solves them: an offset, weights on the other side's place, and factors.

The score of user u and item i, less the centre, is

    offset_u + offset_i + weights_u . place_i + weights_i . place_u + factors_u . factors_i

where a place is a row of the pattern's embedding: known, so that only the weights on it are learned. With the place
taken as [1, place] this is a product of two rows, and both sides are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.engine import PosteriorProblem, PosteriorSweeper
from tacit.learning.factors import FactorPair
from tacit.learning.kernels import padded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Columns = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Side:
    """Which columns of a side's rows mean what."""

    weights: Columns
    place: Columns
    factors: Columns
    offset: Columns
    one: Columns

    @property
    def own(self) -> Columns:
        """The columns in the order of a sweep that solves this side: what is solved for comes first."""
        return np.concatenate([self.solved, self.one, self.place])

    @property
    def other(self) -> Columns:
        """The columns in the order of a sweep that solves the other side."""
        return np.concatenate([self.one, self.place, self.factors, self.offset, self.weights])

    @property
    def solved(self) -> Columns:
        """The columns that are solved for."""
        return np.concatenate([self.offset, self.weights, self.factors])


def sides_of(places: int, rank: int) -> tuple[Side, Side]:
    """Lay out users as [weights, place, factors, offset, 1] and items as [place, weights, factors, 1, offset]."""
    first, second, factors = np.split(np.arange(2 * places + rank), [places, 2 * places])
    ends = np.array([2 * places + rank]), np.array([2 * places + rank + 1])
    return Side(first, second, factors, *ends), Side(second, first, factors, *reversed(ends))


def pair_of(user_places: Floats, item_places: Floats, factors: tuple[Floats, Floats]) -> FactorPair:
    """Start with places and factors; offsets and weights are zero."""
    places, rank = user_places.shape[1], factors[0].shape[1]
    pair = FactorPair.of(
        np.zeros((len(user_places), 2 * places + rank)), np.zeros((len(item_places), 2 * places + rank)), offsets=True
    )
    for rows, side, place, start in zip(
        (pair.users, pair.items), sides_of(places, rank), (user_places, item_places), factors, strict=True
    ):
        rows[:, side.place], rows[:, side.factors] = place, start
    return pair


@dataclass(frozen=True, eq=False, slots=True)
class SideRows:
    """One side: its rows, what their columns mean, and how uncertain those solved for are."""

    rows: Floats
    side: Side
    variances: Floats

    @property
    def factor_variances(self) -> Floats:
        """How uncertain the factors are."""
        return np.ascontiguousarray(self.variances[:, 1 + len(self.side.weights) :])


@dataclass(frozen=True, eq=False, slots=True)
class RowPriors:
    """What rows are believed to be before their reports: variances of the columns solved for, and their centres."""

    variances: NDArray[np.float64]
    centres: Floats


def solve_side(own: SideRows, other: SideRows, sweeper: PosteriorSweeper, priors: RowPriors, *, by_item: bool) -> float:
    """Find the posterior of every row with the other side held; return the weighted sum of squared residuals.

    The other side's factors are known up to their variances; what is uncertain pulls less.
    """
    side = own.side
    solved = padded(own.rows[:, side.own])
    problem = PosteriorProblem(
        fixed=padded(other.rows[:, other.side.other]),
        solved=solved,
        variances=own.variances,
        coordinates=len(side.own),
        precision=(1 / priors.variances).astype(np.float32),
        centres=priors.centres,
        fixed_variances=other.factor_variances,
    )
    squares = sweeper.sweep(problem, by_item=by_item)
    own.rows[:, side.solved] = solved[:, : len(side.solved)]
    return squares


def penalty(own: SideRows, priors: RowPriors) -> float:
    """Return what the priors add to the weighted sum of squares."""
    away: NDArray[Any] = np.square(own.rows[:, own.side.solved] - priors.centres).sum(axis=0, dtype=np.float64)
    return float((away / priors.variances).sum())
