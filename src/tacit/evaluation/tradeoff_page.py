"""The trade-off as one HTML page that fetches nothing."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import FileError
from tacit.evaluation.figures import check_picture_name, panels_of, render
from tacit.evaluation.paper.texts import STYLE
from tacit.evaluation.prior_cost import PriorCost, prior_cost_figure, prior_costs
from tacit.evaluation.setting import PLACES
from tacit.evaluation.tradeoff_advice import advice
from tacit.evaluation.tradeoff_figures import PLACE_TITLES, pattern_figure, tradeoff_figure, user_level_figure
from tacit.evaluation.tradeoff_tables import WINNER_HEAD, control_rows, epsilon_head, place_rows, winner_rows
from tacit.evaluation.user_level import DELTA_TEXT, UserLevel, reported_prior, user_levels, usual_counts
from tacit.files import write_bytes
from tacit.privacy.prior import Prior

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tacit.evaluation.ratings import RatingData
    from tacit.evaluation.tradeoff import Tradeoff, TradeoffPlan

_PAGE = ".html"


@dataclass(frozen=True, slots=True)
class PageParts:
    """What a page shows that needs no model: the cost of a wrong prior, and mechanisms at equal totals."""

    costs: tuple[PriorCost, ...]
    levels: tuple[UserLevel, ...]


def check_plot(path: str | Path) -> None:
    """Refuse, before a long study, what could not be drawn after it."""
    ending = Path(path).suffix.lower()
    try:
        if ending != _PAGE:
            check_picture_name(path)
    except FileError as error:
        raise FileError(f"{path} ends in {ending!r}; name it .png, .svg or .pdf, or .html for a page") from error
    if not Path(path).parent.is_dir():
        raise FileError(f"{Path(path).parent} is not a folder; make it, or name another with --plot")
    panels_of(1, 1)


def is_page(path: str | Path) -> bool:
    """Tell whether a whole page is asked for, not a picture."""
    return Path(path).suffix.lower() == _PAGE


def page_parts(data: RatingData, plan: TradeoffPlan) -> PageParts:
    """Compute what needs no model.

    The true histogram decides nothing here but what the figure of wrong priors compares with.
    """
    rng = np.random.default_rng(plan.seed)
    levels = user_levels(plan.mechanisms, usual_counts(data), reported_prior(data, rng))
    truth = Prior.of(data.scale, np.bincount(data.ranks, minlength=data.scale.size))
    costs = prior_costs(truth, sorted(plan.epsilons, key=float)[::2], rng=rng)
    return PageParts(tuple(costs), tuple(levels))


def save_plot(made: Tradeoff, path: str | Path, parts: PageParts | None = None) -> None:
    """Write the picture, or the page with the parts computed for it."""
    if parts is None:
        content = render(tradeoff_figure(made), check_picture_name(path))
    else:
        content = tradeoff_page(made, parts).encode()
    write_bytes(path, content)


def tradeoff_page(made: Tradeoff, parts: PageParts) -> str:
    """Lay out the page."""
    name = escape(made.rows[0].data)
    told = "".join(f"<li>{escape(sentence)}</li>" for sentence in advice(made))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>tacit: accuracy against epsilon</title><style>{STYLE}
{_MORE_STYLE}</style></head><body>
<h1>Accuracy against epsilon: {name}</h1>
<p>{_how(made)}</p><ul>{told}</ul>
{_figure(tradeoff_figure(made), _TRADEOFF)}
{"".join(_place_table(made, place) for place in PLACES)}
<h2 id="controls">Controls</h2>{_table(["control", "place", "RMSE"], control_rows(made))}
{_figure(pattern_figure(made), _PATTERN)}
<h2 id="prior">What a wrong prior costs</h2>{_figure(prior_cost_figure(parts.costs), _PRIOR)}
<h2 id="user-level">At an equal total for a person</h2><p>{_USER_LEVEL}</p>
{"".join(_figure(user_level_figure(levels, made), "") for levels in _by_count(parts.levels))}
{_table(WINNER_HEAD, winner_rows(parts.levels, made))}
<p class="small">{_made_of(made)}</p>
</body></html>
"""


_MORE_STYLE = ".wide { margin: 1.2rem 0 }"
_TRADEOFF = (
    "Lower is better. The provider predicts from reports alone; a device ranks with what the provider published and "
    "its own true ratings, which never leave it. Bands: one standard deviation over folds. <i>tailored</i> is the "
    "whole procedure: a tenth of the people report first, under another mechanism, and their reports decide the policy "
    "of the others."
)
_PATTERN = (
    "Which items a person rated is no secret of these mechanisms, and says much by itself. With the pattern off, the "
    "provider learns from what reports say alone."
)
_PRIOR = (
    "<b>The true histogram of the data is used to draw this figure, and for nothing else</b>: no policy above was "
    "tailored to it. A wrong prior costs noise, never privacy: the loss on the right is that of every prior."
)
_USER_LEVEL = (
    "Epsilon is of one rating; a person spends it with every rating. Here every mechanism has the epsilon at which "
    f"all ratings of a person add up to the same total at delta = {DELTA_TEXT}: those of the median person, and of one "
    "who rates more than nine in ten do. The noise is of one report, read with the histogram that reports on a tenth "
    "of the ratings tell of. RMSE is interpolated over the logarithm of epsilon between the epsilons measured above, "
    "and left out outside them; it takes everybody to report at that epsilon."
)


def _how(made: Tradeoff) -> str:
    plan, row = made.plan, made.rows[0].to_document()
    return (
        f"Model channel-mf of rank at most {plan.options.rank}, {plan.folds}-fold cross-validation: learned from "
        f"{row['n_train']:,} perturbed ratings on the scale {escape(row['scale'])}, measured on {row['n_test']:,} true "
        "ones. Fewer folds learn from fewer ratings; ten are the usual."
    )


def _made_of(made: Tradeoff) -> str:
    row = made.rows[0].to_document()
    versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
    return escape(f"Seed {made.plan.seed}; data SHA-256 {row['data_sha256']}; computed with {versions}.")


def _place_table(made: Tradeoff, place: str) -> str:
    return _table([f"RMSE {PLACE_TITLES[place]}, at epsilon", *epsilon_head(made)], place_rows(made, place))


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table></div>'


def _figure(figure: Any, caption: str) -> str:  # noqa: ANN401 - matplotlib's types stay in figures
    svg = render(figure, "svg").decode()
    return f"<figure>{svg[svg.index('<svg') :]}<figcaption>{caption}</figcaption></figure>"


def _by_count(levels: Sequence[UserLevel]) -> list[list[UserLevel]]:
    counts = dict.fromkeys(level.ratings for level in levels)
    return [[level for level in levels if level.ratings == count] for count in counts]
