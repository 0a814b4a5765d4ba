"""A trade-off as rows of text, for the terminal and the page alike."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from tacit.evaluation.setting import DEVICE, PLACES, PROVIDER
from tacit.evaluation.tradeoff_figures import error_of, totals_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.evaluation.rows import Row
    from tacit.evaluation.tradeoff import Tradeoff
    from tacit.evaluation.user_level import UserLevel

WINNER_HEAD = (
    "ratings",
    "total",
    "least noise",
    "epsilon of one rating",
    "noise deviation",
    "next",
    "noise deviation",
    "RMSE, provider",
    "RMSE, device",
)


def place_rows(made: Tradeoff, place: str) -> list[list[str]]:
    """Return a line for every mechanism and its RMSE at every epsilon, those without the pattern last."""
    blind = {f"{name}, pattern off": rows for name, rows in made.blind_curves(place).items()}
    return [[name, *map(_error, rows)] for name, rows in (made.curves(place) | blind).items()]


def epsilon_head(made: Tradeoff) -> list[str]:
    """Return the head of the columns: epsilons as they rise."""
    return sorted(made.plan.epsilons, key=float)


def control_rows(made: Tradeoff) -> list[list[str]]:
    """Return what every control is, its place and its RMSE."""
    constant = ["constant, the true mean of all ratings", PROVIDER, _error(made.unheard(PROVIDER))]
    alone = ["own ratings and the pattern, no report", DEVICE, _error(made.unheard(DEVICE))]
    private = [["non-private, learned from true ratings", place, _error(made.non_private(place))] for place in PLACES]
    return [constant, alone, *private]


def largest_deviation(made: Tradeoff) -> float:
    """Return the largest standard deviation of RMSE over folds."""
    return max(row.deviation("rmse") for row in made.rows)


def winner_rows(levels: Sequence[UserLevel], made: Tradeoff) -> list[list[str]]:
    """Return which mechanism says most at every number of ratings and total, and which comes next."""
    counts = list(dict.fromkeys(level.ratings for level in levels))
    return [_winner(levels, made, count, total) for count, total in product(counts, totals_of(levels))]


def _winner(levels: Sequence[UserLevel], made: Tradeoff, count: int, total: float) -> list[str]:
    rivals = [level for level in levels if (level.ratings, level.total) == (count, total)]
    first, *others = sorted(rivals, key=lambda level: level.noise_deviation)
    second = [others[0].mechanism, f"{others[0].noise_deviation:.3g}"] if others else ["-", "-"]
    errors = [error_of(first, made, place) for place in PLACES]
    return [
        str(count),
        f"{total:g}",
        first.mechanism,
        f"{first.epsilon:.3g}",
        f"{first.noise_deviation:.3g}",
        *second,
        *("-" if error is None else f"{error:.4f}" for error in errors),
    ]


def _error(row: Row) -> str:
    return f"{row.mean('rmse'):.4f}"
