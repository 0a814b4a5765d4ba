"""The paper's figures, laid out from results that were computed before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.evaluation.curves import Line, Panel, curves_figure
from tacit.evaluation.figures import panels_of
from tacit.evaluation.paper.analysis import Point, curve
from tacit.evaluation.paper.experiments import JESTER, LABELS, LIBIMSETI, MOVIELENS
from tacit.evaluation.paper.methods import (
    BASELINE,
    BLP_MOG,
    BLP_SVD,
    CONSTANT,
    ISGD,
    LAPLACE_MOG,
    LAPLACE_SVD,
    PGMF,
    RANKED,
    TACIT_ALL,
    Method,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.evaluation.paper.compute import Reproduction
    from tacit.evaluation.paper.records import FoldTable

_MOVIELENS, _JESTER, _LIBIMSETI = MOVIELENS.place, JESTER.place, LIBIMSETI.place
_RMSE, _F, _F_ALL = "RMSE", "F-score, items held out", "F-score, all items"
_NOISE_COLOURS = {"laplace": "#4aa8e0", "bounded-laplace": "#a11218"}
_NOISE_LABELS = {"laplace": "Laplace", "bounded-laplace": "bounded Laplace"}


def drawings(made: Reproduction) -> dict[str, Any]:
    """Draw every figure whose results are there, by name."""
    table = made.folds
    figures: dict[str, Any] = {}
    if made.noise:
        figures["noise"] = _noise(made.noise)
    if _has(table, _MOVIELENS, "laplace") or _has(table, _JESTER, "laplace"):
        figures["mechanisms"] = _pairs(table, by_model=True)
        figures["models"] = _pairs(table, by_model=False)
    if _has(table, _MOVIELENS, PGMF.mechanism):
        figures["pg-mf"] = _pg_mf(table)
    if any(_has(table, name, ISGD.mechanism) for name in (_MOVIELENS, _JESTER, _LIBIMSETI)):
        figures["isgd"] = _isgd(table, ("rmse", "f_score", "f_score_all"))
        figures["isgd-rmse"] = _isgd(table, ("rmse",))
    return figures


def _has(table: FoldTable, data: str, mechanism: str) -> bool:
    return bool(table.epsilons(data, mechanism))


def line(table: FoldTable, data: str, method: Method, measure: str, epsilons: Sequence[str]) -> Line | None:
    """Return a method's curve at its best rank by the measure, or nothing if it was not computed."""
    points = curve(table, data, method, RANKED, epsilons, measure=measure)
    if not points:
        return None
    at = tuple(float(one.epsilon) for one in points if one.epsilon is not None)
    return Line(method.key, method.label, at, *_measured(points, measure))


def _measured(points: Sequence[Point], measure: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(one.mean(measure) for one in points), tuple(one.deviation(measure) for one in points)


def _lines(
    table: FoldTable, data: str, methods: Sequence[Method], measure: str, epsilons: Sequence[str]
) -> tuple[Line, ...]:
    found = [line(table, data, method, measure, epsilons) for method in methods]
    if measure == "f_score":
        found.append(_everything(table, data, epsilons))
    return tuple(one for one in found if one is not None)


def _everything(table: FoldTable, data: str, epsilons: Sequence[str]) -> Line | None:
    """Return what recommending every held-out item scores: the same whatever the method."""
    points = curve(table, data, BLP_MOG, RANKED, epsilons, measure="rmse")[:1]
    return Line("everything", "recommend all", (), *_measured(points, "f_score_everything")) if points else None


def _pairs(table: FoldTable, *, by_model: bool) -> Any:  # noqa: ANN401 - matplotlib's types stay in figures
    """Compare two mechanisms with either model, or two models with either mechanism."""
    rows = [(BLP_MOG, LAPLACE_MOG), (BLP_SVD, LAPLACE_SVD)]
    names = ["with the mixture", "with SVD"]
    if not by_model:
        rows = [(BLP_MOG, BLP_SVD), (LAPLACE_MOG, LAPLACE_SVD)]
        names = ["bounded Laplace", "Laplace"]
    panels = []
    for methods, name in zip(rows, names, strict=True):
        for data in (one for one in (_MOVIELENS, _JESTER) if _has(table, one, "laplace")):
            epsilons = table.epsilons(data, "laplace")
            lines = _lines(table, data, (*methods, CONSTANT), "rmse", epsilons)
            panels.append(Panel(f"{LABELS[data]}, {name}", _RMSE, lines))
    return curves_figure(panels, len(panels) // len(rows))


def _pg_mf(table: FoldTable) -> Any:  # noqa: ANN401 - as above
    epsilons = table.epsilons(_MOVIELENS, PGMF.mechanism)
    methods = (BLP_MOG, PGMF, *TACIT_ALL, BASELINE)
    panels = [
        Panel(
            LABELS[_MOVIELENS],
            name,
            _lines(table, _MOVIELENS, (*methods, CONSTANT) if measure != "f_score" else methods, measure, epsilons),
            "epsilon: of one rating (BLP),\nof a whole profile (PG-MF)",
            from_zero=measure != "rmse",
        )
        for measure, name in (("rmse", _RMSE), ("f_score", _F), ("f_score_all", _F_ALL))
    ]
    return curves_figure(panels, 3)


def _isgd(table: FoldTable, measures: Sequence[str]) -> Any:  # noqa: ANN401 - as above
    names = {"rmse": _RMSE, "f_score": _F, "f_score_all": _F_ALL}
    panels = []
    for measure in measures:
        for data in (name for name in (_MOVIELENS, _JESTER, _LIBIMSETI) if _has(table, name, ISGD.mechanism)):
            methods = (BLP_MOG, ISGD, *TACIT_ALL, BASELINE, *([CONSTANT] if measure != "f_score" else []))
            lines = _lines(table, data, methods, measure, table.epsilons(data, ISGD.mechanism))
            panels.append(Panel(LABELS[data], names[measure], lines, from_zero=measure != "rmse"))
    return curves_figure(panels, len(panels) // len(measures))


def _noise(rows: Sequence[dict[str, Any]]) -> Any:  # noqa: ANN401 - as above
    epsilons = list(dict.fromkeys(str(row["epsilon"]) for row in rows))
    figure, panels = panels_of(len(epsilons), len(epsilons))
    figure.set_size_inches(10, 3.6)
    for panel, epsilon in zip(panels, epsilons, strict=True):
        for mechanism in ("laplace", "bounded-laplace"):
            chosen = [row for row in rows if (row["mechanism"], str(row["epsilon"])) == (mechanism, epsilon)]
            _draw_noise(panel, mechanism, chosen)
        panel.set_title(f"epsilon {epsilon}", fontsize=10)
        panel.set_xlabel("noise (reported value - rating)", fontsize=9)
    panels[0].set_ylabel("probability density", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def _draw_noise(panel: Any, mechanism: str, rows: Sequence[dict[str, Any]]) -> None:  # noqa: ANN401 - as above
    shown = [row for row in rows if np.isfinite(row["from"]) and np.isfinite(row["to"])]
    left, right = (np.array([row[name] for row in shown]) for name in ("from", "to"))
    drawn, derived = (np.array([row[name] for row in shown]) / (right - left) for name in ("drawn", "derived"))
    name, colour = _NOISE_LABELS[mechanism], _NOISE_COLOURS[mechanism]
    panel.bar(left, drawn, width=right - left, align="edge", color=colour, alpha=0.3, label=f"{name}, drawn")
    style = "--" if mechanism == "laplace" else "-"
    panel.plot((left + right) / 2, derived, style, color=colour, linewidth=1.6, label=f"{name}, derived")
