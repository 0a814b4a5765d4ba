"""Floats in few bits: a matrix as one byte a number with a scale for every column, a vector as two bytes and one scale.

A number is its code times its scale, in single precision. What was rounded once is rounded to the same again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ModelError
from tacit.privacy.array_checks import check_floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_KINDS: dict[int, np.dtype[np.int8 | np.int16]] = {1: np.dtype(np.int16), 2: np.dtype(np.int8)}
_LEAST_SCALE = float(np.finfo(np.float32).smallest_normal)

# One bit fewer than single precision has: the largest number, rounded, then still leads back to the scale it came from.
_SCALE_BITS = 23


def encode(values: Floats, *, keep_positive: bool = False) -> tuple[NDArray[Any], Floats]:
    """Return codes and scales; with `keep_positive` nothing above zero is rounded to it.

    >>> codes, scales = encode(np.array([[1.0, 0.0], [-0.5, 3.0]], dtype=np.float32))
    >>> codes
    array([[127,   0],
           [-64, 127]], dtype=int8)
    >>> decode("numbers", codes, scales, dimensions=2)[:, 0]
    array([ 1.      , -0.503937], dtype=float32)
    """
    kind = _KINDS[values.ndim]
    scales = _scales(np.maximum(values.max(axis=0, initial=0), -values.min(axis=0, initial=0)), np.iinfo(kind).max)
    codes = np.rint(values / scales)
    if keep_positive:
        codes = np.where(values > 0, np.maximum(codes, 1), codes)
    return codes.astype(kind), scales


def decode(what: str, codes: NDArray[Any], scales: NDArray[Any], *, dimensions: int) -> Floats:
    """Return the numbers that codes stand for, or refuse what `encode` cannot have written."""
    kind = _KINDS[dimensions]
    if codes.dtype != kind or codes.ndim != dimensions:
        found = f"{codes.dtype} of shape {codes.shape}"
        raise ModelError(f"{what} are {found}, not {kind} in {dimensions} dimensions; the model is damaged")
    check_floats(f"scales of {what}", scales, codes.shape[1:])
    return np.asarray(codes * scales, dtype=np.float32)


def _scales(largest: Floats, levels: int) -> Floats:
    fraction, exponent = np.frexp(largest / np.float64(levels))
    short = np.ldexp(np.rint(np.ldexp(fraction, _SCALE_BITS)), exponent - _SCALE_BITS)
    return np.asarray(np.maximum(short, _LEAST_SCALE), dtype=np.float32)
