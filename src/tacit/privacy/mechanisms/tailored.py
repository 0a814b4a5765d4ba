"""The channel tailored to a scale and a prior: as informative as epsilon allows.

Under epsilon local differential privacy a channel that is optimal for a
sublinear measure of information can be built from extremal columns, which take
two levels only, e^epsilon apart (Kairouz, Oh and Viswanath, 2016). Which columns
to use, and with what weight, is a linear program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import MechanismError
from tacit.privacy.calibration import calibrate
from tacit.privacy.mechanisms.design import Design

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.privacy.prior import Prior
    from tacit.privacy.scale import RatingScale

_ALL_PATTERNS_UP_TO = 12
_MOST_CUTS = 100
_NEGLIGIBLE = 1e-9


def tailored(scale: RatingScale, epsilon: float, prior: Prior) -> Design:
    """Design the two-level columns that explain most of the rating's variance under the prior.

    A report of a column stands for its calibrated value. For few ranks and small
    epsilon the answer is a single yes-or-no question about the rating.
    """
    levels = np.where(_patterns(scale.size), 1.0, np.exp(-epsilon))
    weights = _most_informative(levels, prior)
    used = weights > _NEGLIGIBLE
    columns = levels[used] * _exact_weights(levels[used])[:, np.newaxis]
    probabilities = columns.T / columns.sum(axis=0)[:, np.newaxis]
    return Design.sorted_by_value(calibrate(probabilities, prior).values, probabilities)


def _patterns(ranks: int) -> NDArray[np.bool_]:
    """Return the candidate columns: which ranks are on the upper level, one row per column."""
    if ranks <= _ALL_PATTERNS_UP_TO:
        numbers = np.arange(1, 2**ranks - 1)[:, np.newaxis]
        return np.asarray(numbers >> np.arange(ranks) & 1, dtype=np.bool_)
    cuts = np.unique(np.linspace(0, ranks, min(ranks, _MOST_CUTS) + 1).astype(np.int64))
    first, last = (cuts[side] for side in np.triu_indices(len(cuts), k=1))
    rank = np.arange(ranks)
    intervals = (rank >= first[:, np.newaxis]) & (rank < last[:, np.newaxis])
    intervals = intervals[~intervals.all(axis=1)]
    return np.unique(np.concatenate([intervals, ~intervals]), axis=0)


def _most_informative(levels: NDArray[np.float64], prior: Prior) -> NDArray[np.float64]:
    """Weigh the columns so that every row sums to 1 and the explained variance is largest."""
    from scipy.optimize import linprog  # noqa: PLC0415 - a slow import that only this mechanism needs

    probability = levels @ prior.probabilities
    moment = levels @ (prior.probabilities * (prior.scale.ratings - prior.mean) / np.sqrt(prior.variance))
    explained = moment**2 / probability
    # The solver's tolerances are absolute; a small epsilon must not make all columns look alike to it.
    gain = explained / explained.max()
    answer = linprog(-gain, A_eq=levels.T, b_eq=np.ones(prior.scale.size), method="highs")
    if not answer.success:
        msg = f"the linear program found no channel ({answer.message}); choose another prior or mechanism"
        raise MechanismError(msg)
    return np.asarray(answer.x)


def _exact_weights(levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve again for the few columns in use, to more digits than the program's tolerance gives."""
    from scipy.optimize import nnls  # noqa: PLC0415 - as above

    weights, _ = nnls(levels.T, np.ones(levels.shape[1]))
    return np.asarray(weights)
