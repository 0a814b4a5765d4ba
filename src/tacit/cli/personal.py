"""`tacit personal`: a person's own ranking, from true ratings that stay where they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tacit.cli.options import json_option, note, print_json
from tacit.cli.recommend import length_option, shown
from tacit.device import rank_items, read_own_ratings
from tacit.privacy.item_model import KIND, ItemModel

if TYPE_CHECKING:
    from tacit.device import PersonalRanking, Reason, Suggestion

_REASONS = 3


@click.command()
@click.argument("model")
@click.argument("ratings")
@length_option
@click.option("--by-rating", is_flag=True, help="Order by predicted rating alone, however unlikely the item.")
@click.option("--round", "rounding", is_flag=True, help="Round ratings between two steps to the nearer one.")
@json_option
def personal(*, model: str, ratings: str, length: int, by_rating: bool, rounding: bool, as_json: bool) -> None:
    """Rank items by your own true ratings, here and nowhere else.

    MODEL is a folder that tacit fit wrote, or the public item model in it, items/.
    RATINGS is CSV or Parquet with the columns item and rating, of one person.
    Nothing is sent anywhere. Beside each item stands the rating you would give
    it, and which of your ratings say so. The score that orders the list weighs
    that by how likely you are to rate the item at all, where the model tells
    who rates what; an item left unrated counts as the lowest rating.

    \b
    Example:
      tacit personal model/ my-ratings.csv -n 10
    """
    items = ItemModel.load(_items_folder(Path(model)))
    ranking = rank_items(items, read_own_ratings(ratings, items.scale, rounding=rounding))
    note(_summary(ranking))
    found = [(best, ranking.explain(best.item, _REASONS)) for best in ranking.recommend(length, by_rating=by_rating)]
    if as_json:
        rows = [vars(best) | {"reasons": [vars(reason) for reason in reasons]} for best, reasons in found]
        print_json({"items": rows, "fallback": ranking.fallback})
    else:
        _print_rows(found)


def _items_folder(folder: Path) -> Path:
    """Return the public part of a whole model, or the folder itself if it is one."""
    inside = folder / "items"
    try:
        return inside if (inside / KIND.document).is_file() else folder
    except (OSError, ValueError):
        return folder  # a name that is none; loading says so


def _summary(ranking: PersonalRanking) -> str:
    known, unknown = len(ranking.person.rated), ranking.unknown
    ignored = f"; {unknown} on items it does not know were ignored" if unknown else ""
    used = f"ranked by {known} of your ratings on items of the model{ignored}. Nothing was sent anywhere."
    if not ranking.fallback:
        return used
    which = "the items rated best by everybody" if ranking.items.pattern is None else "items that many rate, and well"
    return f"{used} With none to go by, these are {which}."


def _print_rows(found: list[tuple[Suggestion, list[Reason]]]) -> None:
    """Print a table; reasons stand at the end of their lines, since they are long."""
    cells = [("rank", "item", "score", "rating", "because of your")]
    for best, reasons in found:
        numbers = f"{best.score:.4f}", f"{best.rating:.4f}"
        cells.append((str(best.rank), shown(best.item), *numbers, _in_words(reasons)))
    ranks, names, scores, ratings = (max(len(line[k]) for line in cells) for k in range(4))
    for rank, name, score, rating, because in cells:
        click.echo(f"{rank:<{ranks}}  {name:<{names}}  {score:>{scores}}  {rating:>{ratings}}  {because}".rstrip())


def _in_words(reasons: list[Reason]) -> str:
    return ", ".join(f"{reason.rating:g} for {shown(reason.item)} ({reason.effect:+.2f})" for reason in reasons)
