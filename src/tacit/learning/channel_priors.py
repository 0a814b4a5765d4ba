"""What the rows of one side are believed to be: where they are centred, how widely they spread, and how both follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.channel_rows import RowPriors, SideRows
from tacit.learning.hierarchy import Posterior, moved, updated_coefficients, updated_variance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]

_WEIGHTS, _FACTORS = 1, 2  # places in `prior_variances`, behind the offset's


@dataclass(frozen=True, eq=False, slots=True)
class SideState:
    """What is learned of one side beside its rows; the arrays change with every iteration.

    `variances` and `centres` have a column for every column that is solved for: offset, weights, factors.
    `prior_variances` has an entry for the offset, one for all weights, and one for each factor. The first of the
    `coefficients`, and their `uncertainty`, are those of the offset's features.
    """

    variances: Floats
    centres: Floats
    coefficients: Doubles
    uncertainty: Doubles
    prior_variances: Doubles

    @classmethod
    def start(cls, count: int, places: int, prior_variances: Doubles, features: int) -> SideState:
        """Centre everything at zero."""
        columns = 1 + places + len(prior_variances) - _FACTORS
        return cls(
            variances=np.zeros((count, columns), dtype=np.float32),
            centres=np.zeros((count, columns), dtype=np.float32),
            coefficients=np.zeros(features),
            uncertainty=np.zeros(features),
            prior_variances=prior_variances,
        )

    @property
    def priors(self) -> RowPriors:
        """The prior of a row, with a variance for each column that is solved for."""
        places = self.centres.shape[1] - 1 - len(self.prior_variances[_FACTORS:])
        weights = np.full(places, self.prior_variances[_WEIGHTS])
        offset, factors = self.prior_variances[:_WEIGHTS], self.prior_variances[_FACTORS:]
        return RowPriors(np.concatenate([offset, weights, factors]), self.centres)

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Name the arrays, for a checkpoint."""
        return {f"{prefix}_{name}": getattr(self, name) for name in self.__dataclass_fields__}


def follow_offset(own: SideRows, state: SideState, features: Doubles, belief: Doubles) -> None:
    """Let the prior means of offsets follow their features; `belief` holds the prior variances of coefficients."""
    known = slice(len(belief))
    state.coefficients[known], state.uncertainty[known] = _follow(
        own, state, 0, features, state.coefficients[known], belief
    )


def follow_weights(own: SideRows, state: SideState, features: Doubles, coefficients: Doubles, belief: Doubles) -> None:
    """Let the prior means of weights follow features, each with its own column of `coefficients`, which change."""
    for at in range(coefficients.shape[1]):
        coefficients[:, at], _ = _follow(own, state, 1 + at, features, coefficients[:, at], belief)


def _follow(  # noqa: PLR0913, PLR0917 - whose column, and what it follows
    own: SideRows, state: SideState, at: int, features: Doubles, coefficients: Doubles, belief: Doubles
) -> tuple[Doubles, Doubles]:
    """Update the coefficients of one column; move its centres, and its rows as far as reports leave them free."""
    column, prior = own.side.solved[at], float(state.prior_variances[min(at, _WEIGHTS)])
    rows, centres = own.rows[:, column], state.centres[:, at]
    found = Posterior(rows - centres, state.variances[:, at], prior)
    updated, uncertainty = updated_coefficients(coefficients, belief, features, found)
    shift = features @ updated - centres
    own.rows[:, column] = rows + moved(found, shift)
    state.centres[:, at] = centres + shift
    return updated, uncertainty


def learn_variances(own: SideRows, state: SideState, defaults: Doubles) -> None:
    """Learn how widely offsets, weights and, where they have a default here, factors are spread."""
    deviations, places = own.rows[:, own.side.solved] - state.centres, len(own.side.weights)
    factors = (slice(at, at + 1) for at in range(1 + places, deviations.shape[1]))
    columns = [slice(0, 1), slice(1, 1 + places), *factors]
    for at, (column, default) in enumerate(zip(columns, defaults, strict=False)):
        if column.start < column.stop:
            found = Posterior(deviations[:, column], state.variances[:, column], float(state.prior_variances[at]))
            state.prior_variances[at] = updated_variance(float(default), found)
