"""`tacit recommend`: the best items for one user, or for everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import numpy as np

from tacit.cli.engines import LOCAL, SPARK
from tacit.cli.model_options import settings_of
from tacit.cli.options import json_option, note, print_json, print_table
from tacit.errors import InvalidInputError
from tacit.learning import Model
from tacit.learning.predict import on_scale
from tacit.learning.recommend import LONGEST_LIST
from tacit.tables import write_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

length_option = click.option(
    "-n", "length", type=click.IntRange(1, LONGEST_LIST), default=10, show_default=True, help="How many items."
)


@click.command()
@click.argument("model")
@click.option("--user", metavar="ID", help="For whom.")
@click.option("--everybody", is_flag=True, help="For all users, into a folder of Parquet files.")
@length_option
@click.option("--include-rated", is_flag=True, help="Also items the user has reported on.")
@click.option("-o", "--output", metavar="FOLDER", help="Where the lists of everybody go: a new folder.")
@click.option("--engine", type=click.Choice([LOCAL, SPARK]), default=LOCAL, show_default=True, help="For everybody.")
@click.option("--spark", "spark_lines", multiple=True, metavar="NAME=VALUE", help="A setting of Spark's; may repeat.")
@json_option
def recommend(
    *,
    model: str,
    user: str | None,
    everybody: bool,
    length: int,
    include_rated: bool,
    output: str | None,
    engine: str,
    spark_lines: tuple[str, ...],
    as_json: bool,
) -> None:
    """Recommend items to a user of a model, or to all of them.

    MODEL is a folder that tacit fit wrote. Scores are predicted ratings.
    Somebody the model does not know gets the items rated best by everybody.
    Lists of everybody have the columns user, item, score and rank.

    \b
    Example:
      tacit recommend model/ --user 42 -n 10
      tacit recommend model/ --everybody -n 10 -o lists/ --engine spark
    """
    settings = settings_of(spark_lines)
    _check_whom(user, output, everybody=everybody)
    _check_engine(engine, settings, everybody=everybody)
    if user is None:
        _to_everybody(model, length, str(output), engine, settings, include_rated=include_rated, as_json=as_json)
        return
    found = Model.load(model).recommend(user, length, exclude_rated=not include_rated)
    if found.fallback:
        note(f"user {shown(user)} is not in the model; these are the items rated best by everybody")
    print_items(zip(found.items, found.ratings.tolist(), strict=True), fallback=found.fallback, as_json=as_json)


def _check_whom(user: str | None, output: str | None, *, everybody: bool) -> None:
    if everybody == (user is not None):
        raise InvalidInputError("lists are for one user or for everybody; give --user ID, or --everybody")
    if everybody and output is None:
        raise InvalidInputError("lists of everybody go into a new folder; name it with -o")
    if not everybody and output is not None:
        raise InvalidInputError("the list of one user goes to the screen; leave -o out, or add --everybody")


def _check_engine(engine: str, settings: dict[str, str], *, everybody: bool) -> None:
    if engine == SPARK and not everybody:
        raise InvalidInputError("the list of one user is found on this machine; leave --engine out, or add --everybody")
    if settings and engine != SPARK:
        raise InvalidInputError(f"--spark settings are of no use to the engine {engine}; add --engine spark")


def _to_everybody(
    model: str, length: int, output: str, engine: str, settings: dict[str, str], *, include_rated: bool, as_json: bool
) -> None:
    if engine == SPARK:
        from tacit.learning.spark import spark_session  # noqa: PLC0415 - slow, and rarely used
        from tacit.learning.spark.top_n import recommend_to_parquet  # noqa: PLC0415 - as above

        recommend_to_parquet(spark_session(settings), model, length, output, exclude_rated=not include_rated)
    else:
        write_parts(output, _lists(Model.load(model), length, include_rated=include_rated))
    note(f"the lists of everybody are in {output}")
    if as_json:
        print_json({"output": output})


def _lists(model: Model, length: int, *, include_rated: bool) -> Iterator[dict[str, NDArray[np.generic]]]:
    """Find the lists block by block, and name users and items in them."""
    for block in model.recommend_all(length, exclude_rated=not include_rated):
        listed = block.items >= 0
        user, place = np.nonzero(listed)
        yield {
            "user": model.users.ids[block.first + user],
            "item": model.items.ids[block.items[listed]],
            "score": on_scale(block.scores[listed], model.scale),
            "rank": (place + 1).astype(np.int32),
        }


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
