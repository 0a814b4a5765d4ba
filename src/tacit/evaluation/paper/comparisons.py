"""Claims of the form "this is better than that": how each turned out, under every reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.evaluation.paper.analysis import LOWER_IS_BETTER, Point, curve, difference
from tacit.evaluation.paper.experiments import LABELS
from tacit.evaluation.paper.methods import PUBLISHED, RANKED, TUNED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.evaluation.paper.methods import Method
    from tacit.evaluation.paper.records import FoldTable

MEASURES = {"rmse": "RMSE", "f_score": "F-score", "f_score_all": "F-score over all items", "ndcg": "nDCG@10"}

# Which settings the paper's method and its rival may use.
MAIN = "every method is taken at its best rank"
ALL_TUNED = "every method is tuned"
KINDEST = "the paper's method is tuned and its rival is not"
PAIRS = {
    "every method is taken at rank 3": (PUBLISHED, PUBLISHED),
    MAIN: (RANKED, RANKED),
    ALL_TUNED: (TUNED, TUNED),
    KINDEST: (TUNED, PUBLISHED),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The first method is claimed to be better than the second, at every epsilon.

    `weakest` is a form of the second that the publication does not exclude, for the reading kindest to the claim.
    """

    data: str
    first: Method
    second: Method
    measure: str
    weakest: Method | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """How a comparison turned out under one reading: both curves, and better, even or worse at every epsilon."""

    comparison: Comparison
    first: tuple[Point, ...]
    second: tuple[Point, ...]
    outcomes: dict[str, str]

    @property
    def holds(self) -> bool:
        """Whether the first was better at every epsilon."""
        return bool(self.outcomes) and set(self.outcomes.values()) == {"better"}

    def where(self, outcome: str) -> str:
        """Say at which epsilons it turned out so; empty if at none."""
        return spans(list(self.outcomes), [epsilon for epsilon, found in self.outcomes.items() if found == outcome])

    def figures(self) -> str:
        """Write both sides at the lowest, a middle and the highest epsilon."""
        chosen = sorted({0, len(self.first) // 2, len(self.first) - 1})
        measure = self.comparison.measure
        pairs = [(self.first[k], self.second[k]) for k in chosen]
        told = [f"{one.epsilon}: {spread(one, measure)} against {spread(other, measure)}" for one, other in pairs]
        return f"{LABELS[self.comparison.data]}, {MEASURES[measure]} at epsilon " + "; ".join(told)


def compare(table: FoldTable, comparison: Comparison, pair: str) -> Found | None:
    """Compare under a reading; None where nothing was computed for it."""
    first_reading, second_reading = PAIRS[pair]
    data, measure = comparison.data, comparison.measure
    lower = measure in LOWER_IS_BETTER
    epsilons = table.epsilons(data, comparison.first.mechanism)
    first = curve(table, data, comparison.first, first_reading, epsilons, measure=measure)
    rival = comparison.weakest if pair == KINDEST and comparison.weakest is not None else comparison.second
    second = {one.epsilon: one for one in curve(table, data, rival, second_reading, epsilons, measure=measure)}
    pairs = [(one, found) for one in first if (found := second.get(one.epsilon) or second.get(None)) is not None]
    outcomes = {
        str(one.epsilon): difference(one, other, measure).outcome(lower_is_better=lower) for one, other in pairs
    }
    if not pairs:
        return None
    return Found(comparison, tuple(one for one, _ in pairs), tuple(other for _, other in pairs), outcomes)


def spans(all_of_them: Sequence[str], chosen: Sequence[str]) -> str:
    """Write some of the epsilons studied as a range, if they are one.

    >>> spans(["0.1", "1", "3"], ["0.1", "1"]), spans(["0.1", "1", "3"], ["3"]), spans(["0.1", "1", "3"], ["0.1", "3"])
    ('epsilon up to 1', 'epsilon from 3 on', 'epsilon 0.1, 3')
    """
    if not chosen:
        return ""
    if list(chosen) == list(all_of_them):
        return "every epsilon"
    if list(chosen) == list(all_of_them[: len(chosen)]):
        return f"epsilon up to {chosen[-1]}"
    if list(chosen) == list(all_of_them[-len(chosen) :]):
        return f"epsilon from {chosen[0]} on"
    return f"epsilon {', '.join(chosen)}"


def spread(point: Point, measure: str) -> str:
    """Write a measure with its standard deviation over folds."""
    return f"{point.mean(measure):.3f} ± {point.deviation(measure):.3f}"
