from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.dtypes import StringDType

from tacit.errors import InvalidInputError, ModelError
from tacit.privacy import vocabulary
from tacit.privacy.vocabulary import Vocabulary

INT64 = np.iinfo(np.int64)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
NUMBERS = st.integers(INT64.min, INT64.max) | st.integers(-20, 20)
IDS = st.lists(NUMBERS, unique=True, max_size=30) | st.lists(TEXTS | NUMBERS.map(str), unique=True, max_size=30)


def objects(*entries: object) -> np.ndarray:
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array


@given(IDS, st.lists(NUMBERS | TEXTS | NUMBERS.map(str), max_size=30))
def test_ids_match_by_their_text_form(ids: list[Any], others: list[Any]) -> None:
    words = Vocabulary.of(ids)
    known = {str(name): index for index, name in enumerate(ids)}
    for wanted in (ids, [str(name) for name in ids], others, ids[::-1] + others):
        expected = [known.get(str(name), -1) for name in wanted]
        found = words.find(wanted)
        assert found.dtype == np.int32
        assert found.tolist() == expected
        assert [words.index_of(name) for name in wanted] == [None if index < 0 else index for index in expected]
    assert len(words) == len(ids)
    assert [words.id_at(index) for index in range(len(ids))] == ids
    assert all(type(words.id_at(index)) in (int, str) for index in range(len(ids)))


def test_one_spelling_of_a_number_is_its_id() -> None:
    numbers, texts = Vocabulary.of([7, -3, 0]), Vocabulary.of(["7", "07", "x"])
    assert numbers.find(["7", "07", "+7", "7 ", "7.0", "-3", "0", "-0", "\u0667"]).tolist() == [
        0,
        *[-1] * 4,
        1,
        2,
        -1,
        -1,
    ]
    assert [numbers.index_of(text) for text in ("7", "07", "", "9" * 30, str(2**63))] == [0, None, None, None, None]
    assert texts.find([7, 8]).tolist() == [0, -1]
    assert texts.find(["07", 7, "x"]).tolist() == [1, 0, 2]
    assert texts.index_of(7) == 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint64, object, str, StringDType()])
def test_any_kind_of_array_is_looked_up(dtype: Any) -> None:
    wanted = np.array([3, 100, 4]).astype(dtype)
    assert Vocabulary.of(np.array([4, 3], dtype=np.int32)).find(wanted).tolist() == [1, -1, 0]
    assert Vocabulary.of(["4", "3"]).find(wanted).tolist() == [1, -1, 0]


def test_numbers_beyond_64_bits_are_text() -> None:
    large = np.array([2**64 - 1, 1], dtype=np.uint64)
    words = Vocabulary.of(large)
    assert words.ids.tolist() == [str(2**64 - 1), "1"]
    assert words.find(large).tolist() == [0, 1]
    assert Vocabulary.of([1]).find(large).tolist() == [-1, 0]
    nearby = np.array([2**62 + 1, 2**62], dtype=np.uint64)
    assert Vocabulary.of([2**62, 2**62 + 2]).find(nearby).tolist() == [-1, 0]
    assert Vocabulary.of([2**70, 1]).index_of(2**70) == 0
    assert Vocabulary.of([2**63, -1]).find(["-1", 2**63]).tolist() == [1, 0]


def test_mixed_ids_become_text() -> None:
    assert Vocabulary.of([1, "a"]).ids.tolist() == ["1", "a"]
    assert Vocabulary.of(objects("a", 1)).ids.tolist() == ["a", "1"]
    assert Vocabulary.of(objects(1, 2)).ids.dtype == np.int64


def test_a_nul_is_a_character_like_any_other() -> None:
    words = Vocabulary.of(["a", "a\0"])
    assert words.find(["a\0", "a"]).tolist() == [1, 0]
    assert Vocabulary.from_arrays(words.to_arrays("u"), "u").ids.tolist() == ["a", "a\0"]


