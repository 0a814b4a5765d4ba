"""How far a fit has come, on one line of the terminal."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tacit.learning import Iteration


@contextmanager
def fit_progress(most: int) -> Iterator[Callable[[Iteration], None] | None]:
    """Offer what writes one line over and over, if somebody is there to see it; in the end the line is gone."""
    if not on_terminal():
        yield None
        return

    def show(iteration: Iteration) -> None:
        _overwrite(progress_text(iteration, most))

    try:
        yield show
    finally:
        _overwrite("")


def on_terminal() -> bool:
    """Tell whether somebody sees standard error; it may even be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


def progress_text(iteration: Iteration, most: int) -> str:
    """Say how many iterations there were, how good the last one is, and how long the rest can take."""
    left = max(most - iteration.number, 0) * iteration.seconds
    value = f"objective {iteration.objective:.6g}"
    if iteration.likelihood is not None:
        value = f"log-likelihood {iteration.likelihood:.5f}"
    return f"iteration {iteration.number} of {most}, {value}, at most {left:.0f} s left"


def _overwrite(text: str) -> None:
    width = shutil.get_terminal_size().columns - 1
    click.echo(f"\r{text[:width].ljust(width)}\r", nl=False, err=True)
