"""Folding in where reports are read through their channel: calibrate, place the person in the pattern, and solve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ModelError
from tacit.learning.channel_rows import sides_of
from tacit.learning.kernels import padded, posterior_sweep
from tacit.learning.matrix import Rows
from tacit.privacy.array_checks import LARGEST
from tacit.privacy.item_beliefs import POPULARITY_COLUMNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.channel_part import ChannelPart, SymbolReading
    from tacit.learning.model import Model
    from tacit.learning.model_parts import Floats, Indices

_SHOWN_ID = 12
_SAME_VALUE = 1e-5  # of the width of the scale: values are kept in single precision


def channel_row(model: Model, part: ChannelPart, rated: Indices, values: Floats, policy: str | None) -> Floats:
    """Return a person's row [weights, place, factors, offset, 1] from what the reported symbols stand for."""
    side, items = sides_of(part.places, model.rank - 2 * part.places)
    row = np.zeros((1, model.rank + 2), dtype=np.float32)
    row[0, side.one] = 1
    if part.pattern is not None:
        row[0, side.place] = part.pattern.place_of(rated)
    if not len(rated):
        return row.ravel()
    said, noise = _calibrated(model, part, values, policy)
    known = np.column_stack([model.item_factors[rated], np.ones(len(rated)), model.offsets.items[rated]])
    solved = padded(row[:, side.own])
    beliefs, prior = part.beliefs, _prior_variances(part)
    posterior_sweep(
        Rows(np.array([0, len(rated)]), np.arange(len(rated), dtype=np.int32), said - np.float32(model.offsets.mean)),
        None,
        np.array([1 / (noise + beliefs.residual_variance)], dtype=np.float32),
        padded(known[:, items.other]),
        solved,
        np.empty((1, len(prior)), dtype=np.float32),
        coordinates=len(side.own),
        precision=(1 / prior).astype(np.float32),
        centres=None,
        fixed_variances=np.ascontiguousarray(beliefs.item_factor_variances[rated]),
        threads=1,
    )
    row[0, side.solved] = solved[0, : len(prior)]
    if not (np.abs(row) <= LARGEST).all():
        raise ModelError(f"{len(rated)} reports do not place this person in the model; it is damaged, fit again")
    return row.ravel()


def _prior_variances(part: ChannelPart) -> NDArray[np.float64]:
    """Return the prior variances of a person's offset, weights and factors."""
    weights = np.zeros(0)
    if part.pattern is not None:
        weights = part.pattern.trait_variances[POPULARITY_COLUMNS : POPULARITY_COLUMNS + part.places].astype(np.float64)
    return np.concatenate([[part.beliefs.offset_variance], weights, part.beliefs.factor_variances])


def _calibrated(model: Model, part: ChannelPart, values: Floats, policy: str | None) -> tuple[Floats, float]:
    """Return what the values say of the ratings behind them, and the variance of the noise left in each."""
    if not part.readings:
        return values, 0.0
    reading = _reading_of(part, policy)
    order = np.argsort(reading.symbol_values)
    symbols = reading.symbol_values[order]
    above = np.clip(np.searchsorted(symbols, values), 1, max(len(symbols) - 1, 1))
    nearest = np.where(values - symbols[above - 1] <= symbols[above] - values, above - 1, above)
    width = float(model.scale.high) - float(model.scale.low)
    off = np.abs(symbols[nearest] - values) > _SAME_VALUE * width
    if off.any():
        stray = float(values[np.argmax(off)])
        raise ModelError(
            f"value {stray:g} is no symbol of policy {reading.policy[:_SHOWN_ID]}; give what its symbols stand for"
        )
    return reading.calibrated[order[nearest]], reading.noise_variance


def _reading_of(part: ChannelPart, policy: str | None) -> SymbolReading:
    known = {reading.policy: reading for reading in part.readings}
    if policy is None and len(known) == 1:
        return part.readings[0]
    if policy not in known:
        listed = ", ".join(name[:_SHOWN_ID] for name in known)
        asked = "no policy was named" if policy is None else f"policy {policy[:_SHOWN_ID]!r} is not known"
        raise ModelError(f"{asked}; this model was learned through {listed}: name one of these")
    return known[policy]
