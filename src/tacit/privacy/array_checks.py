"""Checks on the numbers of a model: what is not as it should be is refused, and what is becomes read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

# Products of factors up to this size, summed over any rank, stay finite in single precision.
LARGEST = 1e15

# A variance that something is divided by; the quotients of numbers up to the largest stay finite.
SMALLEST_VARIANCE = 1e-30


def take(arrays: dict[str, NDArray[Any]], name: str, folder: str | Path) -> NDArray[Any]:
    """Take an array out of those of a folder."""
    if name not in arrays:
        raise ModelError(f"{folder} has no array {name!r}; it is damaged or of another kind")
    return arrays[name]


def rank_of(factors: NDArray[Any]) -> int:
    """Return the number of columns; what has no columns is refused later, with its shape."""
    return factors.shape[1] if factors.ndim == 2 else 0  # noqa: PLR2004 - rows and columns


def check_number(what: str, number: float) -> None:
    """Refuse a number that is not finite, or too large to be meant."""
    if not abs(number) <= LARGEST:
        raise ModelError(f"{what} is {number}, not a number up to {LARGEST:g}; the model is damaged")


def check_variance(what: str, variance: float) -> None:
    """Refuse a variance that is not positive, or too small or large to be meant."""
    if not SMALLEST_VARIANCE <= variance <= LARGEST:
        raise ModelError(f"{what} is {variance}, not from {SMALLEST_VARIANCE:g} to {LARGEST:g}; the model is damaged")


def check_floats(what: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Refuse an array of another type or shape, or with numbers that are not finite; make it read-only."""
    if array.dtype != np.float32 or array.shape != shape:
        found = f"{array.dtype} of shape {array.shape}"
        raise ModelError(f"{what} are {found}, not float32 of shape {shape}; the model is damaged")
    # Written so that a comparison with NaN refuses, too.
    if not (array.min(initial=0) >= -LARGEST and array.max(initial=0) <= LARGEST):
        raise ModelError(f"{what} are not all finite numbers up to {LARGEST:g}; fit again with more ridge")
    array.setflags(write=False)


def check_variances(what: str, array: NDArray[Any], shape: tuple[int, ...], *, least: float) -> None:
    """Refuse an array of variances as `check_floats` does, or one with a variance below the least."""
    check_floats(what, array, shape)
    if not array.min(initial=np.inf) >= least:
        raise ModelError(f"{what} go down to {array.min():g}, the least is {least:g}; the model is damaged")
