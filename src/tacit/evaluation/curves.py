"""Curves of a measure against epsilon: one style for every method everywhere, readable in grey, labelled directly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.evaluation.figures import panels_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEAST_GAP = 0.085  # between labels, as a share of the panel's height
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
    "baseline": Style("#000000", (9, 3)),
    "constant": Style("#777777", (1.5, 2), "", 1.2),
    "everything": Style("#777777", (6, 2, 1.5, 2, 1.5, 2), "", 1.2),
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


def curves_figure(panels: Sequence[Panel], across: int) -> Any:  # noqa: ANN401 - matplotlib's types stay in figures
    """Lay out panels, so many in a row."""
    figure, axes = panels_of(len(panels), across)
    down = -(-len(panels) // across)
    figure.set_size_inches(4.3 * across + 0.3, 2.9 * down + 0.3)
    for axis, panel in zip(axes, panels, strict=True):
        _draw(axis, panel)
    return figure


def _draw(axis: Any, panel: Panel) -> None:  # noqa: ANN401 - as above
    reach = [epsilon for line in panel.lines for epsilon in line.epsilons] or [0.0, 1.0]
    low, high = min(reach), max(reach)
    for line in panel.lines:
        _draw_line(axis, line, (low, high))
    axis.set_xlim(low - _MARGIN * (high - low), high + _MARGIN / 2 * (high - low))
    if panel.from_zero:
        axis.set_ylim(0, max(_LEAST_SHARE, 1.08 * max(max(line.values) for line in panel.lines)))
    axis.set_title(panel.title, fontsize=10)
    axis.set_xlabel(panel.x_label, fontsize=9)
    axis.set_ylabel(panel.y_label, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(axis="y", color="#e6e6e6", linewidth=0.6)
    axis.set_axisbelow(True)
    _label(axis, panel.lines)


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


def _label(axis: Any, lines: Sequence[Line]) -> None:  # noqa: ANN401 - as above
    """Write each name at the right end of its curve, moved apart where they would touch."""
    low, high = axis.get_ylim()
    ends = [(line.values[-1] - low) / (high - low) for line in lines]
    for line, end, place in zip(lines, ends, spread_apart(ends, _LEAST_GAP), strict=True):
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
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
        )


def spread_apart(places: Sequence[float], gap: float) -> list[float]:
    """Move numbers as little as needed for neighbours to be a gap apart, keeping their order.

    >>> [round(place, 3) for place in spread_apart([0.5, 0.5, 0.9], 0.1)]
    [0.45, 0.55, 0.9]
    """
    order = np.argsort(places, kind="stable")
    groups: list[list[float]] = []  # of places that touch: how many, and where their middle is
    for place in np.asarray(places, dtype=np.float64)[order]:
        groups.append([1, float(place)])
        while len(groups) > 1 and _touch(groups[-2], groups[-1], gap):
            (below, middle), (above, other) = groups[-2:]
            groups[-2:] = [[below + above, (below * middle + above * other) / (below + above)]]
    moved = [middle + gap * (k - (count - 1) / 2) for count, middle in groups for k in range(int(count))]
    result = np.empty(len(moved))
    result[order] = moved
    return [float(place) for place in result]


def _touch(below: Sequence[float], above: Sequence[float], gap: float) -> bool:
    return above[1] - below[1] < gap * (above[0] + below[0]) / 2
