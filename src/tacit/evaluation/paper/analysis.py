"""From results to curves and comparisons: which setting counts in which fold, and what is beyond chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tacit.evaluation.paper.methods import Method
    from tacit.evaluation.paper.records import FoldTable, Place

SURE = 0.01
"""A difference counts where chance would give one as large less often than this."""


@dataclass(frozen=True, slots=True)
class Point:
    """A method at one epsilon, in every fold."""

    epsilon: str | None
    results: dict[Place, dict[str, Any]]

    def values(self, measure: str) -> dict[Place, float]:
        """Return a measure by place."""
        return {place: float(row[measure]) for place, row in self.results.items()}

    def mean(self, measure: str) -> float:
        """Return the mean over folds and seeds."""
        return float(np.mean(list(self.values(measure).values())))

    def deviation(self, measure: str) -> float:
        """Return the standard deviation over folds and seeds."""
        values = list(self.values(measure).values())
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


LOWER_IS_BETTER = ("rmse", "mae")


def curve(  # noqa: PLR0913 - where, what, how and by what
    table: FoldTable, data: str, method: Method, reading: str, epsilons: Sequence[str], *, measure: str
) -> list[Point]:
    """Return a method's points under a reading; epsilons that were not computed are left out."""
    wanted: Sequence[str | None] = [None] if method.mechanism == "none" else epsilons
    points = [point(table, data, method, reading, epsilon, measure=measure) for epsilon in wanted]
    return [one for one in points if one is not None]


def point(  # noqa: PLR0913 - as above
    table: FoldTable, data: str, method: Method, reading: str, epsilon: str | None, *, measure: str
) -> Point | None:
    """Choose, in every fold, the setting that is best by the measure in all other folds of its seed."""
    scale = next(iter(table.scales(data)), "")
    candidates = [
        table.of(data, scale, method.mechanism, epsilon, options, at=method.at) for options in method.options(reading)
    ]
    candidates = [found for found in candidates if found]
    if not candidates:
        return None
    places = sorted(set.intersection(*(set(found) for found in candidates)))
    sign = 1 if measure in LOWER_IS_BETTER else -1
    values = sign * np.array([[found[place][measure] for place in places] for found in candidates])
    chosen = _without_own(values, np.array([place.seed for place in places])).argmin(axis=0)
    return Point(epsilon, {place: candidates[chosen[k]][place] for k, place in enumerate(places)})


def _without_own(values: NDArray[np.float64], seeds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return, for every fold, the sums over the other folds of its seed; its own value where it is alone."""
    others = values.copy()
    for seed in np.unique(seeds):
        same = seeds == seed
        if same.sum() > 1:
            others[:, same] = values[:, same].sum(axis=1, keepdims=True) - values[:, same]
    return others


@dataclass(frozen=True, slots=True)
class Difference:
    """How two methods differ in a measure, in pairs over folds and seeds."""

    epsilon: str | None
    mean: float
    standard_error: float
    p_value: float
    pairs: int

    def outcome(self, *, lower_is_better: bool) -> str:
        """Say whether the first is better, worse, or not different beyond chance."""
        if not self.p_value < SURE:
            return "even"
        return "better" if (self.mean < 0) == lower_is_better else "worse"


def difference(first: Point, second: Point, measure: str) -> Difference:
    """Compare two points by a t-test on pairs, corrected for what the training sets of folds share.

    The variance of the mean difference is taken as (1/n + test/train) times that of the differences (Nadeau and
    Bengio, 2003): folds share most of what they learn from, so n of them tell less than n independent ones.
    """
    from scipy.special import stdtr  # noqa: PLC0415 - a slow import

    ours, theirs = first.values(measure), second.values(measure)
    places = sorted(set(ours) & set(theirs))
    gaps = np.array([ours[place] - theirs[place] for place in places])
    mean = float(gaps.mean())
    if len(gaps) < 2:  # noqa: PLR2004 - one pair has no spread
        return Difference(first.epsilon, mean, float("inf"), 1.0, len(gaps))
    row = next(iter(first.results.values()))
    variance = float(gaps.var(ddof=1)) * (1 / len(gaps) + row["n_test"] / row["n_train"])
    if variance == 0:
        return Difference(first.epsilon, mean, 0.0, 1.0 if mean == 0 else 0.0, len(gaps))
    p_value = 2 * float(stdtr(len(gaps) - 1, -abs(mean) / variance**0.5))
    return Difference(first.epsilon, mean, variance**0.5, p_value, len(gaps))
