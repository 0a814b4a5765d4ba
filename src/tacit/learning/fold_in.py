"""Folding in: a new person's row from their reports, everything else held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ModelError
from tacit.learning.channel_fold_in import channel_row
from tacit.learning.kernels import half_sweep, padded
from tacit.learning.matrix import Rows
from tacit.learning.model_parts import Profile
from tacit.learning.predict import known_items
from tacit.privacy.item_model import LARGEST

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from tacit.learning.model import Model
    from tacit.learning.model_parts import Floats, Indices
    from tacit.privacy.vocabulary import IdList

# Under a mixture every sweep weighs the reports anew, so it takes several; the row is still when none of
# its coordinates moves by more than this share of the largest.
_MOST_SWEEPS = 50
_STILL = 1e-5


def fold_in(model: Model, items: IdList, values: ArrayLike, policy: str | None = None) -> Profile:
    """Solve one person's row from all of their reports; see `Model.fold_in`."""
    found = known_items(model, items)
    numbers = _checked_values(values, len(found))
    kept = np.flatnonzero(found >= 0)
    kept = kept[np.argsort(found[kept])]  # so that the order of the reports does not matter, not even to rounding
    rated = found[kept]
    _refuse_repeats(model, rated)
    if model.channel is None:
        row = _solved_row(model, rated, numbers[kept])
    else:
        row = channel_row(model, model.channel, rated, numbers[kept], policy)
    return Profile(row[: model.rank], float(row[model.rank]), rated, len(found) - len(kept))


def _solved_row(model: Model, rated: Indices, values: Floats) -> Floats:
    """Solve [factors, own offset, 1] against items [factors, 1, offset]; what the model does not learn is held."""
    ridge = [model.factor_ridge] * model.rank + ([] if model.offset_ridge is None else [model.offset_ridge])
    row = padded(np.zeros((1, model.rank + 2)))
    row[0, model.rank + 1] = 1
    if not ridge or not len(rated):
        return row.ravel()
    items = np.column_stack([model.item_factors[rated], np.ones(len(rated)), model.offsets.items[rated]])
    deviations = values - np.float32(model.offsets.mean)
    reports = Rows(np.array([0, len(rated)]), np.arange(len(rated), dtype=np.int32), deviations)
    _sweep_until_still(model, reports, padded(items), row, np.array(ridge, dtype=np.float32))
    if not (np.abs(row) <= LARGEST).all():
        raise ModelError(f"{len(rated)} reports do not determine this person's factors; fit with more ridge")
    return row.ravel()


def _sweep_until_still(model: Model, reports: Rows, items: Floats, row: Floats, ridge: Floats) -> None:
    for _ in range(_MOST_SWEEPS):
        before = row.copy()
        half_sweep(
            reports,
            None,
            items,
            row,
            coordinates=model.rank + 2,
            ridge=ridge,
            mixture=model.noise,
            statistics=False,
            threads=1,
        )
        if np.abs(row - before).max() <= _STILL * np.abs(row).max():
            return


def _checked_values(values: ArrayLike, count: int) -> Floats:
    numbers: Any = np.asarray(values)
    if numbers.dtype.kind not in "fiu" and numbers.size:
        raise ModelError(f"values are {numbers.dtype}, not numbers; give what the reports stand for")
    if numbers.shape != (count,):
        raise ModelError(f"{count} items and values of shape {numbers.shape}; give one value for each item")
    if not (np.abs(numbers) <= LARGEST).all():
        raise ModelError(f"a value is not a finite number up to {LARGEST:g}; give what the reports stand for")
    return np.asarray(numbers, dtype=np.float32)


def _refuse_repeats(model: Model, rated: Indices) -> None:
    again = np.flatnonzero(rated[1:] == rated[:-1])
    if len(again):
        name = str(model.items.id_at(int(rated[again[0]])))[:40]
        raise ModelError(f"item {name!r} is there twice; give one report for each item, the last one if it was changed")
