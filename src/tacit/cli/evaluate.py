"""`tacit evaluate`: how good a mechanism and a model are together, by cross-validation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli.model_options import options_of, settings_of
from tacit.cli.options import ScaleType, json_option, note, print_json, print_table
from tacit.cli.progress import duration, on_terminal, study_progress
from tacit.errors import InvalidInputError, ModelError
from tacit.evaluation.cache import cache_folder
from tacit.evaluation.results import ResultStore
from tacit.evaluation.rows import Row
from tacit.evaluation.rows import evaluate as run_evaluation
from tacit.evaluation.run import MOST_JOBS
from tacit.evaluation.setting import DEVICE, PLACES, PROVIDER, STUDIED_MODELS, Setting, grid, ranks_on_devices
from tacit.evaluation.source import DataSource
from tacit.learning.kernels import default_threads
from tacit.privacy.exact import decimal_text, parse_epsilon
from tacit.tables import is_parquet, write_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.evaluation.ratings import RatingData
    from tacit.learning import Options
    from tacit.privacy.scale import RatingScale

_BYTES_A_RATING = 100
_MUCH_MEMORY = 500e6
_COLUMNS = {
    "RMSE": "rmse",
    "MAE": "mae",
    "nDCG": "ndcg",
    "F": "f_score",
    "F everything": "f_score_everything",
    "F all": "f_score_all",
}


@click.command()
@click.argument("ratings")
@click.option("--scale", type=ScaleType(), help="The ratings people can give; a named data set declares its own.")
@click.option("--epsilon", "epsilons", default="1", show_default=True, help="One or more, with commas.")
@click.option(
    "--mechanism", "mechanisms", default="bounded-laplace", show_default=True, help="One or more, with commas."
)
@click.option("--model", "models", default="mog-mf", show_default=True, help="One or more, with commas.")
@click.option("--at", "places", default=PROVIDER, show_default=True, help="Where predictions are made.")
@click.option("--folds", type=click.IntRange(2, 1000), default=10, show_default=True, help="Of the cross-validation.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Of folds and noise.")
@click.option("--rank", type=int, help="Number of factors of every model that has any.")
@click.option("--option", "lines", multiple=True, metavar="MODEL.NAME=VALUE", help="An option; may repeat.")
@click.option("--round", "rounding", is_flag=True, help="Round ratings between two steps to the nearer one.")
@click.option("--threshold", type=float, help="Rating from which an item is relevant. Default: 0.6 of the width.")
@click.option("--jobs", type=click.IntRange(1, MOST_JOBS), help="How many processes. Default: all cores.")
@click.option("-o", "--output", metavar="FILE", help="Also write the rows: .csv or .parquet.")
@json_option
def evaluate(
    *,
    ratings: str,
    scale: RatingScale | None,
    epsilons: str,
    mechanisms: str,
    models: str,
    places: str,
    folds: int,
    seed: int,
    rank: int | None,
    lines: tuple[str, ...],
    rounding: bool,
    threshold: float | None,
    jobs: int | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Cross-validate mechanisms and models on true ratings.

    RATINGS is a CSV or Parquet file with the columns user, item and rating, or
    the name of a data set (see tacit data list). Only the ratings learned from
    are perturbed; errors are against the true ratings held out. Every fold is
    kept as it is computed (in TACIT_CACHE, default ~/.cache/tacit): a command
    that was interrupted goes on, and the same one again is answered at once.

    Mechanisms are those of tacit policy, laplace (unbounded, simulated) and none
    (the non-private baseline). Models are those of tacit fit, and pg-mf.

    \b
    Example:
      tacit evaluate ratings.csv --scale 1:5:1 --epsilon 0.5,1,2 --mechanism bounded-laplace,none \\
        --model mog-mf,mf-als --option mf-als.regularisation=10
    """
    chosen = _models(names_of(models, "model"), rank, lines)
    where = names_of(places, "place")
    _check_places(where, chosen)
    wanted = epsilons_of(epsilons)
    settings = list(grid(names_of(mechanisms, "mechanism"), wanted, chosen, places=where, seed=seed, folds=folds))
    check_output(output)
    source = DataSource(ratings, scale, rounding)
    data = source.load()
    _check_threshold(threshold, data)
    cores = default_threads()
    announce(data, settings, jobs or cores)
    store = ResultStore(cache_folder() / "folds")
    with study_progress() as watch:
        rows = run_evaluation(source, settings, store, jobs=jobs or cores, threshold=threshold, data=data, watch=watch)
    if output is not None:
        write_rows(rows, output)
    if as_json:
        print_json({"rows": [row.to_document() for row in rows]})
    else:
        _print(data, rows)


def write_rows(rows: Sequence[Row], path: str) -> None:
    """Write rows as a table; options and versions as JSON."""
    documents = [row.to_document() for row in rows]
    columns: dict[str, list[Any]] = {
        name: [json.dumps(one[name]) if isinstance(one[name], dict) else one[name] for one in documents]
        for name in documents[0]
    }
    write_columns(path, columns, {})


