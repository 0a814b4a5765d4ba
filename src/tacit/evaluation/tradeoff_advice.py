"""What the figures of a trade-off say to somebody who has to choose an epsilon: nothing that is not in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.evaluation.setting import DEVICE, PROVIDER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from tacit.evaluation.rows import Row
    from tacit.evaluation.tradeoff import Tradeoff

CLOSE = 0.01
STANDARD_ERRORS = 2.0


def close_from(made: Tradeoff) -> dict[str, str | None]:
    """Return, for every mechanism, the epsilon from which on a device is within 1 % of the non-private RMSE."""
    bound = (1 + CLOSE) * made.non_private(DEVICE).mean("rmse")
    return {
        name: _from_which_on(curve, lambda row: row.mean("rmse") <= bound)
        for name, curve in made.curves(DEVICE).items()
    }


def heard_from(made: Tradeoff, place: str) -> dict[str, str | None]:
    """Return, for every mechanism, the epsilon from which on reports are better than none beyond chance."""
    curves, unheard = made.curves(place), made.unheard(place)
    chance = STANDARD_ERRORS * standard_error([gains(row, unheard) for curve in curves.values() for row in curve])
    return {
        name: _from_which_on(curve, lambda row: float(gains(row, unheard).mean()) > chance)
        for name, curve in curves.items()
    }


def gains(row: Row, unheard: Row) -> NDArray[np.float64]:
    """Return by how much a row's RMSE is below that without reports, fold by fold: they hold out the same ratings."""
    return np.subtract(unheard.values("rmse"), row.values("rmse"))


def standard_error(differences: Sequence[NDArray[np.float64]]) -> float:
    """Return the standard error of a mean difference over folds.

    Few folds tell little about their own spread, so it is pooled over all settings compared. What training sets share
    is corrected for (Nadeau and Bengio, 2003).
    """
    table = np.array(differences)
    folds = table.shape[1]
    return float(np.sqrt(table.var(axis=1, ddof=1).mean() * (1 / folds + 1 / (folds - 1))))


def advice(made: Tradeoff) -> list[str]:
    """Say in words what to take from the figures."""
    private, alone, constant = (
        f"{row.mean('rmse'):.4f}" for row in (made.non_private(DEVICE), made.unheard(DEVICE), made.unheard(PROVIDER))
    )
    close = f"On the device, RMSE is within {100 * CLOSE:g} % of the non-private {private}"
    device = f"There reports improve on the person's own ratings and the pattern alone ({alone})"
    provider = f"At the provider, they improve on a constant ({constant})"
    beyond = f"by more than {STANDARD_ERRORS:g} standard errors"
    return [
        f"{close} {_told(close_from(made))}.",
        f"{device} {beyond} {_told(heard_from(made, DEVICE))}.",
        f"{provider} {beyond} {_told(heard_from(made, PROVIDER))}.",
    ]


def _from_which_on(curve: Sequence[Row], holds: Callable[[Row], bool]) -> str | None:
    """Return the smallest epsilon that holds with all above it, if the largest does."""
    found = None
    for row in reversed(curve):
        if not holds(row):
            break
        found = row.setting.epsilon
    return found


def _told(epsilons: Mapping[str, str | None]) -> str:
    """Name mechanisms by the epsilon they share, the smallest first.

    >>> _told({"a": "1", "b": None, "c": "0.5", "d": "1"})
    'from epsilon 0.5 on with c, from 1 on with a and d, and at no epsilon tried with b'
    """
    shared = sorted({epsilon for epsilon in epsilons.values() if epsilon is not None}, key=float)
    parts = [f"from {one} on with {_listed(epsilons, one)}" for one in shared]
    if None in epsilons.values():
        parts.append(f"at no epsilon tried with {_listed(epsilons, None)}")
    text = _joined(parts, comma=True)
    return text.replace("from ", "from epsilon ", 1) if shared else text


def _listed(epsilons: Mapping[str, str | None], wanted: str | None) -> str:
    return _joined([name for name, epsilon in epsilons.items() if epsilon == wanted])


def _joined(parts: Sequence[str], *, comma: bool = False) -> str:
    *first, last = parts
    return f"{', '.join(first)}{',' if comma else ''} and {last}" if first else last
