"""Curves of a measure against epsilon: one style for every method everywhere, readable in grey, labelled directly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.evaluation.figures import panels_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEIGHT = 2.9
_LABEL = 0.187  # inches from one label to the next
_AROUND = 0.7  # inches above and below a panel
_MARGIN = 0.06
_LEAST_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Style:
    """How a method is drawn; dashes and markers tell methods apart where colours cannot."""

    colour: str
    dashes: tuple[float, ...] = ()
    marker: str = ""
    width: float = 1.6


# Colours of clearly different lightness.
STYLES = {
    "blp-mog": Style("#a11218", (), "o", 2.2),
    "laplace-mog": Style("#c26a00", (5, 2), "s"),
    "blp-svd": Style("#2f6db5", (), "^"),
    "laplace-svd": Style("#5bb8ee", (2, 1.2), "v"),
    "isgd": Style("#2e7d4f", (7, 2, 1.5, 2), "D"),
    "pg-mf": Style("#7a4aa0", (3, 1.5), "P"),
    "tacit": Style("#0b6e6e", (), "<", 2.0),
    "tacit-device": Style("#063b4f", (4, 1.5), ">", 2.0),
    "tacit-no-pattern": Style("#5f9ea0", (1.2, 1.2), "X", 1.2),
    "tacit-no-reports": Style("#3f6f7f", (3, 1.5, 1, 1.5), "", 1.2),
    "baseline": Style("#000000", (9, 3)),
    "constant": Style("#777777", (1.5, 2), "", 1.2),
    "everything": Style("#777777", (6, 2, 1.5, 2, 1.5, 2), "", 1.2),
    "prior-true": Style("#000000", (9, 3), "", 1.4),
    "prior-learned": Style("#2e7d4f", (), "D", 2.0),
    "prior-generic": Style("#2f6db5", (5, 2), "^"),
    "prior-uniform": Style("#5bb8ee", (2, 1.2), "v"),
    "prior-mirrored": Style("#c26a00", (7, 2, 1.5, 2), "s"),
    "bounded-laplace": Style("#a11218", (), "o"),
    "clamped-laplace": Style("#c26a00", (5, 2), "s"),
    "randomized-response": Style("#7a4aa0", (3, 1.5), "P"),
    "duchi": Style("#2f6db5", (), "^"),
    "piecewise": Style("#5bb8ee", (2, 1.2), "v"),
    "hybrid": Style("#8c6d46", (7, 2, 1.5, 2), "X"),
    "square-wave": Style("#d1569b", (4, 1.2, 1, 1.2), "<"),
    "tailored": Style("#2e7d4f", (), "D", 2.0),
    "bounded-laplace-blind": Style("#d0666b", (1.5, 1.5), "o", 1.2),
    "tailored-blind": Style("#62a880", (1.5, 1.5), "D", 1.2),
    "other-blind": Style("#999999", (1.5, 1.5), ".", 1.2),
    "unheard": Style("#777777", (6, 2, 1.5, 2, 1.5, 2), "", 1.4),
}


@dataclass(frozen=True, slots=True)
class Line:
    """A curve with its spread; a single value without epsilon is a level across the panel."""

    style: str
    label: str
    epsilons: tuple[float, ...]
    values: tuple[float, ...]
    spread: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes."""

    title: str
    y_label: str
    lines: tuple[Line, ...]
    x_label: str = "epsilon of one rating"
    from_zero: bool = False
    """Whether the measure is a share: then the axis starts at 0, and does not magnify what is next to nothing."""
    log_x: bool = False
    log_y: bool = False


