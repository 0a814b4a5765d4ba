"""The report: one HTML file that fetches nothing, with the figures as files beside it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import FileError
from tacit.evaluation.figures import render
from tacit.evaluation.paper.drawings import drawings
from tacit.evaluation.paper.experiments import EXPERIMENTS, LABELS, LIBIMSETI_WORLD, MOVIELENS, VARIANTS
from tacit.evaluation.paper.methods import BASELINE, BLP_MOG, CONSTANT, ISGD, PGMF_CONTROLS, TACIT
from tacit.evaluation.paper.past import SHOWN, idea_rows, list_rows
from tacit.evaluation.paper.texts import CAPTIONS, INTRODUCTION, METHOD, STYLE
from tacit.evaluation.paper.verdicts import judge
from tacit.evaluation.setting import DEVICE
from tacit.files import reason_of, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tacit.evaluation.paper.compute import Reproduction
    from tacit.evaluation.paper.records import FoldTable
    from tacit.evaluation.paper.verdict import Verdict

_MOVIELENS, _WORLD = MOVIELENS.place, LIBIMSETI_WORLD.place


def save_report(made: Reproduction, folder: Path) -> list[Verdict]:
    """Write report.html, verdicts.md and the figures; return the verdicts."""
    verdicts = judge(made.folds, made.noise, made.traffic)
    pictures = {}
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make {folder / 'figures'}: {reason_of(error)}; choose another with -o") from error
    for name, figure in drawings(made).items():
        pictures[name] = render(figure, "svg")
        write_bytes(folder / "figures" / f"{name}.svg", pictures[name])
        write_bytes(folder / "figures" / f"{name}.png", render(figure, "png"))
    write_bytes(folder / "verdicts.md", verdicts_text(verdicts).encode())
    write_bytes(folder / "report.html", _page(made, verdicts, pictures).encode())
    return verdicts


def verdicts_text(verdicts: Sequence[Verdict]) -> str:
    """Write the verdicts as a Markdown table."""
    rows = [
        f"| {one.claim} | **{one.verdict}** {one.condition} | {one.measured} | {one.why} | {one.with_tacit} |"
        for one in verdicts
    ]
    return "\n".join(["| claim | verdict | measured | why | with tacit |", "|---|---|---|---|---|", *rows]) + "\n"


def _page(made: Reproduction, verdicts: Sequence[Verdict], pictures: dict[str, bytes]) -> str:
    about = made.about
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    first = INTRODUCTION if about["plan"] == "full" else INTRODUCTION + " <b>" + FAST_WARNING + "</b>"
    sections = [_figure_section(name, pictures[name]) for name in EXPERIMENTS if name in pictures]
    sections += [section for section in (_past(made), _readings(made), _traffic(made), _data(made)) if section]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>tacit: the paper, reproduced</title><style>{STYLE}</style></head><body>
<h1>The paper, reproduced</h1>
<p>{first}</p>
<h2 id="verdicts">Verdicts</h2>{_verdict_table(verdicts)}
{"".join(sections)}
<h2 id="method">How it was measured</h2>{METHOD}
{"".join(f'<p class="small">{escape(line)}</p>' for line in about["left_out"])}
<p class="small">Computed with {escape(versions)}; plan: {escape(about["plan"])}.</p>
</body></html>
"""


FAST_WARNING = (
    "This is the fast look: few folds, epsilons and settings (on Jester none tuned, and no devices), so that many "
    "differences are within chance. "
    "Run tacit reproduce without --fast for the verdicts."
)


def _verdict_table(verdicts: Sequence[Verdict]) -> str:
    rows = "".join(_verdict_row(one) for one in verdicts)
    head = "<tr><th>claim of the paper</th><th>verdict</th><th>measured</th><th>why</th><th>with tacit</th></tr>"
    return f'<div class="wide"><table class="words"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _verdict_row(one: Verdict) -> str:
    kind = one.verdict.replace(" ", "-")
    readings = "".join(f"<li>{escape(pair)}: {escape(told)}.</li>" for pair, told in one.readings)
    more = f"<details><summary>every reading</summary><ul>{readings}</ul></details>" if readings else ""
    verdict = f'<b class="{kind}">{escape(one.verdict)}</b> {escape(one.condition)}'
    cells = (f"{escape(one.claim)}", verdict, f"{escape(one.measured)}{more}", escape(one.why), escape(one.with_tacit))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _figure_section(name: str, svg: bytes) -> str:
    text = svg.decode()
    picture = text[text.index("<svg") :]
    title, caption = escape(EXPERIMENTS[name].title), CAPTIONS[name]
    return f'<h2 id="{name}">{title}</h2><figure>{picture}<figcaption>{caption}</figcaption></figure>'


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table></div>'


