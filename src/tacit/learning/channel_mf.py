"""`channel-mf`: learning from reports through the channel they came through.

Every report becomes a calibrated value with noise of known variance. Rows of users and items are solved in turn for
their Gaussian posterior, means and variances, each side taking the other's uncertainty into account. Prior means
follow the pattern, and prior variances follow the reports (`hierarchy`), with defaults that are fixed once for all
data sets: where reports say little, rows shrink to what the pattern says, and that to a constant. No true rating is
needed for any of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from tacit.learning.calibrated import CalibratedReports, calibrated, unheard
from tacit.learning.channel_priors import SideState, follow_offset, follow_weights, learn_variances
from tacit.learning.channel_rows import Side, SideRows, pair_of, penalty, sides_of, solve_side
from tacit.learning.factors import relative_change
from tacit.learning.loop import Conduct, State, Step, iterate
from tacit.learning.mixture import NoiseMixture
from tacit.learning.options import MOST_PLACES
from tacit.learning.pattern import Pattern, embed_pattern, no_pattern

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.engine import Engine, PosteriorSweeper
    from tacit.learning.factors import FactorPair
    from tacit.learning.options import ChannelMfOptions
    from tacit.learning.trace import FitTrace

    Doubles = NDArray[np.float64]

# Shares of the variance of ratings, the same for all data sets.
RESIDUAL = 0.6
USER_OFFSET = 0.15
_USER_WEIGHTS, _ITEM_OFFSET, _ITEM_WEIGHTS, _FACTORS = 0.15, 0.1, 0.1, 0.15
_MEAN, _PLACE, _RESPONSE = 0.1, 0.05, 0.05
_POPULARITY = (0.05, 0.05 / 3)
_USER_POPULARITY, _USER_PLACE = (0.03, 0.01), 0.03

# Factors start at random and need some iterations to find out whether there is anything to explain.
_ITERATIONS_BEFORE_FACTORS_ARE_JUDGED = 6


@dataclass(frozen=True, eq=False, slots=True)
class ChannelFit:
    """Everything that one fit works with."""

    sweeper: PosteriorSweeper
    report_values: CalibratedReports
    pattern: Pattern
    places: int
    rank: int
    users: SideState
    items: SideState
    responses: Doubles  # how weights of items follow from their own place: one column for each weight

    @property
    def sides(self) -> tuple[Side, Side]:
        """The layout of users' and items' rows."""
        return sides_of(self.places, self.rank)

    @property
    def scale(self) -> float:
        """The variance of ratings, which all others are shares of."""
        return self.report_values.rating_variance

    @property
    def noise(self) -> NoiseMixture:
        """What is left of ratings, scores taken away."""
        return NoiseMixture.single(RESIDUAL * self.scale)

    def extra(self) -> dict[str, NDArray[Any]]:
        """Name all arrays beside the rows, for a checkpoint."""
        return {**self.users.arrays("users"), **self.items.arrays("items"), "responses": self.responses}


def fit_channel_mf(
    engine: Engine, options: ChannelMfOptions, rng: np.random.Generator, conduct: Conduct
) -> tuple[FactorPair, FitTrace, ChannelFit]:
    """Alternate between users and items until the users' rows stop changing.

    The matrices that BLAS multiplies here are narrow: its threads cost more than they give, and sums would depend on
    how many there are.
    """
    with threadpool_limits(1, user_api="blas"):
        return _fit(engine, options, rng, conduct)


def _fit(
    engine: Engine, options: ChannelMfOptions, rng: np.random.Generator, conduct: Conduct
) -> tuple[FactorPair, FitTrace, ChannelFit]:
    fitting, pair = _start(engine, options, rng)

    def step(state: State) -> Step:
        number = len(state.iterations)
        tune = options.tune and number > 0
        judged = tune and number >= _ITERATIONS_BEFORE_FACTORS_ARE_JUDGED
        before = pair.users.copy()
        solve_users(fitting, pair, tune=tune)
        left = solve_items(fitting, pair, tune=tune, judged=judged)
        return Step(state.mixture, objective=left, change=relative_change(before, pair.users))

    start = State(pair, fitting.noise, extra=fitting.extra())
    least = _ITERATIONS_BEFORE_FACTORS_ARE_JUDGED + 2 if options.rank else 0
    _, trace = iterate(start, step, conduct, iterations=options.iterations, tolerance=options.tolerance, least=least)
    return pair, trace, fitting


def _start(engine: Engine, options: ChannelMfOptions, rng: np.random.Generator) -> tuple[ChannelFit, FactorPair]:
    summary = engine.summary
    pattern = embed_pattern(engine, options.dimensions, rng) if options.pattern else no_pattern(summary)
    values = calibrated(summary) if options.reports else unheard(summary)
    places, rank = min(pattern.dimensions, MOST_PLACES), options.rank
    spread = np.sqrt(_FACTORS * values.rating_variance / max(rank, 1))
    factors = rng.standard_normal((summary.shape[0], rank)), spread * rng.standard_normal((summary.shape[1], rank))
    pair = pair_of(
        pattern.users[:, :places],
        pattern.items[:, :places],
        (factors[0].astype(np.float32), factors[1].astype(np.float32)),
    )
    fitting = ChannelFit(
        sweeper=engine.posterior_sweeper(
            values.table(), values.precisions(RESIDUAL * values.rating_variance), values.centre
        ),
        report_values=values,
        pattern=pattern,
        places=places,
        rank=rank,
        users=SideState.start(
            summary.shape[0], places, _user_defaults(rank) * values.rating_variance, pattern.dimensions + 2
        ),
        items=SideState.start(
            summary.shape[1], places, _item_defaults(rank) * values.rating_variance, pattern.dimensions + 3
        ),
        responses=np.zeros((pattern.dimensions, places)),
    )
    fitting.users.prior_variances[2:] = 1.0  # factors of users are in units of their own
    return fitting, pair


def _user_defaults(rank: int) -> Doubles:
    return np.array([USER_OFFSET, _USER_WEIGHTS, *[1.0] * rank])


def _item_defaults(rank: int) -> Doubles:
    return np.array([_ITEM_OFFSET, _ITEM_WEIGHTS, *[_FACTORS / max(rank, 1)] * rank])


def _sides(fitting: ChannelFit, pair: FactorPair) -> tuple[SideRows, SideRows]:
    """Return users and items with what is known of their rows."""
    users, items = fitting.sides
    return (
        SideRows(pair.users, users, fitting.users.variances),
        SideRows(pair.items, items, fitting.items.variances),
    )


def solve_users(fitting: ChannelFit, pair: FactorPair, *, tune: bool) -> None:
    """Solve the users' rows, then update what they share."""
    users, items = _sides(fitting, pair)
    state, pattern = fitting.users, fitting.pattern
    solve_side(users, items, fitting.sweeper, state.priors, by_item=False)
    if pattern.dimensions:
        belief = fitting.scale * np.array([*_USER_POPULARITY, *[_USER_PLACE] * pattern.dimensions])
        follow_offset(users, state, np.hstack([pattern.user_popularity, pattern.users]), belief)
    if tune:
        learn_variances(users, state, fitting.scale * _user_defaults(0))


