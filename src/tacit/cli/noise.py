"""`tacit noise`: the noise law of the paper, derived and drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import numpy as np

from tacit.cli.options import epsilon_option, json_option, note, print_json, print_table, scale_option
from tacit.evaluation.figures import check_picture_name, save_noise_figure
from tacit.learning.prior import load_prior
from tacit.privacy.noise import NoiseLaw, compare_noise
from tacit.privacy.prior import Prior

if TYPE_CHECKING:
    from tacit.privacy.scale import RatingScale


@click.command()
@scale_option
@epsilon_option
@click.option("--mechanism", default="laplace,bounded-laplace", show_default=True, help="One or more, with commas.")
@click.option("--histogram", metavar="FILE", help="CSV of rating,weight. Default: a generic bell at 0.6 of the width.")
@click.option("--samples", type=click.IntRange(100, 10**8), default=100_000, show_default=True, help="Draws.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the simulation.")
@click.option("--plot", metavar="FILE", help="Also draw it: .svg, .png or .pdf.")
@json_option
def noise(
    *,
    scale: RatingScale,
    epsilon: str,
    mechanism: str,
    histogram: str | None,
    samples: int,
    seed: int,
    plot: str | None,
    as_json: bool,
) -> None:
    """Compare the derived noise law of mechanisms with simulated draws.

    Noise is the reported value minus the rating, in intervals one step long.

    \b
    Example:
      tacit noise --scale 1:5:1 --epsilon 1 --mechanism laplace,bounded-laplace --plot noise.svg
    """
    if plot is not None:
        check_picture_name(plot)
    ratings = Prior.generic(scale) if histogram is None else load_prior(histogram, scale)
    rng = np.random.default_rng(seed)
    names = [name.strip() for name in mechanism.split(",")]
    laws = [compare_noise(name, epsilon, ratings, samples=samples, rng=rng) for name in names]
    if as_json:
        print_json({"mechanisms": [_document(law) for law in laws]})
    else:
        for law in laws:
            _print(law)
    if plot is not None:
        save_noise_figure(laws, f"Noise on {scale} at epsilon {epsilon}, {samples:,} draws", plot)
        note(f"wrote {plot}")


def _intervals(law: NoiseLaw) -> list[dict[str, Any]]:
    """Return the intervals that occur; an open end is null."""
    ends = [float(edge) if np.isfinite(edge) else None for edge in law.edges]
    rows = zip(ends[:-1], ends[1:], law.derived.tolist(), law.drawn.tolist(), strict=True)
    return [dict(zip(("from", "to", "derived", "drawn"), row, strict=True)) for row in rows if row[2] or row[3]]


def _document(law: NoiseLaw) -> dict[str, Any]:
    return {"name": law.mechanism, "intervals": _intervals(law), "p_value": law.p_value}


def _print(law: NoiseLaw) -> None:
    click.echo(f"{law.mechanism} (p = {law.p_value:.3g} that draws follow the law)")
    rows = [[_span(row), f"{row['derived']:.5f}", f"{row['drawn']:.5f}"] for row in _intervals(law)]
    print_table(["noise", "derived", "drawn"], rows)


def _span(row: dict[str, Any]) -> str:
    low = "-inf" if row["from"] is None else f"{row['from']:g}"
    high = "inf" if row["to"] is None else f"{row['to']:g}"
    return f"[{low}, {high})"
