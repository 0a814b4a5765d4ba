"""The picture of docs/scaling.md: seconds an iteration against ratings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from cluster.tables import NAMES

if TYPE_CHECKING:
    from pathlib import Path

PASSAGE = """```{image} pictures/scaling.svg
:alt: Seconds an iteration against ratings, for the local engine, both plans on Spark, and Spark's ALS
```"""
COLOURS = {"local": "#1b6ca8", "broadcast": "#2a9d4e", "joined": "#c77d0a", "als": "#8a8f98"}


def draw(record: dict[str, Any], path: Path) -> None:
    """Draw what was measured as points, and the lines through them, both ways logarithmic."""
    mpl.rcParams["svg.hashsalt"] = "tacit"  # the same file for the same figures
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, title in NAMES.items():
        worlds = [world for world in record["worlds"] if name in world["engines"]]
        ratings = [world["ratings"] / 1e6 for world in worlds]
        seconds = [world["engines"][name]["seconds"] for world in worlds]
        axes.plot(ratings, seconds, "o-", color=COLOURS[name], label=title, markersize=4, linewidth=1.4)
    axes.set(xscale="log", yscale="log", xlabel="million ratings", ylabel="seconds an iteration")
    axes.set_title(f"EM iterations at rank {record['rank']} on {record['threads']} cores", fontsize=10)
    axes.grid(visible=True, which="both", linewidth=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
