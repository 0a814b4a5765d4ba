"""`tacit demo`: the whole way of a rating, on an embedded synthetic world."""

from __future__ import annotations

import threading
import webbrowser
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli.options import EpsilonType, ScaleType, json_option, note, print_json, print_table
from tacit.errors import FileError, MissingExtraError
from tacit.evaluation.demo import Demo, run_demo
from tacit.evaluation.demo_page import COLUMNS, cells, save_demo_page, summary
from tacit.files import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tacit.privacy.scale import RatingScale


@click.command()
@click.option("--scale", type=ScaleType(), default="1:5:1", show_default=True, help="The ratings people can give.")
@click.option("--epsilon", type=EpsilonType(), default="1", show_default=True, help="Privacy loss of one report.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the synthetic world.")
@click.option(
    "-o", "--output", default="tacit-demo", show_default=True, metavar="FOLDER", help="Where the report goes."
)
@click.option("--web", is_flag=True, help="Serve it: 1,000 simulated devices, a trained model, and a page for you.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Of --web; 0: a free one.")
@click.option("--no-browser", is_flag=True, help="With --web: do not open the page, only say where it is.")
@json_option
def demo(
    *,
    scale: RatingScale,
    epsilon: str,
    seed: int,
    output: str,
    web: bool,
    port: int,
    no_browser: bool,
    as_json: bool,
) -> None:
    """Perturb a synthetic world with every mechanism and see what each gives away.

    With --web a service is filled by a thousand simulated devices and trained,
    and its page opens in your browser: rate, see what is sent, get
    recommendations that were ranked in the page. Ctrl-C ends it.

    \b
    Example:
      tacit demo --epsilon 0.5
      tacit demo --web
    """
    if web and as_json:
        raise click.UsageError("--json has nothing to say with --web; leave one of them out")
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {folder}: {reason_of(error)}; choose another with -o") from error
    if web:
        _serve(scale, epsilon, folder, seed=seed, port=port, opened=_say_where if no_browser else _open_page)
        return
    shown = run_demo(scale, epsilon, seed=seed, progress=note)
    page = folder / "report.html"
    save_demo_page(shown, page)
    if as_json:
        print_json(_document(shown, page))
        return
    first, walk, provider = summary(shown)
    click.echo(f"\n{click.wrap_text(first, 100)}\n\n{click.wrap_text(walk, 100)}\n")
    print_table([name for name, _ in COLUMNS], cells(shown))
    click.echo(f"\n{click.wrap_text(provider, 100)}\n\nThe report, with pictures: {page}")


def _serve(
    scale: RatingScale, epsilon: str, folder: Path, *, seed: int, port: int, opened: Callable[[str], None]
) -> None:
    try:
        from tacit.evaluation.web_demo import run_web_demo  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"tacit demo --web needs {error.name}; install tacit[serve]") from error
    run_web_demo(scale, epsilon, folder, seed=seed, port=port, progress=note, opened=opened)


def _say_where(url: str) -> None:
    note(f"open {url} in a browser; Ctrl-C ends this")


def _open_page(url: str) -> None:
    """Open the page beside the service, which begins to answer a moment later."""
    _say_where(url)
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def _document(shown: Demo, page: Path) -> dict[str, Any]:
    left_out = {"values", "symbol_counts", "busiest"}
    rows = [
        {name: value for name, value in vars(row).items() if name not in left_out}
        | {"busiest": asdict(row.busiest) | {"pure": float(row.busiest.pure)}}
        for row in shown.rows
    ]
    return {
        "scale": str(shown.world.scale),
        "epsilon": float(shown.epsilon),
        "seed": shown.world.seed,
        "true_mean": shown.true_mean,
        "guess_right_without": shown.guess_right_without,
        "mechanisms": rows,
        "report": str(page),
    }
