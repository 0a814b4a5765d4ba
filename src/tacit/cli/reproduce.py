"""`tacit reproduce`: every figure and table of the paper, and a verdict on each of its claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli.options import json_option, note, print_json
from tacit.cli.progress import study_progress
from tacit.evaluation.cache import cache_folder
from tacit.evaluation.paper.compute import Reproduction, check_folder, compute
from tacit.evaluation.paper.experiments import EXPERIMENTS, FAST, FULL, experiment_named
from tacit.evaluation.paper.report import save_report
from tacit.evaluation.results import ResultStore
from tacit.evaluation.run import MOST_JOBS
from tacit.learning.kernels import default_threads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.evaluation.paper.verdict import Verdict


@click.command()
@click.option("--figure", "figures", multiple=True, metavar="NAME", help="One figure or table only; may repeat.")
@click.option("--fast", is_flag=True, help="A first look in a few minutes: fewer folds, epsilons and settings.")
@click.option("--draw", is_flag=True, help="Compute nothing: draw again from the results in the folder.")
@click.option("--jobs", type=click.IntRange(1, MOST_JOBS), help="How many processes. Default: all cores.")
@click.option(
    "-o", "--output", default="tacit-paper", show_default=True, metavar="FOLDER", help="Where the report goes."
)
@json_option
def reproduce(
    *, figures: tuple[str, ...], fast: bool, draw: bool, jobs: int | None, output: str, as_json: bool
) -> None:
    """Reproduce the paper: figures, tables, and a verdict on every claim.

    Needs the data sets ml-100k, jester-1 and libimseti-top2000 in the folder
    that TACIT_DATA names (see tacit data). Every fold is kept as it is computed,
    so a run that was interrupted goes on where it was.

    Figures and tables are noise, mechanisms, models, pg-mf, isgd, readings,
    communication and datasets.

    \b
    Example:
      TACIT_DATA=data tacit reproduce --fast -o paper/
    """
    names = [experiment_named(name).name for name in dict.fromkeys(figures)] or list(EXPERIMENTS)
    folder = Path(output)
    if not draw:
        check_folder(folder, names)
        store = ResultStore(cache_folder() / "folds")
        plan = FAST if fast else FULL
        with study_progress() as watch:
            compute(plan, names, store, jobs=jobs or default_threads(), say=note, watch=watch).save(folder)
    made = Reproduction.load(folder)  # what is drawn is what is stored
    verdicts = save_report(made, folder)
    if as_json:
        print_json(
            {"report": str(folder / "report.html"), **made.about, "verdicts": [_document(one) for one in verdicts]}
        )
    else:
        _print(verdicts, folder)


def _document(verdict: Verdict) -> dict[str, Any]:
    return {
        "claim": verdict.claim,
        "figure": verdict.figure,
        "verdict": verdict.verdict,
        "condition": verdict.condition,
        "measured": verdict.measured,
        "why": verdict.why,
        "readings": dict(verdict.readings),
        "with_tacit": verdict.with_tacit,
    }


def _print(verdicts: Sequence[Verdict], folder: Path) -> None:
    for one in verdicts:
        click.echo(click.wrap_text(f"{one.claim}: {one.words}.", 100, "- ", "  "))
    click.echo(f"\nThe report, with figures and every reading: {folder / 'report.html'}")
