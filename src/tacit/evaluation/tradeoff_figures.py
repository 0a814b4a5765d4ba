"""The pictures of a trade-off: accuracy against epsilon, and mechanisms at an equal total."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.evaluation.curves import STYLES, Line, Panel, curves_figure
from tacit.evaluation.setting import DEVICE, PLACES, PROVIDER
from tacit.evaluation.user_level import DELTA_TEXT, error_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tacit.evaluation.rows import Row
    from tacit.evaluation.tradeoff import Tradeoff
    from tacit.evaluation.user_level import UserLevel

PLACE_TITLES = {PROVIDER: "at the provider, from reports alone", DEVICE: "on the device, with its own true ratings"}
UNHEARD_LABELS = {PROVIDER: "constant", DEVICE: "no report"}

_TALL, _LESS_TALL = 4.2, 3.6


def tradeoff_figure(made: Tradeoff) -> Any:  # noqa: ANN401 - matplotlib's types stay in figures
    """Draw RMSE against epsilon, one panel a place; bands are one standard deviation over folds."""
    panels = [
        Panel(PLACE_TITLES[place], "RMSE", (*_curves(made.curves(place)), *_levels(made, place)), log_x=True)
        for place in PLACES
    ]
    return curves_figure(panels, len(panels), _TALL)


def pattern_figure(made: Tradeoff) -> Any:  # noqa: ANN401 - as above
    """Draw what devices lose where nobody uses which items were rated."""
    blind = made.blind_curves(DEVICE)
    seeing = {name: rows for name, rows in made.curves(DEVICE).items() if name in blind}
    unseeing = [_curve(_blind(name), f"{name}, pattern off", rows) for name, rows in blind.items()]
    lines = (*_curves(seeing), *unseeing, *_levels(made, DEVICE))
    return curves_figure([Panel(PLACE_TITLES[DEVICE], "RMSE", lines, log_x=True)], 1, _LESS_TALL)


def _curves(curves: Mapping[str, Sequence[Row]]) -> list[Line]:
    return [_curve(name, name, rows) for name, rows in curves.items()]


def _levels(made: Tradeoff, place: str) -> list[Line]:
    return [
        _level("unheard", UNHEARD_LABELS[place], made.unheard(place)),
        _level("baseline", "non-private", made.non_private(place)),
    ]


def _blind(mechanism: str) -> str:
    own = f"{mechanism}-blind"
    return own if own in STYLES else "other-blind"


def _curve(style: str, label: str, rows: Sequence[Row]) -> Line:
    epsilons = tuple(float(row.setting.epsilon or 0) for row in rows)
    return Line(style, label, epsilons, *_measured(rows))


def _level(style: str, label: str, row: Row) -> Line:
    return Line(style, label, (), *_measured([row]))


def _measured(rows: Sequence[Row]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(row.mean("rmse") for row in rows), tuple(row.deviation("rmse") for row in rows)


def user_level_figure(levels: Sequence[UserLevel], made: Tradeoff) -> Any:  # noqa: ANN401 - as above
    """Draw, for one number of ratings, the noise of a report and the provider's error that go with an equal total."""
    least = {total: min(one.noise_deviation for one in levels if one.total == total) for total in totals_of(levels)}
    panels = [
        _total_panel(levels, "noise deviation of one report", lambda one: one.noise_deviation, log_y=True),
        _total_panel(
            levels, "the same, as a multiple of the least", lambda one: one.noise_deviation / least[one.total]
        ),
        _total_panel(levels, "RMSE at the provider, interpolated", lambda one: error_of(one, made, PROVIDER)),
    ]
    return curves_figure([panel for panel in panels if panel.lines], len(panels), _LESS_TALL)


def totals_of(levels: Sequence[UserLevel]) -> list[float]:
    """Return the totals compared, each once."""
    return sorted({level.total for level in levels})


def _total_panel(
    levels: Sequence[UserLevel], y_label: str, value: Callable[[UserLevel], float | None], *, log_y: bool = False
) -> Panel:
    lines = []
    for name in dict.fromkeys(level.mechanism for level in levels):
        points = [(level.total, value(level)) for level in levels if level.mechanism == name]
        known = [(total, y) for total, y in points if y is not None]
        if known:
            totals, values = zip(*known, strict=True)
            lines.append(Line(name, name, totals, values, (0.0,) * len(known)))
    title, x_label = f"a person with {levels[0].ratings} ratings", f"total epsilon at delta = {DELTA_TEXT}"
    return Panel(title, y_label, tuple(lines), x_label, log_x=True, log_y=log_y)


def error_of(level: UserLevel, made: Tradeoff, place: str) -> float | None:
    """Return the RMSE at a level's epsilon, interpolated between those measured; nothing outside them."""
    curve = made.curves(place)[level.mechanism]
    epsilons = [float(row.setting.epsilon or 0) for row in curve]
    return error_at(level.epsilon, epsilons, [row.mean("rmse") for row in curve])
