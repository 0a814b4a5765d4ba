from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import EpsilonError, InvalidInputError
from tacit.privacy.exact import decimal_text, exp_lower_bound, log_ratio, parse_canonical_decimal, parse_epsilon

if TYPE_CHECKING:
    from fractions import Fraction

epsilons = st.decimals(Decimal("0.001"), Decimal(20), places=9)


@given(epsilons)
def test_exp_lower_bound_is_below_and_close(epsilon: Decimal) -> None:
    with mpmath.workdps(90):
        bound = exp_lower_bound(epsilon)
        shortfall = 1 - mpmath.mpf(bound.numerator) / bound.denominator / mpmath.exp(mpmath.mpf(str(epsilon)))
        assert 0 <= shortfall < mpmath.mpf(2) ** -170


@given(st.fractions(1, 10**9))
def test_log_ratio_agrees_with_mpmath(ratio: Fraction) -> None:
    with mpmath.workdps(50):
        expected = float(mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator))
    assert log_ratio(ratio) == pytest.approx(expected, rel=1e-15, abs=1e-300)


@given(st.decimals(-(10**9), 10**9, places=7))
def test_decimal_text_is_canonical_and_exact(value: Decimal) -> None:
    text = decimal_text(value)
    assert parse_canonical_decimal(text) == value
    assert "e" not in text.lower()


@pytest.mark.parametrize(
    "text", ["", "+1", "1.0", "01", ".5", "5.", "1e3", "-0", "NaN", "Infinity", "1 ", "\u0661", "9" * 41, 1, None]
)
def test_other_spellings_of_decimals_are_refused(text: object) -> None:
    with pytest.raises(InvalidInputError, match="plain decimal"):
        parse_canonical_decimal(text)


@pytest.mark.parametrize(
    "value", ["0", "-1", "1e9", "5e-324", "nan", "inf", "one", "", "0.00099", "20.001", 0.0, float("nan")]
)
def test_epsilon_out_of_range_is_refused_with_value_limit_and_remedy(value: str | float) -> None:
    with pytest.raises(EpsilonError, match=r"from 0\.001 to 20; choose one"):
        parse_epsilon(value)


@pytest.mark.parametrize(
    ("value", "expected"), [(0.1, "0.1"), ("1", "1"), (" 0.50 ", "0.5"), (1 / 3, "0.3333333333333333"), (20, "20")]
)
def test_epsilon_is_read_as_written(value: str | float, expected: str) -> None:
    assert decimal_text(parse_epsilon(value)) == expected
