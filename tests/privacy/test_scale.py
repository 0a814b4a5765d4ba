from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import RatingError, ScaleError
from tacit.privacy.scale import RatingScale


@pytest.mark.parametrize(
    ("text", "size"), [("1:5:1", 5), ("0.5:5:0.5", 10), ("1:10:1", 10), ("-10:10:0.25", 81), ("0:1:0.1", 11)]
)
def test_scales_have_the_right_ratings(text: str, size: int) -> None:
    scale = RatingScale.parse(text)
    assert scale.size == size
    assert str(scale) == text
    assert scale.ratings[0] == float(scale.low)
    assert scale.ratings[-1] == float(scale.high)


@pytest.mark.parametrize("text", ["1:5:1", "0.5:5:0.5", "-10:10:0.25", "0:1:0.1", "-3.3:7.7:1.1"])
def test_every_rating_has_its_own_rank_also_in_single_precision(text: str) -> None:
    scale = RatingScale.parse(text)
    for ratings in (scale.ratings, scale.ratings.astype(np.float32)):
        assert scale.ranks_of(ratings).tolist() == list(range(scale.size))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("5:1:1", "low 5 >= high 1"),
        ("1:1:1", "low 1 >= high 1"),
        ("1:5:3", "step 3 does not divide the width 4"),
        ("1:5:0", "step 0"),
        ("1:5:-1", "step -1"),
        ("a:5:1", "a:5:1"),
        ("nan:5:1", "not a number"),
        ("1:inf:1", "not a number"),
        ("1:5", "three parts"),
        ("0:1000:1", "limit is 501"),
        ("0:1:1e-400", "not a number"),
        ("1:5:1:1", "three parts"),
    ],
)
def test_senseless_scales_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(ScaleError, match=complaint):
        RatingScale.parse(text)


@pytest.mark.parametrize(
    ("rating", "complaint"),
    [
        (5.5, "outside the scale 0.5 to 5"),
        (3.3, "between two steps"),
        (np.nan, "not a finite"),
        (-np.inf, "not a finite"),
        (0, "outside"),
    ],
)
def test_ratings_off_the_scale_are_refused(rating: float, complaint: str) -> None:
    with pytest.raises(RatingError, match=complaint):
        RatingScale.parse("0.5:5:0.5").ranks_of([1.0, rating])


@given(st.floats(-10, 10))
def test_rounding_goes_to_the_nearest_step(rating: float) -> None:
    scale = RatingScale.parse("-10:10:0.25")
    rounded = scale.ratings[scale.ranks_of([rating], rounding=True)[0]]
    assert abs(rounded - rating) <= 0.125 + 1e-9


def test_rounding_takes_the_upper_of_two_equally_near_steps_and_never_clamps() -> None:
    scale = RatingScale.parse("1:5:1")
    assert scale.ranks_of([1.5, 2.5], rounding=True).tolist() == [1, 2]
    with pytest.raises(RatingError, match="outside"):
        scale.ranks_of([5.5], rounding=True)