def names_of(text: str, what: str) -> list[str]:
    """Read names between commas, each once."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InvalidInputError(f"{text[:40]!r} names no {what} between two commas; write one or more, such as a,b")
    _check_distinct(names, text, what)
    return names


def epsilons_of(text: str) -> list[str]:
    """Read epsilons between commas, in their plain form."""
    epsilons = [decimal_text(parse_epsilon(epsilon)) for epsilon in names_of(text, "epsilon")]
    _check_distinct(epsilons, text, "epsilon")  # 1 and 1.0 are the same
    return epsilons


def _check_distinct(names: list[str], text: str, what: str) -> None:
    if len(set(names)) < len(names):
        raise InvalidInputError(f"{text[:40]!r} names the same {what} twice; name each once")


def _models(names: list[str], rank: int | None, lines: Sequence[str]) -> list[Options]:
    """Build every model's options from `MODEL.NAME=VALUE` and the rank common to all."""
    given: dict[str, dict[str, str]] = {name: {} for name in names}
    for line, value in settings_of(lines).items():
        model, found, name = line.partition(".")
        if not found or model not in given:
            raise ModelError(
                f"option {line[:40]!r} is of no model here; write one of {', '.join(names)}, a dot, a name"
            )
        given[model][name] = value
    chosen = []
    for name, settings in given.items():
        has_rank = hasattr(STUDIED_MODELS.get(name), "rank")
        common = {"rank": str(rank)} if rank is not None and has_rank else {}
        chosen.append(options_of(name, common | settings, STUDIED_MODELS))
    return chosen


def _check_places(places: list[str], models: list[Options]) -> None:
    for place in places:
        if place not in PLACES:
            raise InvalidInputError(f"{place[:40]!r} is no place to predict at; write {' or '.join(PLACES)}")
    without = [options.model for options in models if DEVICE in places and not ranks_on_devices(options)]
    if without and PROVIDER not in places and len(without) == len(models):
        raise ModelError(f"{', '.join(without)} has no item factors for a device to rank with; write --at {PROVIDER}")
    for model in without:
        note(f"{model} is left out on the device: it has no item factors to rank with")


def check_output(output: str | None) -> None:
    """Refuse a place that could not be written to before a long study, not after it."""
    if output is None:
        return
    is_parquet(output)
    if not Path(output).parent.is_dir():
        raise InvalidInputError(f"{Path(output).parent} is not a folder; make it, or name another with -o")


def _check_threshold(threshold: float | None, data: RatingData) -> None:
    low, high = float(data.scale.low), float(data.scale.high)
    if threshold is not None and not low <= threshold <= high:
        raise InvalidInputError(f"threshold {threshold:g} is outside {low:g} to {high:g}; choose one on the scale")


def announce(data: RatingData, settings: Sequence[Setting], jobs: int) -> None:
    """Say what a study needs, if that is much, and how large it is, if somebody is there to read it."""
    needed = jobs * _BYTES_A_RATING * len(data)
    if needed > _MUCH_MEMORY:
        note(f"it takes up to about {needed / 1e9:.1f} GB of memory on {jobs} processes")
    if not on_terminal():
        return
    made_up = "synthetic " if data.synthetic else ""
    size = f"{len(data):,} {made_up}ratings of {data.shape[0]:,} users on {data.shape[1]:,} items"
    note(f"{data.name}: {size}; {len(settings)} settings on {jobs} {'process' if jobs == 1 else 'processes'}")


def _print(data: RatingData, rows: Sequence[Row]) -> None:
    header = ["mechanism", "model", "at", "epsilon", "rank", *_COLUMNS, "fit"]
    print_table(header, [_cells(row) for row in rows])
    folds, relevant = rows[0].setting.folds, rows[0].threshold
    click.echo(
        f"\nMeans over {folds} folds, +- standard deviation; relevant from {relevant:g} on. F is over the top 10 of "
        "the items\nheld out: read it beside 'F everything', which recommends all of them. F all is over all items."
    )
    if data.synthetic:
        click.echo("The ratings are synthetic.")


def _cells(row: Row) -> list[str]:
    setting = row.setting
    where = [
        setting.mechanism,
        setting.model,
        setting.at,
        setting.epsilon or "-",
        "-" if setting.rank is None else str(setting.rank),
    ]
    figures = [f"{row.mean(name):.4f}" for name in _COLUMNS.values()]
    figures[0] += f" +- {row.deviation('rmse'):.4f}"
    return [*where, *figures, duration_of(row)]


def duration_of(row: Row) -> str:
    """Write how long a fit took on average."""
    seconds = row.to_document()["fit_seconds"]
    return f"{seconds:.2f} s" if seconds < 100 else duration(seconds)  # noqa: PLR2004 - as in durations
