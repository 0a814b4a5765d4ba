"""`tacit recommend`: the best items for one user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tacit.cli.options import json_option, note, print_json, print_table
from tacit.learning import Model
from tacit.learning.recommend import LONGEST_LIST

if TYPE_CHECKING:
    from collections.abc import Iterable

length_option = click.option(
    "-n", "length", type=click.IntRange(1, LONGEST_LIST), default=10, show_default=True, help="How many items."
)


@click.command()
@click.argument("model")
@click.option("--user", required=True, metavar="ID", help="For whom.")
@length_option
@click.option("--include-rated", is_flag=True, help="Also items the user has reported on.")
@json_option
def recommend(*, model: str, user: str, length: int, include_rated: bool, as_json: bool) -> None:
    """Recommend items to a user of a model.

    MODEL is a folder that tacit fit wrote. Scores are predicted ratings.
    Somebody the model does not know gets the items rated best by everybody.

    \b
    Example:
      tacit recommend model/ --user 42 -n 10
    """
    found = Model.load(model).recommend(user, length, exclude_rated=not include_rated)
    if found.fallback:
        note(f"user {shown(user)} is not in the model; these are the items rated best by everybody")
    print_items(zip(found.items, found.ratings.tolist(), strict=True), fallback=found.fallback, as_json=as_json)


def print_items(listed: Iterable[tuple[str | int, float]], *, fallback: bool, as_json: bool) -> None:
    """Print a list of items and scores, best first."""
    rows = [{"item": item, "score": score, "rank": rank} for rank, (item, score) in enumerate(listed, 1)]
    if as_json:
        print_json({"items": rows, "fallback": fallback})
    else:
        cells = [[str(row["rank"]), shown(row["item"]), f"{row['score']:.4f}"] for row in rows]
        print_table(["rank", "item", "score"], cells)


def shown(name: object) -> str:
    """Return an id fit for a terminal: what could steer one is escaped."""
    text = str(name)
    return text if text.isprintable() else ascii(text)
