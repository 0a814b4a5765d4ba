"""`channel-mf`: learning from reports through the channel they came through.

Every report becomes a calibrated value with noise of known variance. Rows of users and items are solved in turn for
their Gaussian posterior, means and variances, each side taking the other's uncertainty into account. Prior means
follow the pattern, and prior variances follow the reports (`hierarchy`), with defaults that are fixed once for all
data sets: where reports say little, rows shrink to what the pattern says, and that to a constant. No true rating is
needed for any of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.learning.calibrated import CalibratedReports, calibrated, unheard
from tacit.learning.channel_rows import (
    Readings,
    RowPriors,
    Side,
    SideRows,
    pair_of,
    penalty,
    sides_of,
    solve_side,
)
from tacit.learning.hierarchy import Posterior, moved, updated_coefficients, updated_variance
from tacit.learning.loop import Conduct, State, Step, iterate
from tacit.learning.mixture import NoiseMixture
from tacit.learning.options import MOST_PLACES
from tacit.learning.pattern import Pattern, embed_pattern, no_pattern

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.factors import FactorPair
    from tacit.learning.matrix import ReportMatrix, Rows
    from tacit.learning.options import ChannelMfOptions
    from tacit.learning.trace import FitTrace

    Floats = NDArray[np.float32]
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
class SideState:
    """What is learned of one side beside its rows; the arrays change with every iteration.

    `variances` has a column for every column that is solved for: offset, weights, factors. `prior_variances` has
    three entries or more: offset, weights, and one for each factor.
    """

    variances: Floats
    centres: Floats
    coefficients: Doubles
    uncertainty: Doubles
    prior_variances: Doubles

    def arrays(self, prefix: str) -> dict[str, NDArray[np.float64] | NDArray[np.float32]]:
        """Name the arrays, for a checkpoint."""
        return {f"{prefix}_{name}": getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, eq=False, slots=True)
class ChannelFit:
    """Everything that one fit works with."""

    readings: Readings
    reports: tuple[Rows, Rows]  # by user and by item
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

    def extra(self) -> dict[str, NDArray[np.float64] | NDArray[np.float32]]:
        """Name all arrays beside the rows, for a checkpoint."""
        return {**self.users.arrays("users"), **self.items.arrays("items"), "responses": self.responses}


def fit_channel_mf(
    matrix: ReportMatrix, options: ChannelMfOptions, rng: np.random.Generator, conduct: Conduct
) -> tuple[State, FitTrace, ChannelFit]:
    """Alternate between users and items until the users' rows stop changing."""
    fitting, pair = _start(matrix, options, rng, conduct.threads)

    def step(state: State) -> Step:
        number = len(state.iterations)
        tune = options.tune and number > 0
        judged = tune and number >= _ITERATIONS_BEFORE_FACTORS_ARE_JUDGED
        _solve_users(fitting, state.pair, tune=tune)
        left = _solve_items(fitting, state.pair, tune=tune, judged=judged)
        return Step(state.mixture, objective=left)

    start = State(pair, NoiseMixture.single(RESIDUAL * fitting.scale), extra=fitting.extra())
    least = _ITERATIONS_BEFORE_FACTORS_ARE_JUDGED + 2 if options.rank else 0
    state, trace = iterate(
        start, step, conduct, iterations=options.iterations, tolerance=options.tolerance, least=least
    )
    return state, trace, fitting


def _start(
    matrix: ReportMatrix, options: ChannelMfOptions, rng: np.random.Generator, threads: int
) -> tuple[ChannelFit, FactorPair]:
    pattern = embed_pattern(matrix, options.dimensions, rng, threads) if options.pattern else no_pattern(matrix)
    values = calibrated(matrix) if options.reports else unheard(matrix)
    places, rank = min(pattern.dimensions, MOST_PLACES), options.rank
    spread = np.sqrt(_FACTORS * values.rating_variance / max(rank, 1))
    factors = rng.standard_normal((matrix.shape[0], rank)), spread * rng.standard_normal((matrix.shape[1], rank))
    pair = pair_of(
        pattern.users[:, :places],
        pattern.items[:, :places],
        (factors[0].astype(np.float32), factors[1].astype(np.float32)),
    )
    fitting = ChannelFit(
        readings=Readings(values.table(), values.precisions(RESIDUAL * values.rating_variance), threads),
        reports=_reports(matrix, values),
        report_values=values,
        pattern=pattern,
        places=places,
        rank=rank,
        users=_side_state(
            matrix.shape[0], places, _user_defaults(rank) * values.rating_variance, pattern.dimensions + 2
        ),
        items=_side_state(
            matrix.shape[1], places, _item_defaults(rank) * values.rating_variance, pattern.dimensions + 3
        ),
        responses=np.zeros((pattern.dimensions, places)),
    )
    fitting.users.prior_variances[2:] = 1.0  # factors of users are in units of their own
    fitting.items.variances[:, 1 + places :] = 0.0  # where to start from is not uncertain
    return fitting, pair


def _user_defaults(rank: int) -> Doubles:
    return np.array([USER_OFFSET, _USER_WEIGHTS, *[1.0] * rank])


def _item_defaults(rank: int) -> Doubles:
    return np.array([_ITEM_OFFSET, _ITEM_WEIGHTS, *[_FACTORS / max(rank, 1)] * rank])