def solve_items(fitting: ChannelFit, pair: FactorPair, *, tune: bool, judged: bool) -> float:
    """Solve the items' rows, then update what they share; return the penalised weighted sum of squares.

    Weights follow places: items of one kind respond alike to a kind of user.
    """
    users, items = _sides(fitting, pair)
    state, places = fitting.items, fitting.pattern.items.astype(np.float64)
    left = solve_side(items, users, fitting.sweeper, state.priors, by_item=True)
    left += penalty(items, state.priors) + penalty(users, fitting.users.priors)
    follow_offset(items, state, _item_features(fitting.pattern), _item_belief(fitting))
    belief = np.full(fitting.pattern.dimensions, fitting.scale * _RESPONSE)
    follow_weights(items, state, places, fitting.responses, belief)
    if tune:
        learn_variances(items, state, fitting.scale * _item_defaults(fitting.rank if judged else 0))
    return left


def _item_features(pattern: Pattern) -> Doubles:
    """Return what the offsets of items follow: a constant, popularity and place."""
    return np.hstack([np.ones((len(pattern.items), 1)), pattern.item_popularity, pattern.items])


def _item_belief(fitting: ChannelFit) -> Doubles:
    """Return the prior variances of the coefficients of `_item_features`."""
    dimensions = fitting.pattern.dimensions
    by_feature = [*_POPULARITY, *[_PLACE] * dimensions] if dimensions else []
    return fitting.scale * np.array([_MEAN, *by_feature])
