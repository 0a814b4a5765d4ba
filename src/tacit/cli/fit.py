"""`tacit fit`: reports in, a model out."""

from __future__ import annotations

import math
import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from tacit.cli.engines import ENGINES, LOCAL, opened_engine
from tacit.cli.model_options import options_of, settings_of
from tacit.cli.options import json_option, note, print_json
from tacit.cli.progress import fit_progress, on_terminal
from tacit.cli.sources import Sources
from tacit.errors import ModelError
from tacit.files import read_bytes, write_bytes
from tacit.learning import Model, Options, fit_with, memory_needed
from tacit.learning.local_engine import LocalEngine
from tacit.learning.model_files import check_place
from tacit.privacy.policy import Policy

if TYPE_CHECKING:
    from tacit.learning.engine import Engine, ReportSummary

_MUCH_MEMORY = 500e6


@click.command()
@click.argument("reports", nargs=-1, required=True, metavar="REPORTS...")
@click.option("--policy", "policies", multiple=True, metavar="FILE", help="Of the reports, in files; may repeat.")
@click.option("--model", "name", default="mog-mf", show_default=True, metavar="NAME", help="Which model to fit.")
@click.option("-o", "--output", required=True, metavar="FOLDER", help="Where the model goes.")
@click.option("--rank", type=int, help="Number of factors, short for --option rank=RANK.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Of random starts. Default: drawn, and written down.")
@click.option("--option", "lines", multiple=True, metavar="NAME=VALUE", help="An option of the model; may repeat.")
@click.option("--engine", default=LOCAL, show_default=True, help=f"Where to compute: {', '.join(ENGINES)}.")
@click.option("--spark", "spark_lines", multiple=True, metavar="NAME=VALUE", help="A setting of Spark's; may repeat.")
@click.option("--threads", type=click.IntRange(1, 1024), help="How many to use. Default: all cores.")
@click.option("--checkpoint", metavar="FOLDER", help="Keep the fit here while it runs, and go on from it.")
@click.option(
    "--least-reports",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Make public only items with so many reports; 20 or more hide who rated them better.",
)
@json_option
def fit(
    *,
    reports: tuple[str, ...],
    policies: tuple[str, ...],
    name: str,
    output: str,
    rank: int | None,
    seed: int | None,
    lines: tuple[str, ...],
    engine: str,
    spark_lines: tuple[str, ...],
    threads: int | None,
    checkpoint: str | None,
    least_reports: int,
    as_json: bool,
) -> None:
    """Fit a model to reports.

    REPORTS are CSV or Parquet files, folders of such files, or the address of
    a store (postgresql://... or sqlite:///...), whose policies are known.

    The same reports, options and seed give the same model, whatever the number
    of threads, and the same up to rounding on every engine. Ctrl-C ends the fit
    early: the model is then saved as it was after the last whole iteration, with
    status 0; a second one gives up.

    Models are channel-mf (ours: it knows the policies' channels), mog-mf (the
    paper's), mf-als, mf-sgd, svd, offsets and
    global-mean; a wrong --option lists a model's options and their defaults.

    \b
    Example:
      tacit fit reports.parquet --policy policy.json --model mog-mf --rank 10 --seed 1 -o model/
      tacit fit reports/ --policy policy.json --model channel-mf --engine spark -o model/
    """
    options = options_of(name, settings_of([*lines, *([] if rank is None else [f"rank={rank}"])]))
    _check_places(output, checkpoint)
    sources = Sources(reports, tuple(Policy.load(path) for path in policies))
    with opened_engine(engine, sources, options, threads, settings_of(list(spark_lines))) as computer:
        _check_least_reports(least_reports, computer.summary)
        chosen = _drawn_seed(checkpoint) if seed is None else seed
        _announce(computer, options, chosen)
        began = time.perf_counter()
        with fit_progress(int(getattr(options, "iterations", getattr(options, "epochs", 1)))) as watch:
            rng = np.random.default_rng(chosen)
            model = fit_with(computer, options, rng, seed=chosen, watch=watch, checkpoint=checkpoint)
        seconds = time.perf_counter() - began
    model.save(output, least_reports=least_reports)
    _report(model, output, seconds)
    if as_json:
        print_json(_document(model, output, seconds) | {"engine": computer.name})


def _check_least_reports(least: int, summary: ReportSummary) -> None:
    most = int(summary.item_counts.max())
    if least > most:
        raise ModelError(f"--least-reports {least} would publish nothing: the busiest item has {most}; ask for fewer")


def _check_places(output: str, checkpoint: str | None) -> None:
    """Refuse places that could not be written to before a long fit, not after it."""
    check_place(output)
    if checkpoint == "":
        raise ModelError("the checkpoint's name is empty; name a folder")
    if checkpoint is not None and Path(os.path.realpath(checkpoint)).is_relative_to(os.path.realpath(output)):
        raise ModelError(f"checkpoint {checkpoint} lies in {output}, which the model will replace; keep it elsewhere")


def _drawn_seed(checkpoint: str | None) -> int:
    """Draw a seed; the one of a fit that is kept is kept with it, so that the same command can go on."""
    drawn = secrets.randbits(32)
    if checkpoint is None:
        return drawn
    path = Path(checkpoint) / "seed.txt"
    if path.exists():
        text = read_bytes(path, limit=20).decode(errors="replace").strip()
        if not text.isdecimal():
            raise ModelError(f"{path} does not hold a seed; remove the folder, or give --seed")
        return int(text)
    Path(checkpoint).mkdir(parents=True, exist_ok=True)
    write_bytes(path, f"{drawn}\n".encode())
    return drawn


def _announce(engine: Engine, options: Options, seed: int) -> None:
    users, items = engine.summary.shape
    rank = f" of rank {options.rank}" if hasattr(options, "rank") else ""
    size = f"{engine.summary.reports:,} reports of {users:,} users on {items:,} items"
    if on_terminal():
        note(f"fitting {options.model}{rank} to {size}; seed {seed}")
    plan = engine.prepare(options)
    if not isinstance(engine, LocalEngine) or memory_needed(engine.summary, options) > _MUCH_MEMORY:
        note(plan)


def _report(model: Model, output: str, seconds: float) -> None:
    for line in model.trace.notes:
        note(line)
    count = len(model.trace.iterations)
    done = f"{count} {'iteration' if count == 1 else 'iterations'} in {seconds:.1f} s"
    if model.trace.stopped == "interrupted":
        note(f"interrupted after {done}; the model as it was then is in {output}")
    else:
        note(f"ended after {done} ({model.trace.stopped}), seed {model.provenance.seed}; the model is in {output}")
    if model.options.get("regularisation") == 0 and model.rank:
        note(
            "without regularisation, as in the paper, items with few reports get extreme scores; "
            "to recommend, add --option regularisation=5 or so"
        )


def _document(model: Model, output: str, seconds: float) -> dict[str, Any]:
    last = model.trace.iterations[-1]
    return {
        "model": model.name,
        "iterations": len(model.trace.iterations),
        "seconds": seconds,
        "objective": _finite(last.objective),
        "seed": model.provenance.seed,
        "likelihood": _finite(last.likelihood),
        "stopped": model.trace.stopped,
        "notes": list(model.trace.notes),
        "users": len(model.users),
        "items": len(model.items),
        "reports": model.reports,
        "options": model.options,
        "output": output,
    }


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None
