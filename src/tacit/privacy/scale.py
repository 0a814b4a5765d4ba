"""The rating scale: the only place that knows what a valid rating is."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import RatingError, ScaleError
from tacit.privacy.exact import decimal_text, to_decimal

if TYPE_CHECKING:
    from decimal import Decimal

    from numpy.typing import ArrayLike, NDArray

MOST_RANKS = 501

# Ratings arrive as binary floats, often of single precision, so a value this
# close to a step (in steps) is that step; anything further off is an error.
_ON_STEP = 1e-4

_MOST_DECIMALS = 9
_REMEDY = "write LOW:HIGH:STEP, such as 1:5:1"


@dataclass(frozen=True)
class RatingScale:
    """The ratings a person can give: low, low + step, ..., high.

    Build one with `of` or `parse`, which read the numbers exactly.

    >>> scale = RatingScale.parse("0.5:5:0.5")
    >>> scale.size, scale.width
    (10, Decimal('4.5'))
    >>> scale.ranks_of([0.5, 5.0])
    array([0, 9], dtype=uint16)
    """

    low: Decimal
    high: Decimal
    step: Decimal

    def __post_init__(self) -> None:
        """Refuse a scale that is empty, uneven or too fine."""
        if any(
            int(part.normalize().as_tuple().exponent) < -_MOST_DECIMALS for part in (self.low, self.high, self.step)
        ):
            msg = f"scale {self} has more than {_MOST_DECIMALS} decimals; choose a coarser one"
            raise ScaleError(msg)
        if not self.low < self.high:
            msg = f"scale {self} has low {self.low} >= high {self.high}; write LOW:HIGH:STEP with LOW below HIGH"
            raise ScaleError(msg)
        if self.step <= 0 or (Fraction(self.width) / Fraction(self.step)).denominator != 1:
            msg = f"scale {self}: step {self.step} does not divide the width {self.width}; choose a step that does"
            raise ScaleError(msg)
        if self.size > MOST_RANKS:
            msg = f"scale {self} has {self.size} ratings, the limit is {MOST_RANKS}; choose a larger step"
            raise ScaleError(msg)

    @classmethod
    def of(cls, low: str | float | Decimal, high: str | float | Decimal, step: str | float | Decimal) -> RatingScale:
        """Build a scale from numbers or their text."""
        parts = [to_decimal(part) for part in (low, high, step)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            msg = f"scale {low}:{high}:{step} has a part that is not a number below 10^9; {_REMEDY}"
            raise ScaleError(msg)
        return cls(*known)

    @classmethod
    def parse(cls, text: str) -> RatingScale:
        """Read `LOW:HIGH:STEP`."""
        parts = text.split(":")
        if len(parts) != 3:  # noqa: PLR2004 - low, high and step
            msg = f"scale {text!r} does not have three parts; {_REMEDY}"
            raise ScaleError(msg)
        return cls.of(*parts)

    def __str__(self) -> str:
        """Write the scale as `parse` reads it."""
        return ":".join(decimal_text(part) for part in (self.low, self.high, self.step))

    @property
    def width(self) -> Decimal:
        """The distance from low to high: the sensitivity of a rating."""
        return self.high - self.low

    @cached_property
    def size(self) -> int:
        """How many different ratings the scale has."""
        return int(Fraction(self.width) / Fraction(self.step)) + 1

    @cached_property
    def ratings(self) -> NDArray[np.float64]:
        """The rating of every rank, from low to high."""
        values = np.array([float(self.low + self.step * rank) for rank in range(self.size)])
        values.setflags(write=False)
        return values

    def ranks_of(self, ratings: ArrayLike, *, rounding: bool = False) -> NDArray[np.uint16]:
        """Return the rank of every rating, or refuse the first one that is off the scale.

        With `rounding`, a rating between two steps goes to the nearer one (the
        upper one when both are equally near); one outside the scale is still refused.
        """
        values = np.atleast_1d(np.asarray(ratings, dtype=np.float64))
        with np.errstate(over="ignore"):
            steps = (values - float(self.low)) / float(self.step)
        nearest = np.floor(np.where(np.isfinite(steps), steps, -1.0) + 0.5)
        inside = (steps >= -_ON_STEP) & (steps <= self.size - 1 + _ON_STEP)
        good = inside if rounding else inside & (np.abs(nearest - steps) <= _ON_STEP)
        if not good.all():
            first = int(np.argmin(good))
            raise RatingError(self._complaint(float(values[first]), first))
        return nearest.astype(np.uint16)

    def _complaint(self, rating: float, position: int) -> str:
        where = f"rating {rating:g} (number {position + 1})"
        if not np.isfinite(rating):
            return f"{where} is not a finite number; give a rating from {self.low} to {self.high}"
        if not float(self.low) <= rating <= float(self.high):
            return f"{where} is outside the scale {self.low} to {self.high}; correct it or use a wider scale"
        return f"{where} is between two steps of the scale {self}; round it (--round), or use a finer step"
