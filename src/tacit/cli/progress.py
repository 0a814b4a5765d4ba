"""How far a fit or a study has come, on one line of the terminal."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tacit.evaluation.run import Progress
    from tacit.learning import Iteration


@contextmanager
def study_progress() -> Iterator[Callable[[Progress], None] | None]:
    """Offer what shows how far a study has come, and about how long the rest takes."""
    if not on_terminal():
        yield None
        return

    def show(progress: Progress) -> None:
        left = duration(progress.seconds_left)
        overwrite(f"{progress.done:,} of {progress.total:,} folds, about {left} left")

    try:
        yield show
    finally:
        overwrite("")


@contextmanager
def fit_progress(most: int) -> Iterator[Callable[[Iteration], None] | None]:
    """Offer what writes one line over and over, if somebody is there to see it; in the end the line is gone."""
    if not on_terminal():
        yield None
        return

    def show(iteration: Iteration) -> None:
        overwrite(progress_text(iteration, most))

    try:
        yield show
    finally:
        overwrite("")


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


def duration(seconds: float) -> str:
    """Write a time as people say it.

    >>> duration(42), duration(600), duration(9000)
    ('42 s', '10 min', '2 h 30 min')
    """
    minutes = round(seconds / 60)
    if seconds < 100:  # noqa: PLR2004 - up to here seconds say more
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"  # noqa: PLR2004 - an hour


def overwrite(text: str) -> None:
    """Write over the last line of the terminal."""
    width = shutil.get_terminal_size().columns - 1
    click.echo(f"\r{text[:width].ljust(width)}\r", nl=False, err=True)
