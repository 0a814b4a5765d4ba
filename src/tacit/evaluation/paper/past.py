"""Past the paper: what each idea gives, and lists beside those of every other private method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.evaluation.paper.analysis import Point, curve, difference
from tacit.evaluation.paper.comparisons import MEASURES, spans
from tacit.evaluation.paper.experiments import JESTER, LABELS, LIBIMSETI, MOVIELENS
from tacit.evaluation.paper.methods import (
    BLP_MOG,
    BLP_SVD,
    ISGD,
    LAPLACE_MOG,
    LAPLACE_SVD,
    PGMF,
    TACIT,
    TACIT_DEVICE,
    TACIT_TAILORED,
    TACIT_WITHOUT_PATTERN,
    TACIT_WITHOUT_REPORTS,
    TUNED,
    Method,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tacit.evaluation.paper.records import FoldTable

SHOWN = ("0.1", "0.5", "1", "2", "3")
"""The epsilons that have columns."""

# One after the other: each has what those above it have; then the controls of the device.
_IDEAS = {
    "the paper's method, tuned": BLP_MOG,
    "reports read through their channel, and the pattern: provider": TACIT,
    "ranked with own ratings: device": TACIT_DEVICE,
    "a tailored channel: device": TACIT_TAILORED,
    "control: device, pattern off": TACIT_WITHOUT_PATTERN,
    "control: device, reports not read": TACIT_WITHOUT_REPORTS,
}
_RIVALS = (BLP_MOG, LAPLACE_MOG, BLP_SVD, LAPLACE_SVD, ISGD, PGMF)
_DATA = tuple(source.place for source in (MOVIELENS, JESTER, LIBIMSETI))
_LIST_MEASURES = ("ndcg", "f_score_all")
_NOTHING = "-"


def idea_rows(table: FoldTable) -> Iterator[list[str]]:
    """Write the RMSE with every idea added; data sets without channel-mf are left out."""
    for data in _DATA:
        if not _points(table, data, TACIT_DEVICE, "rmse"):
            continue
        for idea, method in _IDEAS.items():
            points = _points(table, data, method, "rmse")
            yield [f"{LABELS[data]}: {idea}", *(_mean(points.get(one), "rmse") for one in SHOWN)]


def list_rows(table: FoldTable) -> Iterator[list[str]]:
    """Compare lists of the device, on tailored reports, with the best of all other private methods, tuned.

    After the epsilons: at which of them it is better than every other, and what it is with reports unread.
    """
    for data in _DATA:
        for measure in _LIST_MEASURES:
            ours = _points(table, data, TACIT_TAILORED, measure)
            met = _rivals(table, data, measure)
            compared = [epsilon for epsilon in ours if epsilon in met]
            if not compared:
                continue
            better = [one for one in compared if all(_is_better(ours[one], two, measure) for _, two in met[one])]
            cells = [_beside(ours[one], met[one], measure) if one in compared else _NOTHING for one in SHOWN]
            unread = _points(table, data, TACIT_WITHOUT_REPORTS, measure).get(SHOWN[0])
            yield [f"{LABELS[data]}: {MEASURES[measure]}", *cells, spans(compared, better), _mean(unread, measure)]


def _rivals(table: FoldTable, data: str, measure: str) -> dict[str, list[tuple[Method, Point]]]:
    """Return all other private methods that were run at an epsilon."""
    met: dict[str, list[tuple[Method, Point]]] = {}
    for rival in _RIVALS:
        for epsilon, point in _points(table, data, rival, measure).items():
            met.setdefault(epsilon, []).append((rival, point))
    return met


def _points(table: FoldTable, data: str, method: Method, measure: str) -> dict[str, Point]:
    """Return a method's points by epsilon; one without noise is the same at all of those shown."""
    epsilons = table.epsilons(data, method.mechanism)
    points = curve(table, data, method, TUNED, epsilons, measure=measure)
    return {epsilon: one for one in points for epsilon in ([one.epsilon] if one.epsilon else SHOWN)}


def _mean(point: Point | None, measure: str) -> str:
    return _NOTHING if point is None else f"{point.mean(measure):.3f}"


def _is_better(ours: Point, other: Point, measure: str) -> bool:
    return difference(ours, other, measure).outcome(lower_is_better=False) == "better"


def _beside(ours: Point, rivals: list[tuple[Method, Point]], measure: str) -> str:
    """Write our figure beside that of the best rival."""
    rival, best = max(rivals, key=lambda one: one[1].mean(measure))
    return f"{_mean(ours, measure)} / {_mean(best, measure)} {rival.label}"
