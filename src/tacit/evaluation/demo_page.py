"""The demonstration's report: one HTML file that fetches nothing."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from tacit.evaluation.figures import world_figure
from tacit.files import write_bytes
from tacit.privacy.exact import decimal_text

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.evaluation.demo import Demo

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem; color: #1c1b1f; }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left; white-space: nowrap }
svg { max-width: 100%; height: auto; background: #fff }
.said { background: #f3f0e8; padding: .8rem 1rem; border-radius: .4rem }
""".strip()

COLUMNS = (
    ("mechanism", "mechanism"),
    ("exact epsilon", "proven from the integers of the table"),
    ("audited", "lower bound from a million draws, 99 % sure"),
    ("bits", "per report"),
    ("bytes/person", "all reports of a person, in the compact form"),
    ("guess right", "how often the best guess of one rating from one report is right"),
    ("noise sd", "standard deviation of one calibrated report"),
    ("mean learned", "mean rating learned from all reports together"),
    ("paper", "RMSE of the paper's model (mog-mf, rank 1), learned from the reports, on true ratings held out"),
    ("provider", "the same of channel-mf, which knows the channel and uses which items were rated"),
    ("device", "the same of devices that rank with their own true ratings and what the provider published"),
    ("total, pure", "epsilon of the busiest person"),
    ("total, 1e-6", "the same at delta = 1e-6"),
)


def cells(demo: Demo) -> list[list[str]]:
    """Return the table's rows as text, in the order of `COLUMNS`."""
    return [
        [
            row.mechanism,
            f"{row.exact_loss:.4f}",
            f"{row.audited:.4f}",
            str(row.bits),
            f"{row.bytes_per_person:.0f}",
            f"{row.guess_right:.1%}",
            f"{row.noise_deviation:.2f}",
            f"{row.estimated_mean:.2f}",
            f"{row.held_out_error:.3f}",
            f"{row.provider_error:.3f}",
            f"{row.device_error:.3f}",
            decimal_text(row.busiest.pure),
            f"{row.busiest.approximate:.0f}",
        ]
        for row in demo.rows
    ]


def summary(demo: Demo) -> tuple[str, str, str]:
    """Return what the demonstration says in words: the world, one rating's way, and what a provider learns."""
    world, example, shape = demo.world, demo.example, demo.world.shape
    world_text = (
        f"{shape.people:,} invented people rate {shape.items:,} invented films {shape.ratings:,} times on the scale "
        f"{world.scale} (seed {world.seed}); each rating is reported under epsilon {demo.epsilon}."
    )
    walk = (
        f"One rating's way: somebody gives '{example.title}' {example.rating:g}. The device draws once, remembers, "
        f"charges epsilon {demo.epsilon}, and sends symbol {example.report.symbol}, which stands for "
        f"{example.stands_for:g}. No rating makes that symbol more than {example.ratio:.2f} times as likely as "
        "another does."
    )
    provider = (
        f"A curious provider who already knows the histogram guesses a rating right {demo.guess_right_without:.1%} of "
        f"the time with no report at all; the column 'guess right' is what it reaches with one. From all reports "
        f"together it learns the mean rating; the true one is {demo.true_mean:.2f}. The last columns "
        "before the totals are errors on true ratings held out: of the paper's model, fitted to reports as they are, "
        "of channel-mf, which knows the channel, and of devices that rank by themselves. With reports unread, and "
        f"only who rated what known, devices would have {demo.silent_device_error:.3f}; the best constant has "
        f"{demo.constant_error:.3f}. "
        f"{_recommendation(demo)}"
    )
    return world_text, walk, provider


def _recommendation(demo: Demo) -> str:
    """Say what the device of the person whose rating was followed recommends."""
    row, titles = demo.rows[0], demo.world.titles()
    shown = ", ".join(f"'{titles[item]}'" for item in row.recommended)
    return f"With the reports of {row.mechanism}, the device of the person above recommends: {shown}."


def save_demo_page(demo: Demo, path: Path) -> None:
    """Write the report."""
    head = "".join(f'<th title="{escape(meaning)}">{escape(name)}</th>' for name, meaning in COLUMNS)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in cells(demo))
    first, walk, provider = (escape(paragraph) for paragraph in summary(demo))
    legend = "".join(f"<li><b>{escape(name)}</b>: {escape(meaning)}</li>" for name, meaning in COLUMNS[1:])
    picture = world_figure(demo.world.scale.ratings, demo.world.histogram(), demo.rows)
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>tacit: what is said, and what is not</title><style>{_STYLE}</style></head><body>
<h1>tacit: what is said, and what is not</h1>
<p>{first}</p><p class="said">{walk}</p>
<h2>Every mechanism, at the same epsilon</h2>
<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>
<ul>{legend}</ul><p>{provider}</p>
<h2>What people think, and what the provider sees</h2>
{picture[picture.index("<svg") :]}
</body></html>
"""
    write_bytes(path, page.encode())