def curves_figure(panels: Sequence[Panel], across: int, height: float = _HEIGHT) -> Any:  # noqa: ANN401 - matplotlib's types stay in figures
    """Lay out panels, so many in a row; many curves need panels of more height for their labels."""
    figure, axes = panels_of(len(panels), across)
    down = -(-len(panels) // across)
    figure.set_size_inches((4.3 + 0.3 * (height - _HEIGHT)) * across + 0.3, height * down + 0.3)
    for axis, panel in zip(axes, panels, strict=True):
        _draw(axis, panel, _LABEL / (height - _AROUND))
    return figure


def _draw(axis: Any, panel: Panel, gap: float) -> None:  # noqa: ANN401 - as above
    reach = sorted({epsilon for line in panel.lines for epsilon in line.epsilons}) or [0.0, 1.0]
    low, high = (reach[0], reach[-1]) if len(reach) > 1 else (reach[0] / 2, reach[0] * 2)
    for line in panel.lines:
        _draw_line(axis, line, (low, high))
    axis.set_xlim(low - _MARGIN * (high - low), high + _MARGIN / 2 * (high - low))
    if panel.log_x:
        _log_x(axis, (low, high), reach)
    if panel.log_y:
        _log_y(axis)
    if panel.from_zero:
        axis.set_ylim(0, max(_LEAST_SHARE, 1.08 * max(max(line.values) for line in panel.lines)))
    axis.set_title(panel.title, fontsize=10)
    axis.set_xlabel(panel.x_label, fontsize=9)
    axis.set_ylabel(panel.y_label, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(axis="y", color="#e6e6e6", linewidth=0.6)
    axis.set_axisbelow(True)
    _label(axis, panel.lines, gap)


def _log_x(axis: Any, ends: tuple[float, float], ticks: Sequence[float]) -> None:  # noqa: ANN401 - as above
    """Spread small values out, and write only those that were measured."""
    low, high = ends
    axis.set_xscale("log")
    axis.set_xlim(low * (low / high) ** _MARGIN, high * (high / low) ** (_MARGIN / 2))
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_xticks([], minor=True)


def _log_y(axis: Any) -> None:  # noqa: ANN401 - as above
    """Write plain numbers on a logarithmic axis: 1, 2 and 5 times powers of ten."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    powers = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)))
    ticks = [float(tick) for tick in np.outer(10.0**powers, [1, 2, 5]).ravel() if low <= tick <= high]
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_yticks([], minor=True)


def _draw_line(axis: Any, line: Line, reach: tuple[float, float]) -> None:  # noqa: ANN401 - as above
    style = STYLES[line.style]
    level = not line.epsilons
    x = np.array(reach if level else line.epsilons)
    y = np.repeat(line.values, 2) if level else np.array(line.values)
    spread = np.repeat(line.spread, 2) if level else np.array(line.spread)
    axis.fill_between(x, y - spread, y + spread, color=style.colour, alpha=0.15, linewidth=0)
    (drawn,) = axis.plot(
        x, y, color=style.colour, linewidth=style.width, marker="" if level else style.marker, markersize=4.5
    )
    if style.dashes:
        drawn.set_dashes(style.dashes)


def _label(axis: Any, lines: Sequence[Line], gap: float) -> None:  # noqa: ANN401 - as above
    """Write each name at the right end of its curve, moved apart where they would touch."""
    to_pixels, from_pixels = axis.transData, axis.transAxes.inverted()
    ends = [from_pixels.transform(to_pixels.transform((axis.get_xlim()[1], line.values[-1])))[1] for line in lines]
    for line, end, place in zip(lines, ends, spread_apart(ends, gap, least=0.0), strict=True):
        colour = STYLES[line.style].colour
        axis.annotate(
            line.label,
            xy=(1.0, end),
            xytext=(1.05, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            fontsize=8.5,
            color=colour,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.6,
                "shrinkA": 0,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


def spread_apart(places: Sequence[float], gap: float, least: float = -np.inf) -> list[float]:
    """Move numbers as little as needed for neighbours to be a gap apart, none below the least, keeping their order.

    >>> [round(place, 3) for place in spread_apart([0.5, 0.5, 0.9], 0.1)]
    [0.45, 0.55, 0.9]
    """
    order = np.argsort(places, kind="stable")
    groups: list[list[float]] = []  # of places that touch: how many, and where their middle is
    for place in np.asarray(places, dtype=np.float64)[order]:
        groups.append([1, max(float(place), least)])
        while len(groups) > 1 and _touch(groups[-2], groups[-1], gap):
            (below, middle), (above, other) = groups[-2:]
            count = below + above
            groups[-2:] = [[count, max((below * middle + above * other) / count, least + gap * (count - 1) / 2)]]
    moved = [middle + gap * (k - (count - 1) / 2) for count, middle in groups for k in range(int(count))]
    result = np.empty(len(moved))
    result[order] = moved
    return [float(place) for place in result]


def _touch(below: Sequence[float], above: Sequence[float], gap: float) -> bool:
    return above[1] - below[1] < gap * (above[0] + below[0]) / 2