def _spread(found: dict[Any, dict[str, Any]]) -> str:
    if not found:
        return "-"
    values = [row["rmse"] for row in found.values()]
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def _past(made: Reproduction) -> str:
    ideas, lists = list(idea_rows(made.folds)), list(list_rows(made.folds))
    if not ideas:
        return ""
    section = f'<h2 id="past">Past the paper</h2><p>{CAPTIONS["ideas"]}</p>{_table(["RMSE at epsilon", *SHOWN], ideas)}'
    if lists:
        head = ["ours / best other, at epsilon", *SHOWN, "better than every other at", "reports not read"]
        section += f"<p>{CAPTIONS['lists']}</p>{_table(head, lists)}"
    return section


def _readings(made: Reproduction) -> str:
    table = made.folds
    sections = [_variant_table(table), _control_table(table), _world_table(table)]
    if not any(sections):
        return ""
    return '<h2 id="readings">What the paper leaves open</h2>' + "".join(sections)


def _variant_table(table: FoldTable) -> str:
    scale = (table.scales(_MOVIELENS) or [""])[0]
    epsilons = ["0.1", "1", "3"]
    rows = []
    for name, (mechanism, options, source) in VARIANTS.items():
        on = str(source.scale) if source.scale else scale
        asked: list[str | None] = [None] * 3 if mechanism == "none" else [*epsilons]
        found = [_spread(table.of(_MOVIELENS, on, mechanism, epsilon, options)) for epsilon in asked]
        if any(cell != "-" for cell in found):
            rows.append([name, *found])
    if not rows:
        return ""
    head = ["MovieLens 100K, RMSE at epsilon", *epsilons]
    return f"<p>{CAPTIONS['readings']}</p>" + _table(head, rows)


def _control_table(table: FoldTable) -> str:
    epsilons = table.epsilons(_MOVIELENS, "pg-mf")
    if not epsilons:
        return ""
    scale = table.scales(_MOVIELENS)[0]
    rows = [
        [name, *(_spread(table.of(_MOVIELENS, scale, "pg-mf", epsilon, options, at=DEVICE)) for epsilon in epsilons)]
        for name, options in PGMF_CONTROLS.items()
    ]
    return f"<p>{CAPTIONS['controls']}</p>" + _table(["PG-MF, RMSE at epsilon", *epsilons], rows)


def _world_table(table: FoldTable) -> str:
    epsilons = table.epsilons(_WORLD, BLP_MOG.mechanism)
    if not epsilons:
        return ""
    scale = table.scales(_WORLD)[0]
    rows = []
    for method in (BLP_MOG, ISGD, TACIT, BASELINE, CONSTANT):
        options = method.ranked[0]
        asked: list[str | None] = [None] * len(epsilons) if method.mechanism == "none" else [*epsilons]
        rows.append(
            [
                method.label,
                *(_spread(table.of(_WORLD, scale, method.mechanism, one, options, at=method.at)) for one in asked),
            ]
        )
    return f"<p>{CAPTIONS['world']}</p>" + _table([f"{LABELS[_WORLD]}, RMSE at epsilon", *epsilons], rows)


def _traffic(made: Reproduction) -> str:
    if not made.traffic:
        return ""
    head = (
        "method",
        "bits a rating",
        "one report, JSON",
        "one report, compact",
        "a rating in a batch",
        "up, a user",
        "down, a user",
        "iterations",
        "up, an iteration",
        "down, an iteration",
        "paper: up",
        "paper: down",
    )
    # What PG-MF says is about a whole profile, not a rating; its table has zeros there.
    alone = {"bits_per_rating", "bytes_one_report_json"}
    rows = [
        [_shown("-" if name in alone and not value else value) for name, value in row.items()] for row in made.traffic
    ]
    title = f'<h2 id="communication">{EXPERIMENTS["communication"].title}</h2>'
    return f"{title}<p>{CAPTIONS['communication']}</p>{_table(head, rows)}"


def _data(made: Reproduction) -> str:
    if not made.data:
        return ""
    head = (
        "data set",
        "ratings",
        "users",
        "items",
        "scale",
        "density",
        "mean",
        "sd",
        "paper: ratings, users, items, scale",
    )
    rows = []
    for row in made.data:
        figures = [_shown(row[name]) for name in ("ratings", "users", "items", "scale", "density", "mean", "sd")]
        paper = ", ".join(str(row[f"paper_{name}"]) for name in ("ratings", "users", "items", "scale"))
        rows.append([LABELS[row["data"]], *figures, paper])
    title = f'<h2 id="datasets">{EXPERIMENTS["datasets"].title}</h2>'
    return f"{title}<p>{CAPTIONS['datasets']}</p>{_table(head, rows)}"


def _shown(value: Any) -> str:  # noqa: ANN401 - text or number
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
