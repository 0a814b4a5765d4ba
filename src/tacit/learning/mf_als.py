"""Plain matrix factorisation (Eq. 1) by alternating least squares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.learning.closed_form import starting_pair
from tacit.learning.factors import Ridge
from tacit.learning.loop import Conduct, State, Step, iterate
from tacit.learning.mixture import NoiseMixture

if TYPE_CHECKING:
    import numpy as np

    from tacit.learning.engine import Engine
    from tacit.learning.options import MfAlsOptions
    from tacit.learning.trace import FitTrace


def fit_mf_als(
    engine: Engine, options: MfAlsOptions, rng: np.random.Generator, conduct: Conduct
) -> tuple[State, FitTrace]:
    """Alternate between the two sides until the users' factors stop changing."""
    ridge = Ridge(options.regularisation, options.offset_regularisation)
    pair = starting_pair(engine, options, rng)
    sweeper = engine.sweeper(pair, engine.summary.mean if options.offsets else 0.0, ridge)

    def step(state: State) -> Step:
        change = sweeper.users(state.mixture)
        squares = float(sweeper.items(state.mixture).square[0])
        return Step(state.mixture, objective=squares + sweeper.penalty(), change=change)

    start = State(sweeper.factors, NoiseMixture.single())
    return iterate(start, step, conduct, iterations=options.iterations, tolerance=options.tolerance)
