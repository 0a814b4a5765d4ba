"""`tacit data`: which data sets are known by name, where they are, and what is in them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tacit.cli.options import json_option, note, print_json, print_table
from tacit.cli.progress import duration, on_terminal, overwrite
from tacit.errors import DataSetError
from tacit.evaluation.datasets import (
    DATA_SETS,
    DataSet,
    Summary,
    check_counts,
    data_set_named,
    download_folder,
    find_data_set,
    load_data_set,
    remedy,
    summarise,
)
from tacit.evaluation.download import Transfer, fetch
from tacit.privacy.exact import decimal_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tacit.privacy.scale import RatingScale

_MANY = 5_000_000
_BYTES_A_RATING = 100  # measured at the highest point of loading

_MOST_BARS = 20
_BAR_WIDTH = 40


@click.group()
def data() -> None:
    """List, fetch and show data sets known by name.

    They are looked for in the folder that TACIT_DATA names, then among the downloads.

    \b
    Example:
      tacit data get ml-100k
    """


@data.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List the data sets, and which of them are here.

    \b
    Example:
      tacit data list
    """
    found = {name: find_data_set(data_set) for name, data_set in DATA_SETS.items()}
    if as_json:
        print_json({"data_sets": [_about(DATA_SETS[name], files) for name, files in found.items()]})
        return
    header = ["name", "ratings", "users x items", "scale", "state", "licence"]
    print_table(header, [_row(DATA_SETS[name], files) for name, files in found.items()])
    for name, files in found.items():
        if files:
            click.echo(f"{name}: {_joined(files)}")


@data.command()
@click.argument("name")
@json_option
def get(*, name: str, as_json: bool) -> None:
    """Fetch a data set from its publisher, unless it is here.

    It says first what it fetches, checks the checksum, and goes on where an interrupted download ended.

    \b
    Example:
      tacit data get ml-100k
    """
    data_set = data_set_named(name)
    here = data_set.synthetic or bool(find_data_set(data_set))
    if not here:
        for part in [DATA_SETS[part] for part in data_set.parts] or [data_set]:
            if not find_data_set(part):
                _fetch(part)
    elif not data_set.synthetic:
        note(f"{name} is here already: {_joined(find_data_set(data_set))}")
    _show(data_set, as_json=as_json, check=not here)


@data.command()
@click.argument("name")
@json_option
def show(*, name: str, as_json: bool) -> None:
    """Show a data set in figures.

    \b
    Example:
      tacit data show ml-100k
    """
    _show(data_set_named(name), as_json=as_json)


def _fetch(data_set: DataSet) -> None:
    archive = data_set.archive
    if archive is None:
        raise DataSetError(f"{data_set.name} cannot be fetched; {remedy(data_set)}")
    target = download_folder() / f"{data_set.name}.zip"
    size = "of unknown size" if archive.size is None else f"{archive.size / 1e6:,.1f} MB"
    note(f"fetching {data_set.title}, {size}, from {archive.url} to {target}")
    note(f"licence: {data_set.licence} ({data_set.page})")
    note(f"cite: {data_set.citation}")
    with _progress() as progress:
        fetch(archive.url, target, checksum=archive.checksum, progress=progress)


@contextmanager
def _progress() -> Iterator[Callable[[Transfer], None] | None]:
    """Offer what shows how far a download has come, if somebody is there to see it."""
    if not on_terminal():
        yield None
        return
    try:
        yield lambda transfer: overwrite(progress_text(transfer))
    finally:
        overwrite("")


def progress_text(transfer: Transfer) -> str:
    """Say how much has come, which share of all that is, and how long the rest takes.

    >>> progress_text(Transfer(1_500_000, 6_000_000, 30))
    '1.5 MB of 6.0 MB, 25 %, about 30 s left'
    """
    done = f"{transfer.done / 1e6:,.1f} MB"
    if not transfer.total or transfer.seconds_left is None:
        return done
    share = f"{transfer.done / transfer.total:.0%}".replace("%", " %")
    return f"{done} of {transfer.total / 1e6:,.1f} MB, {share}, about {duration(transfer.seconds_left)} left"


