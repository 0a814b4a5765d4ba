"""`tacit tradeoff`: accuracy against epsilon, for every mechanism, at both places."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from tacit.cli.evaluate import announce, check_output, epsilons_of, names_of, write_rows
from tacit.cli.options import ScaleType, json_option, note, print_json, print_table
from tacit.cli.progress import on_terminal, study_progress
from tacit.evaluation.cache import cache_folder
from tacit.evaluation.results import ResultStore
from tacit.evaluation.rows import evaluate as run_evaluation
from tacit.evaluation.run import MOST_JOBS
from tacit.evaluation.setting import PLACES
from tacit.evaluation.source import DataSource
from tacit.evaluation.tradeoff import EPSILONS, FEW_FOLDS, Tradeoff, TradeoffPlan
from tacit.evaluation.tradeoff_advice import advice
from tacit.evaluation.tradeoff_figures import PLACE_TITLES
from tacit.evaluation.tradeoff_page import check_plot, is_page, page_parts, save_plot
from tacit.evaluation.tradeoff_tables import control_rows, epsilon_head, largest_deviation, place_rows
from tacit.learning import ChannelMfOptions
from tacit.learning.kernels import default_threads
from tacit.privacy.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from tacit.evaluation.ratings import RatingData
    from tacit.evaluation.tradeoff_page import PageParts
    from tacit.privacy.scale import RatingScale

_RANK = ChannelMfOptions().rank


@click.command()
@click.argument("ratings")
@click.option("--scale", type=ScaleType(), help="The ratings people can give; a named data set declares its own.")
@click.option("--epsilon", "epsilons", default=",".join(EPSILONS), show_default=True, help="One or more, with commas.")
@click.option("--mechanism", "mechanisms", default=",".join(MECHANISMS), help="One or more, with commas. Default: all.")
@click.option(
    "--folds",
    type=click.IntRange(2, 1000),
    default=FEW_FOLDS,
    show_default=True,
    help="Of the cross-validation; 10 for figures to rely on.",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Of folds and noise.")
@click.option("--rank", type=int, default=_RANK, show_default=True, help="Number of factors, at most.")
@click.option("--round", "rounding", is_flag=True, help="Round ratings between two steps to the nearer one.")
@click.option("--jobs", type=click.IntRange(1, MOST_JOBS), help="How many processes. Default: all cores.")
@click.option("--plot", metavar="FILE", help="Also draw it: .png, .svg or .pdf, or .html for a page that says more.")
@click.option("-o", "--output", metavar="FILE", help="Also write the rows: .csv or .parquet.")
@json_option
def tradeoff(
    *,
    ratings: str,
    scale: RatingScale | None,
    epsilons: str,
    mechanisms: str,
    folds: int,
    seed: int,
    rank: int,
    rounding: bool,
    jobs: int | None,
    plot: str | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Show accuracy against epsilon, to choose a policy by.

    Every mechanism is evaluated at every epsilon with the model channel-mf: at
    the provider, which has reports alone, and on the device, which also has its
    own true ratings. Beside them are controls: a constant, no report at all,
    the rated-or-not pattern left out, and the same model without privacy.

    The default is quick: 3 folds learn from two thirds of the ratings each. For
    exact figures say --folds 10, which takes about five times as long. Every
    fold is kept as it is computed (in TACIT_CACHE, default ~/.cache/tacit): a
    command that was interrupted goes on, the same again is answered at once.

    \b
    Example:
      tacit tradeoff ratings.csv --scale 1:5:1 --plot tradeoff.html
      tacit tradeoff ml-100k --mechanism bounded-laplace,tailored --epsilon 0.5,1,2 --folds 10
    """
    model = ChannelMfOptions(rank=rank)
    plan = TradeoffPlan(
        tuple(names_of(mechanisms, "mechanism")), tuple(epsilons_of(epsilons)), model, seed=seed, folds=folds
    )
    check_output(output)
    if plot is not None:
        check_plot(plot)
    source = DataSource(ratings, scale, rounding)
    data = source.load()
    parts = _parts(plan, data) if plot is not None and is_page(plot) else None
    made = _run(plan, source, data, jobs or default_threads())
    if output is not None:
        write_rows(made.rows, output)
    if plot is not None:
        save_plot(made, plot, parts)
        note(f"wrote {plot}")
    if as_json:
        print_json({"rows": [row.to_document() for row in made.rows], "advice": advice(made)})
    else:
        _print(data, made)


def _parts(plan: TradeoffPlan, data: RatingData) -> PageParts:
    if on_terminal():
        note("comparing mechanisms by what a person gives away in all")
    return page_parts(data, plan)


def _run(plan: TradeoffPlan, source: DataSource, data: RatingData, jobs: int) -> Tradeoff:
    settings = plan.settings()
    announce(data, settings, jobs)
    with study_progress() as watch:
        store = ResultStore(cache_folder() / "folds")
        return Tradeoff(plan, tuple(run_evaluation(source, settings, store, jobs=jobs, data=data, watch=watch)))


def _print(data: RatingData, made: Tradeoff) -> None:
    for place in PLACES:
        click.echo(f"RMSE {PLACE_TITLES[place]}:")
        print_table(["epsilon", *epsilon_head(made)], place_rows(made, place))
        click.echo("")
    print_table(["control", "place", "RMSE"], control_rows(made))
    spread = f"standard deviations are {largest_deviation(made):.4f} at most"
    click.echo(f"\nMeans over {made.plan.folds} folds; {spread}.")
    for sentence in advice(made):
        click.echo(textwrap.fill(sentence, 100, break_on_hyphens=False))
    if data.synthetic:
        click.echo("The ratings are synthetic.")
