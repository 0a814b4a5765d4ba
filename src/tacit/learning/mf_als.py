"""Plain matrix factorisation (Eq. 1) by alternating least squares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.learning.closed_form import svd_pair
from tacit.learning.factors import Ridge, Sweeper, random_pair
from tacit.learning.loop import Conduct, State, Step, iterate
from tacit.learning.mixture import NoiseMixture

if TYPE_CHECKING:
    import numpy as np

    from tacit.learning.matrix import ReportMatrix
    from tacit.learning.options import MfAlsOptions
    from tacit.learning.trace import FitTrace


def fit_mf_als(
    matrix: ReportMatrix, options: MfAlsOptions, rng: np.random.Generator, conduct: Conduct
) -> tuple[State, FitTrace]:
    """Alternate between the two sides until the users' factors stop changing."""
    ridge = Ridge(options.regularisation, options.offset_regularisation)
    sweeper = Sweeper(matrix, matrix.mean if options.offsets else 0.0, ridge, conduct.threads)

    def step(state: State) -> Step:
        sweeper.users(state.pair, state.mixture)
        sums = sweeper.items(state.pair, state.mixture).sums
        return Step(state.mixture, objective=float(sums.square[0]) + ridge.penalty(state.pair))

    if options.start == "svd":
        pair = svd_pair(matrix, options.rank, "item", rng)
    else:
        pair = random_pair(matrix, options.rank, offsets=options.offsets, rng=rng)
    start = State(pair, NoiseMixture.single())
    return iterate(start, step, conduct, iterations=options.iterations, tolerance=options.tolerance)
