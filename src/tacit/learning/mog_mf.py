"""The paper's model: noise estimated as a mixture of Gaussians while the report matrix is factorised by EM.

Algorithm 2, in an order in which the likelihood never falls: users' factors with responsibilities at the current
parameters, items' factors with them computed anew, then the mixture with them computed once more, at the new factors.
The paper updates the mixture first and keeps one set of responsibilities for all three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.learning.closed_form import svd_pair
from tacit.learning.factors import FactorPair, Ridge, Sweeper, random_pair
from tacit.learning.loop import Conduct, State, Step, iterate
from tacit.learning.mixture import NARROWEST_SHARE, NoiseMixture, accidents, updated_mixture

if TYPE_CHECKING:
    import numpy as np

    from tacit.learning.matrix import ReportMatrix
    from tacit.learning.options import MogMfOptions
    from tacit.learning.trace import FitTrace


def fit_mog_mf(
    matrix: ReportMatrix, options: MogMfOptions, rng: np.random.Generator, conduct: Conduct
) -> tuple[State, FitTrace]:
    """Run Algorithm 2."""
    sweeper = Sweeper(matrix, 0.0, Ridge(options.regularisation), conduct.threads)
    narrowest = narrowest_variance(matrix)

    def step(state: State) -> Step:
        return em_iteration(sweeper, state, narrowest)

    state = starting_state(matrix, options, rng)
    return iterate(state, step, conduct, iterations=options.iterations, tolerance=options.tolerance)


def starting_state(matrix: ReportMatrix, options: MogMfOptions, rng: np.random.Generator) -> State:
    """Start factors, weights and variances (Algorithm 2, line 3)."""
    pair: FactorPair
    if options.start == "svd":
        pair = svd_pair(matrix, options.rank, "item", rng)
    else:
        pair = random_pair(matrix, options.rank, offsets=False, rng=rng)
    variance = max(matrix.variance, 10 * narrowest_variance(matrix))
    return State(pair, NoiseMixture.random(options.components, variance, rng))


def narrowest_variance(matrix: ReportMatrix) -> float:
    """Return the limit that keeps a component from collapsing."""
    return NARROWEST_SHARE * float(matrix.scale.high - matrix.scale.low) ** 2


def em_iteration(sweeper: Sweeper, state: State, narrowest: float) -> Step:
    """Move factors (Eq. 10) and mixture (Eq. 9) once; responsibilities (Eq. 8) come and go inside the sweeps."""
    sweeper.users(state.pair, state.mixture)
    sums = sweeper.items(state.pair, state.mixture).sums
    mixture = updated_mixture(state.mixture, sums, narrowest)
    return Step(
        mixture,
        objective=0.5 * sweeper.ridge.penalty(state.pair) - sums.log_likelihood,
        likelihood=sums.log_likelihood / sums.reports,
        notes=accidents(state.mixture, mixture, narrowest),
    )