def _side_state(count: int, places: int, prior_variances: Doubles, features: int) -> SideState:
    columns = 1 + places + len(prior_variances) - 2
    return SideState(
        variances=np.zeros((count, columns), dtype=np.float32),
        centres=np.zeros((count, columns), dtype=np.float32),
        coefficients=np.zeros(features),
        uncertainty=np.zeros(features),
        prior_variances=prior_variances,
    )


def _reports(matrix: ReportMatrix, values: CalibratedReports) -> tuple[Rows, Rows]:
    """Return the reports in both orders; symbols stay symbols, plain numbers become deviations from the centre."""
    if values.values is not None:
        return matrix.by_user, matrix.by_item
    by_user, by_item = (
        replace(rows, values=rows.values - np.float32(values.centre)) for rows in (matrix.by_user, matrix.by_item)
    )
    return by_user, by_item


def _priors(state: SideState, places: int) -> RowPriors:
    """Spell the prior variances out, one for each column that is solved for."""
    offset, weights = state.prior_variances[:2]
    return RowPriors(np.concatenate([[offset], np.full(places, weights), state.prior_variances[2:]]), state.centres)


def _sides(fitting: ChannelFit, pair: FactorPair) -> tuple[SideRows, SideRows]:
    """Return users and items with what is known of their rows."""
    users, items = fitting.sides
    return (
        SideRows(pair.users, users, fitting.users.variances, fitting.reports[0]),
        SideRows(pair.items, items, fitting.items.variances, fitting.reports[1]),
    )


def _solve_users(fitting: ChannelFit, pair: FactorPair, *, tune: bool) -> None:
    """Solve the users' rows, then update what they share."""
    users, items = _sides(fitting, pair)
    state, pattern = fitting.users, fitting.pattern
    solve_side(users, items, fitting.readings, _priors(state, fitting.places))
    if pattern.dimensions:
        belief = fitting.scale * np.array([*_USER_POPULARITY, *[_USER_PLACE] * pattern.dimensions])
        features = np.hstack([pattern.user_popularity, pattern.users])
        _update_offset_centres(users, state, features, belief)
    if tune:
        _update_variances(users, state, fitting.scale * _user_defaults(0))


def _solve_items(fitting: ChannelFit, pair: FactorPair, *, tune: bool, judged: bool) -> float:
    """Solve the items' rows, then update what they share; return the penalised weighted sum of squares."""
    users, items = _sides(fitting, pair)
    state = fitting.items
    priors = _priors(state, fitting.places)
    left = solve_side(items, users, fitting.readings, priors)
    left += penalty(items, priors) + penalty(users, _priors(fitting.users, fitting.places))
    _update_offset_centres(items, state, item_features(fitting), item_belief(fitting))
    _update_responses(fitting, items)
    if tune:
        _update_variances(items, state, fitting.scale * _item_defaults(fitting.rank if judged else 0))
    return left


def item_features(fitting: ChannelFit) -> Doubles:
    """Return what the offsets of items follow: a constant, popularity and place."""
    pattern = fitting.pattern
    return np.hstack([np.ones((len(pattern.items), 1)), pattern.item_popularity, pattern.items])


def item_belief(fitting: ChannelFit) -> Doubles:
    """Return the prior variances of the coefficients of `item_features`."""
    pattern = fitting.pattern
    by_feature = [*_POPULARITY, *[_PLACE] * pattern.dimensions] if pattern.dimensions else []
    return fitting.scale * np.array([_MEAN, *by_feature])


def _update_offset_centres(own: SideRows, state: SideState, features: Doubles, belief: Doubles) -> None:
    """Let the prior means of offsets follow the features."""
    known, column = len(belief), own.side.offset[0]
    offsets, centres = own.rows[:, column], state.centres[:, 0]
    found = Posterior(offsets - centres, state.variances[:, 0], float(state.prior_variances[0]))
    state.coefficients[:known], state.uncertainty[:known] = updated_coefficients(
        state.coefficients[:known], belief, features, found
    )
    shift = features @ state.coefficients[:known] - centres
    own.rows[:, column] = offsets + moved(found, shift)
    state.centres[:, 0] = centres + shift


def _update_responses(fitting: ChannelFit, own: SideRows) -> None:
    """Let the prior means of items' weights follow their place: items of one kind respond alike to a kind of user."""
    state, places = fitting.items, fitting.pattern.items.astype(np.float64)
    belief = np.full(fitting.pattern.dimensions, fitting.scale * _RESPONSE)
    for at, column in enumerate(own.side.weights):
        weights, centres = own.rows[:, column], state.centres[:, 1 + at]
        found = Posterior(weights - centres, state.variances[:, 1 + at], float(state.prior_variances[1]))
        fitting.responses[:, at], _ = updated_coefficients(fitting.responses[:, at], belief, places, found)
        shift = places @ fitting.responses[:, at] - centres
        own.rows[:, column] = weights + moved(found, shift)
        state.centres[:, 1 + at] = centres + shift


def _update_variances(own: SideRows, state: SideState, defaults: Doubles) -> None:
    """Learn how widely offsets, weights and, where they have a default here, factors are spread."""
    deviations, places = own.rows[:, own.side.solved] - state.centres, len(own.side.weights)
    factors = (slice(at, at + 1) for at in range(1 + places, deviations.shape[1]))
    columns = [slice(0, 1), slice(1, 1 + places), *factors]
    for at, (column, default) in enumerate(zip(columns, defaults, strict=False)):
        if column.start < column.stop:
            found = Posterior(deviations[:, column], state.variances[:, column], float(state.prior_variances[at]))
            state.prior_variances[at] = updated_variance(float(default), found)