def _show(data_set: DataSet, *, as_json: bool, check: bool = False) -> None:
    files, expected = find_data_set(data_set), data_set.counts.ratings or 0
    if expected > _MANY and (files or data_set.synthetic):
        note(f"loading {expected:,} ratings takes about {_BYTES_A_RATING * expected / 1e9:.1f} GB of memory")
    loaded = load_data_set(data_set.name)
    if check:
        check_counts(data_set, loaded)
    figures = summarise(loaded)
    if as_json:
        print_json(_about(data_set, files) | _figures(figures))
    else:
        _print(data_set, figures, files)


def _about(data_set: DataSet, files: tuple[Path, ...]) -> dict[str, Any]:
    return {
        "name": data_set.name,
        "title": data_set.title,
        "synthetic": data_set.synthetic,
        "ratings": data_set.counts.ratings,
        "users": data_set.counts.users,
        "items": data_set.counts.items,
        "scale": str(data_set.scale),
        "rounding": data_set.rounding,
        "present": data_set.synthetic or bool(files),
        "where": [str(path) for path in files],
        "licence": data_set.licence,
        "citation": data_set.citation,
        "page": data_set.page or None,
        "url": data_set.archive.url if data_set.archive else None,
    }


def _figures(figures: Summary) -> dict[str, Any]:
    bars = zip(figures.scale.ratings.tolist(), figures.histogram, strict=True)
    return {
        "ratings": figures.ratings,
        "users": figures.users,
        "items": figures.items,
        "density": figures.density,
        "mean": figures.mean,
        "sd": figures.sd,
        "histogram": [{"rating": rating, "count": count} for rating, count in bars],
        "sha256": figures.sha256,
    }


def _row(data_set: DataSet, files: tuple[Path, ...]) -> list[str]:
    known = data_set.counts
    ratings, users, items = ("?" if n is None else f"{n:,}" for n in (known.ratings, known.users, known.items))
    fetched = bool(data_set.archive or data_set.parts)
    state = "synthetic" if data_set.synthetic else "here" if files else "to fetch" if fetched else "not here"
    return [data_set.name, ratings, f"{users} x {items}", str(data_set.scale), state, data_set.licence]


def _print(data_set: DataSet, figures: Summary, files: tuple[Path, ...]) -> None:
    click.echo(f"{data_set.title}{' (synthetic: nobody gave these ratings)' if figures.synthetic else ''}")
    shape = f"{figures.users:,} users x {figures.items:,} items"
    click.echo(f"{figures.ratings:,} ratings, {shape}, density {figures.density * 100:.2g} %")
    rounded = ", rounded to its steps for perturbing" if data_set.rounding else ""
    click.echo(f"scale {figures.scale}{rounded}; mean {figures.mean:.3f}, standard deviation {figures.sd:.3f}")
    for line in bars(figures.scale, figures.histogram):
        click.echo(line)
    click.echo(f"licence: {data_set.licence}")
    click.echo(f"cite: {data_set.citation}")
    if files:
        click.echo(f"from: {_joined(files)}")


def bars(scale: RatingScale, histogram: tuple[int, ...]) -> list[str]:
    """Draw a histogram as text; on a fine scale several ranks share a bar.

    >>> from tacit.privacy.scale import RatingScale
    >>> bars(RatingScale.parse("1:3:1"), (1, 4, 2))[1]
    '2  ########################################  57.1 %'
    """
    together = -(-len(histogram) // _MOST_BARS)
    starts = range(0, len(histogram), together)
    labels = [_label(scale, start, min(start + together, len(histogram)) - 1) for start in starts]
    counts = [sum(histogram[start : start + together]) for start in starts]
    width = max(len(label) for label in labels)
    drawn = [("#" * round(_BAR_WIDTH * count / max(counts))).ljust(_BAR_WIDTH) for count in counts]
    shares = [f"{count / sum(counts) * 100:.1f} %" for count in counts]
    return [f"{label.rjust(width)}  {bar}  {share}" for label, bar, share in zip(labels, drawn, shares, strict=True)]


def _label(scale: RatingScale, first: int, last: int) -> str:
    low, high = (decimal_text(scale.low + rank * scale.step) for rank in (first, last))
    return low if first == last else f"{low} to {high}"


def _joined(files: tuple[Path, ...]) -> str:
    return ", ".join(str(path) for path in files)
