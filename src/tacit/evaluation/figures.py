"""Pictures, drawn from results that were computed before: the only home of matplotlib."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import FileError, MissingExtraError
from tacit.files import write_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tacit.evaluation.demo import DemoRow
    from tacit.privacy.noise import NoiseLaw

_DRAWN, _DERIVED, _TRUTH = "#8fb3d9", "#b3261e", "#4a7c59"
_FORMATS = {".svg", ".png", ".pdf"}


def check_picture_name(path: str | Path) -> str:
    """Return a picture's format, or refuse a name that says none."""
    ending = Path(path).suffix.lower()
    if ending not in _FORMATS:
        raise FileError(f"{path} does not end in {', '.join(sorted(_FORMATS))}; choose one of these picture formats")
    return ending[1:]


def save_noise_figure(laws: Sequence[NoiseLaw], title: str, path: str | Path) -> None:
    """Draw the noise law of each mechanism, derived and drawn, like the paper's noise figure."""
    kind = check_picture_name(path)
    write_bytes(path, render(noise_figure(laws, title), kind))


def noise_figure(laws: Sequence[NoiseLaw], title: str) -> Any:  # noqa: ANN401 - matplotlib's types stay in this module
    """Lay out one panel per mechanism."""
    figure, panels = panels_of(len(laws), min(len(laws), 3))
    for panel, law in zip(panels, laws, strict=False):
        finite = np.isfinite(law.edges[:-1]) & np.isfinite(law.edges[1:])
        left, step = law.edges[:-1][finite], law.edges[2] - law.edges[1]
        panel.bar(left, law.drawn[finite], width=step, align="edge", color=_DRAWN, label="drawn")
        panel.plot(left + step / 2, law.derived[finite], ".-", color=_DERIVED, label="derived", lw=1, ms=4)
        panel.set_title(f"{law.mechanism}  (p = {law.p_value:.2g})", fontsize=10)
        panel.set_xlabel("noise (reported value - rating)")
    panels[0].set_ylabel("probability of the interval")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title)
    return figure


def world_figure(ratings: NDArray[np.float64], histogram: NDArray[np.int64], rows: Sequence[DemoRow]) -> str:
    """Draw what people think and, for each mechanism, what the provider sees; return it as SVG text."""
    figure, panels = panels_of(len(rows) + 1, 3)
    step = float(ratings[1] - ratings[0])
    panels[0].bar(ratings, histogram / histogram.sum(), width=0.9 * step, color=_TRUTH)
    panels[0].set_title("what people think (stays on devices)", fontsize=10)
    for panel, row in zip(panels[1:], rows, strict=True):
        _draw_reports(panel, row, step)
    panels[0].set_ylabel("share of ratings")
    for panel in panels[-3:]:
        panel.set_xlabel("value a report stands for")
    return render(figure, "svg").decode()


def _draw_reports(panel: Any, row: DemoRow, step: float) -> None:  # noqa: ANN401 - matplotlib's types
    shares = row.symbol_counts / row.symbol_counts.sum()
    gaps = np.diff(row.values)
    nearest = np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf))
    thinnest = float(np.ptp(row.values)) / 150
    panel.bar(row.values, shares, width=np.clip(nearest, thinnest, 0.5 * step), color=_DRAWN)
    panel.set_title(row.mechanism, fontsize=10)


def panels_of(count: int, across: int) -> tuple[Any, list[Any]]:
    """Lay out a figure of so many panels, so many of them in a row."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an optional library
    except ImportError as error:
        raise MissingExtraError("pictures need the figures extra; install tacit[figures]") from error
    down = -(-count // across)
    figure = Figure(figsize=(3.6 * across + 0.4, 2.7 * down + 0.4), layout="constrained")
    panels = [figure.add_subplot(down, across, place + 1) for place in range(count)]
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels


def render(figure: Any, kind: str) -> bytes:  # noqa: ANN401 - matplotlib's types
    """Write a figure as SVG, PNG or PDF."""
    from matplotlib import rc_context  # noqa: PLC0415 - an optional library

    buffer = io.BytesIO()
    # The same result gives the same file: no date, and ids from a fixed salt.
    with rc_context({"svg.hashsalt": "tacit", "svg.fonttype": "none"}):
        figure.savefig(buffer, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()
