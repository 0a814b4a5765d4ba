"""The floating-point attack: telling ratings apart by the low bits of a reported number.

Adding floating-point noise to a rating leaves traces in the last bits of the
sum, whatever the noise's law on paper: some doubles can be reached from some
ratings only. Reports that are names of cells have no such bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.privacy.audit import Finding, find_loss

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_MANTISSA_BITS = 52
_TRAILING_CLASSES = 8
_EXPONENTS = range(-4, 12)


def attack_low_bits(
    draw: Callable[[float, int], NDArray[np.float64]],
    ratings: NDArray[np.float64],
    *,
    samples: int = 10**6,
    confidence: float = 0.99,
) -> Finding:
    """Look at the magnitude and the trailing bits of reported numbers; return the loss they prove.

    `draw(rating, count)` is the sampler under attack. A lower bound above the
    sampler's epsilon refutes its claim.
    """

    def count_events(rank: int, count: int) -> NDArray[np.int64]:
        events = low_bit_events(draw(float(ratings[rank]), count))
        return np.bincount(events, minlength=len(_EXPONENTS) * _TRAILING_CLASSES)

    return find_loss(count_events, len(ratings), samples=samples, confidence=confidence)


def low_bit_events(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Classify doubles by binary exponent and by how many zero bits their mantissa ends in."""
    bits = np.ascontiguousarray(numbers, dtype=np.float64).view(np.uint64)
    mantissa = bits & np.uint64(2**_MANTISSA_BITS - 1)
    lowest_bit = mantissa & (~mantissa + np.uint64(1))
    trailing = np.full(len(numbers), _TRAILING_CLASSES - 1)
    some = lowest_bit > 0
    trailing[some] = np.minimum(np.log2(lowest_bit[some].astype(np.float64)), _TRAILING_CLASSES - 1)
    exponent = np.frexp(numbers)[1] - 1
    magnitude = np.clip(exponent, _EXPONENTS[0], _EXPONENTS[-1]) - _EXPONENTS[0]
    return np.asarray(magnitude * _TRAILING_CLASSES + trailing, dtype=np.int64)
