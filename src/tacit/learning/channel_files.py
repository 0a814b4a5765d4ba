"""The part of a model that was learned through channels, on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.channel_part import ChannelPart, SymbolReading
from tacit.privacy.item_beliefs import Beliefs, ItemPattern
from tacit.privacy.item_model import take

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tacit.privacy.documents import Fields

_BELIEFS = ("factor_variances", "item_offset_variances", "item_factor_variances")
_PATTERN = ("traits", "trait_variances", "responses", "shares", "place_scale")


def channel_fields(part: ChannelPart | None) -> dict[str, Any] | None:
    """Write the numbers of the part as plain values."""
    if part is None:
        return None
    return {
        "residual_variance": float(part.beliefs.residual_variance),
        "offset_variance": float(part.beliefs.offset_variance),
        "pattern": part.pattern is not None,
        "policies": [reading.policy for reading in part.readings],
        "noise_variances": [reading.noise_variance for reading in part.readings],
    }


def channel_arrays(part: ChannelPart | None) -> dict[str, NDArray[Any]]:
    """Return the arrays of the part by name."""
    if part is None:
        return {}
    arrays = {name: getattr(part.beliefs, name) for name in _BELIEFS}
    if part.pattern is not None:
        arrays |= {name: getattr(part.pattern, name) for name in _PATTERN}
    for number, reading in enumerate(part.readings):
        arrays |= {f"symbols_{number}": reading.symbol_values, f"calibrated_{number}": reading.calibrated}
    return arrays


def read_channel(fields: Fields, arrays: dict[str, NDArray[Any]], folder: Path) -> ChannelPart | None:
    """Read the part back, if the model has it."""
    if fields.is_null("channel") or "channel" not in fields.values:
        return None
    own = fields.group("channel")
    beliefs = Beliefs(
        own.number("residual_variance"),
        own.number("offset_variance"),
        *(take(arrays, name, folder) for name in _BELIEFS),
    )
    has_pattern = own.values.get("pattern") is True
    pattern = ItemPattern(*(take(arrays, name, folder) for name in _PATTERN)) if has_pattern else None
    return ChannelPart(beliefs, pattern, _readings(own, arrays, folder))


def _readings(fields: Fields, arrays: dict[str, NDArray[Any]], folder: Path) -> tuple[SymbolReading, ...]:
    policies, noise = fields.texts("policies"), fields.numbers("noise_variances")
    if len(policies) != len(noise) or any(variance < 0 for variance in noise):
        raise fields.refuse("noise_variances", "one number from 0 on for each policy")
    return tuple(
        SymbolReading(policy, *_symbols(fields, arrays, folder, number), variance)
        for number, (policy, variance) in enumerate(zip(policies, noise, strict=True))
    )


def _symbols(
    fields: Fields, arrays: dict[str, NDArray[Any]], folder: Path, number: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    symbols, calibrated = (take(arrays, f"{name}_{number}", folder) for name in ("symbols", "calibrated"))
    alike = symbols.dtype == calibrated.dtype == np.float32 and symbols.ndim == 1 and symbols.shape == calibrated.shape
    if not (alike and len(symbols) > 1 and np.isfinite(symbols).all() and np.isfinite(calibrated).all()):
        raise fields.refuse("policies", "one with two finite values for every symbol")
    return symbols, calibrated
