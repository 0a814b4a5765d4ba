"""Options that several commands share, and how figures are printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from tacit.errors import EpsilonError, ScaleError
from tacit.privacy.exact import decimal_text, parse_epsilon
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Sequence


class ScaleType(click.ParamType[RatingScale]):
    """LOW:HIGH:STEP."""

    name = "LOW:HIGH:STEP"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> RatingScale:  # noqa: ANN401, ARG002 - click's signature
        """Read a scale."""
        try:
            return value if isinstance(value, RatingScale) else RatingScale.parse(value)
        except ScaleError as error:
            raise click.UsageError(str(error), ctx) from error


class EpsilonType(click.ParamType[str]):
    """A decimal number, kept exact."""

    name = "EPSILON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401, ARG002 - click's signature
        """Read an epsilon and write it in canonical form."""
        try:
            return decimal_text(parse_epsilon(value))
        except EpsilonError as error:
            raise click.UsageError(str(error), ctx) from error


scale_option = click.option(
    "--scale", type=ScaleType(), required=True, help="The ratings people can give, such as 1:5:1."
)
epsilon_option = click.option(
    "--epsilon", type=EpsilonType(), required=True, help="Privacy loss of one report, 0.001 to 20."
)
policy_option = click.option("--policy", "policy_path", required=True, metavar="FILE", help="The policy file to obey.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of prose.")


def print_json(document: object) -> None:
    """Print one JSON document on standard output."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def note(message: str) -> None:
    """Print prose on standard error, where it does not mix with figures."""
    click.echo(message, err=True)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns: the first to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    for row in [header, *rows]:
        first, *others = (
            cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        click.echo("  ".join([first, *others]).rstrip())
