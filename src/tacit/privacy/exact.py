"""The arithmetic a privacy claim rests on: decimals and integers, never floats."""

from __future__ import annotations

import re
from decimal import Decimal, localcontext
from fractions import Fraction

from tacit.errors import EpsilonError, InvalidInputError

SMALLEST_EPSILON = Decimal("0.001")
LARGEST_EPSILON = Decimal(20)

_CANONICAL_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?")
_LONGEST_DECIMAL = 40
_NUMBER = re.compile(r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,4})?", re.ASCII)
_TOO_LARGE = 9
_MOST_DECIMALS = 18
_EXP_BITS = 192


def decimal_text(value: Decimal) -> str:
    """Write a decimal without exponent, plus sign or trailing zeros.

    >>> decimal_text(Decimal("2.50")), decimal_text(Decimal("1e2"))
    ('2.5', '100')
    """
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def parse_canonical_decimal(text: object) -> Decimal:
    """Read a decimal that is written exactly as `decimal_text` writes it."""
    if (
        not isinstance(text, str)
        or len(text) > _LONGEST_DECIMAL
        or not _CANONICAL_DECIMAL.fullmatch(text)
        or text == "-0"
    ):
        shown = repr(text)[:_LONGEST_DECIMAL]
        msg = f"{shown} is not a plain decimal string such as '0.5' (at most {_LONGEST_DECIMAL} characters)"
        raise InvalidInputError(msg)
    return Decimal(text)


def to_decimal(value: str | float | Decimal) -> Decimal | None:
    """Read a number exactly as a person would write it; None if it is none, or too long to be meant.

    Below 10^9 and with at most 18 decimals, sums and differences of two such
    numbers are exact in the default decimal context.
    """
    text = str(value).strip()
    if not _NUMBER.fullmatch(text):
        return None
    number = Decimal(text)
    if number.is_zero():
        return Decimal(0)
    within = number.adjusted() < _TOO_LARGE and number.adjusted() >= -_MOST_DECIMALS
    return number if within and int(number.normalize().as_tuple().exponent) >= -_MOST_DECIMALS else None


def parse_epsilon(value: str | float | Decimal) -> Decimal:
    """Read an epsilon and check that it is one tacit accepts."""
    epsilon = to_decimal(value)
    if epsilon is None or not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        msg = (
            f"epsilon {value} is not a number from {SMALLEST_EPSILON} to {LARGEST_EPSILON}; "
            "choose one in that range (0.1 is strong, 1 usual, 3 weak)"
        )
        raise EpsilonError(msg)
    return epsilon


def exp_lower_bound(exponent: Decimal) -> Fraction:
    """Return a rational number proven not to exceed e^exponent, for a positive exponent.

    The Taylor series of a positive exponent has positive terms only, and every
    division below rounds down, so the sum can only fall short: by a relative
    2^-180 or less over the accepted range of epsilon.
    """
    x = Fraction(exponent)
    term = total = 1 << _EXP_BITS
    order = 0
    while term:
        order += 1
        term = term * x.numerator // (x.denominator * order)
        total += term
    return Fraction(total, 1 << _EXP_BITS)


def log_ratio(ratio: Fraction) -> float:
    """Return the natural logarithm of a rational, correctly rounded for all practical purposes."""
    with localcontext(prec=60):
        return float((Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln())
