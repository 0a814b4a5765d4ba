"""The paper's model: noise estimated as a mixture of Gaussians while the report matrix is factorised by EM.

Algorithm 2, in an order in which the likelihood never falls: users' factors with responsibilities at the current
parameters, items' factors with them computed anew, then the mixture with them computed once more, at the new factors.
The paper updates the mixture first and keeps one set of responsibilities for all three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.learning.closed_form import starting_pair
from tacit.learning.factors import Ridge
from tacit.learning.loop import Conduct, State, Step, iterate
from tacit.learning.mixture import NARROWEST_SHARE, NoiseMixture, accidents, updated_mixture

if TYPE_CHECKING:
    import numpy as np

    from tacit.learning.engine import Engine, ReportSummary, Sweeper
    from tacit.learning.options import MogMfOptions
    from tacit.learning.trace import FitTrace


def fit_mog_mf(
    engine: Engine, options: MogMfOptions, rng: np.random.Generator, conduct: Conduct
) -> tuple[State, FitTrace]:
    """Run Algorithm 2."""
    narrowest = narrowest_variance(engine.summary)
    sweeper, mixture = start(engine, options, rng)

    def step(state: State) -> Step:
        return em_iteration(sweeper, state.mixture, narrowest)

    state = State(sweeper.factors, mixture)
    return iterate(state, step, conduct, iterations=options.iterations, tolerance=options.tolerance)


def start(engine: Engine, options: MogMfOptions, rng: np.random.Generator) -> tuple[Sweeper, NoiseMixture]:
    """Start factors, weights and variances (Algorithm 2, line 3)."""
    pair = starting_pair(engine, options, rng)
    sweeper = engine.sweeper(pair, 0.0, Ridge(options.regularisation), options.components)
    variance = max(engine.summary.variance, 10 * narrowest_variance(engine.summary))
    return sweeper, NoiseMixture.random(options.components, variance, rng)


def narrowest_variance(summary: ReportSummary) -> float:
    """Return the limit that keeps a component from collapsing."""
    return NARROWEST_SHARE * float(summary.scale.high - summary.scale.low) ** 2


def em_iteration(sweeper: Sweeper, before: NoiseMixture, narrowest: float) -> Step:
    """Move factors (Eq. 10) and mixture (Eq. 9) once; responsibilities (Eq. 8) come and go inside the sweeps."""
    change = sweeper.users(before)
    sums = sweeper.items(before)
    mixture = updated_mixture(before, sums, narrowest)
    return Step(
        mixture,
        objective=0.5 * sweeper.penalty() - sums.log_likelihood,
        change=change,
        likelihood=sums.log_likelihood / sums.reports,
        notes=accidents(before, mixture, narrowest),
    )
