"""`tacit similar`: the items most like another."""

from __future__ import annotations

import click

from tacit.cli.options import json_option
from tacit.cli.recommend import length_option, print_items
from tacit.learning import Model


@click.command()
@click.argument("model")
@click.option("--item", required=True, metavar="ID", help="Like what.")
@length_option
@json_option
def similar(*, model: str, item: str, length: int, as_json: bool) -> None:
    """Find the items most like another, by the cosine of their factors.

    MODEL is a folder that tacit fit wrote, of a model that has factors.

    \b
    Example:
      tacit similar model/ --item 42 -n 10
    """
    print_items(Model.load(model).similar(item, length), fallback=False, as_json=as_json)
