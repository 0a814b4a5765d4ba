from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.errors import ModelError
from tacit.privacy.quantised import decode, encode

NUMBERS = st.floats(-(2.0**49), 2.0**49, width=32)
SHAPES = hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=6)


def rounded(values: Any, *, keep_positive: bool = False) -> Any:
    return decode("numbers", *encode(values, keep_positive=keep_positive), dimensions=values.ndim)


@given(hnp.arrays(np.float32, SHAPES, elements=NUMBERS), st.booleans())
def test_what_was_rounded_is_rounded_to_the_same(values: Any, keep_positive: bool) -> None:
    codes, scales = encode(values, keep_positive=keep_positive)
    once = rounded(values, keep_positive=keep_positive)
    again, same_scales = encode(once, keep_positive=keep_positive)
    np.testing.assert_array_equal(again, codes)
    assert scales.tobytes() == same_scales.tobytes()
    assert rounded(once, keep_positive=keep_positive).tobytes() == once.tobytes()


@given(hnp.arrays(np.float32, SHAPES, elements=NUMBERS))
def test_no_number_moves_by_more_than_half_a_step(values: Any) -> None:
    codes, scales = encode(values)
    assert codes.dtype == (np.int16 if values.ndim == 1 else np.int8)
    assert scales.shape == values.shape[1:]
    assert (np.abs(values - rounded(values)) <= scales * np.float32(0.51)).all()


@given(hnp.arrays(np.float32, SHAPES, elements=st.floats(0, 2.0**49, width=32)))
def test_what_is_positive_stays_so_where_asked(values: Any) -> None:
    np.testing.assert_array_equal(rounded(values, keep_positive=True) > 0, values > 0)


@pytest.mark.parametrize("dimensions", [1, 2])
def test_every_size_of_numbers_leads_back_to_its_scale(dimensions: int) -> None:
    rng = np.random.default_rng(0)
    sizes = (rng.uniform(1, 2, 2000) * 2.0 ** rng.integers(-60, 40, 2000)).astype(np.float32)
    for values in [sizes[None]] if dimensions == 2 else sizes[:, None]:
        once = rounded(values)
        assert rounded(once).tobytes() == once.tobytes()
        np.testing.assert_allclose(once, values, rtol=2e-7)


def test_what_cannot_have_been_written_is_refused() -> None:
    codes, scales = encode(np.ones((3, 2), np.float32))
    for bad_codes, bad_scales, complaint in (
        (codes.astype(np.int16), scales, "numbers are int16 of shape"),
        (codes[:, 0], scales, "not int8 in 2 dimensions"),
        (codes, scales[:1], "scales of numbers are float32 of shape"),
        (codes, scales.astype(np.float64), "scales of numbers are float64"),
        (codes, scales * np.float32(np.nan), "scales of numbers are not all finite"),
    ):
        with pytest.raises(ModelError, match=complaint):
            decode("numbers", bad_codes, bad_scales, dimensions=2)