def test_nothing_is_found_in_nothing() -> None:
    assert Vocabulary.of([]).find([1, 2]).tolist() == [-1, -1]
    assert Vocabulary.of([1]).find([]).tolist() == []
    assert Vocabulary.of(["a"]).find(np.array([])).tolist() == []
    assert Vocabulary.of([]).index_of("a") is None


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [
        ([1.5], r"'1.5' \(row 1\) is no id"),
        (["a", None], r"'None' \(row 2\)"),
        ([1, True], r"'True' \(row 2\)"),
        (objects("a", b"b"), r"\(row 2\)"),
        (np.array([1.0]), "float64"),
        (np.array([True]), "bool"),
        (np.array([[1]]), r"shape \(1, 1\)"),
        (np.array(3), r"shape \(\)"),
    ],
)
def test_what_is_no_id_is_refused(ids: Any, complaint: str) -> None:
    with pytest.raises(InvalidInputError, match=complaint):
        Vocabulary.of(ids)
    with pytest.raises(InvalidInputError, match=complaint):
        Vocabulary.of(["a"]).find(ids)


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [
        ([5, 6, 5], "'5' is there twice, at index 0 and 2"),
        (["b", "a", "a"], "'a' is there twice, at index 1 and 2"),
        (["7", 7], "'7' is there twice"),
        (["a", ""], "index 1 is empty"),
        (["a", "\ud800"], "no character"),
    ],
)
def test_a_vocabulary_has_every_id_once(ids: list[Any], complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        Vocabulary.of(ids)


def test_the_ids_cannot_be_changed_nor_those_given() -> None:
    given_ids = np.array([1, 2])
    words = Vocabulary.of(given_ids)
    given_ids[0] = 9
    assert words.ids.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        words.ids[0] = 9


@given(IDS)
def test_arrays_come_back_from_a_file_without_pickle(ids: list[Any]) -> None:
    words = Vocabulary.of(ids)
    file = io.BytesIO()
    np.savez(file, **words.to_arrays("users"))
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        again = Vocabulary.from_arrays(arrays, "users")
    assert again.ids.dtype == words.ids.dtype
    assert again.ids.tolist() == ids


def text_arrays(text: bytes, offsets: list[int]) -> dict[str, np.ndarray]:
    return {"u_text": np.frombuffer(text, dtype=np.uint8), "u_offsets": np.array(offsets, dtype=np.int64)}


MALFORMED: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "nothing": ({}, "'u_text' of the ids is missing"),
    "no offsets": ({"u_text": np.zeros(1, dtype=np.uint8)}, "'u_offsets' of the ids is missing"),
    "narrow ids": ({"u_ids": np.zeros(1, dtype=np.int32)}, "1-dimensional int32, not a row of int64"),
    "ids in a table": ({"u_ids": np.zeros((1, 1), dtype=np.int64)}, "2-dimensional"),
    "ids as objects": ({"u_ids": objects("a")}, "object, not a row of int64"),
    "ids twice": ({"u_ids": np.array([4, 4])}, "'4' is there twice"),
    "text of the wrong kind": (text_arrays(b"a", [0, 1]) | {"u_text": np.array(["a"])}, "not a row of uint8"),
    "offsets as floats": (text_arrays(b"a", []) | {"u_offsets": np.array([0.0, 1.0])}, "not a row of int64"),
    "no first offset": (text_arrays(b"", []), "do not rise from 0"),
    "late start": (text_arrays(b"ab", [1, 2]), "do not rise from 0"),
    "early end": (text_arrays(b"ab", [0, 1]), "to the 2 bytes"),
    "end beyond the text": (text_arrays(b"ab", [0, 1, 5]), "to the 2 bytes"),
    "falling offsets": (text_arrays(b"abc", [0, 2, 1, 3]), "do not rise"),
    "empty id": (text_arrays(b"ab", [0, 1, 1, 2]), "do not rise"),
    "no UTF-8": (text_arrays(b"\xff", [0, 1]), "not UTF-8"),
    "cut inside a character": (text_arrays("\u00e9".encode(), [0, 1, 2]), "not UTF-8"),
    "a surrogate": (text_arrays(b"\xed\xa0\x80", [0, 3]), "not UTF-8"),
    "text twice": (text_arrays(b"abab", [0, 2, 4]), "'ab' is there twice"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_arrays_are_refused(case: str) -> None:
    arrays, complaint = MALFORMED[case]
    with pytest.raises(ModelError, match=complaint):
        Vocabulary.from_arrays(arrays, "u")


def test_more_ids_than_an_index_can_count_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "MOST_IDS", 2)
    with pytest.raises(ModelError, match="3 ids, the limit is 2"):
        Vocabulary.from_arrays({"u_ids": np.array([1, 2, 3])}, "u")
