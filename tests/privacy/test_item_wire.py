from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacit.errors import ModelError
from tacit.privacy.item_model import Beliefs, ItemModel, ItemPattern
from tacit.privacy.item_wire import LARGEST_HEADER, LARGEST_ITEMS, decode_items, encode_items
from tacit.privacy.scale import RatingScale
from tacit.privacy.vocabulary import Vocabulary

SCALES = [RatingScale.parse(text) for text in ("1:5:1", "-10:10:0.25", "0.5:5:0.5")]
IDS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6, unique=True),
    st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), min_size=1, max_size=6, unique=True),
)


@st.composite
def item_models(draw: st.DrawFn) -> ItemModel:
    ids, rank, places = draw(IDS), draw(st.integers(0, 3)), draw(st.integers(0, 2))
    traits, kind = places + draw(st.integers(2, 4)), draw(st.sampled_from(["plain", "beliefs", "pattern"]))
    rng, size = np.random.default_rng(draw(st.integers(0, 99))), 10.0 ** draw(st.integers(-20, 14))

    def noise(*shape: int) -> Any:
        return np.clip(size * rng.normal(size=shape), -1e15, 1e15).astype(np.float32)

    def positive(*shape: int) -> Any:
        return np.clip(np.abs(noise(*shape)), 1e-25, 1e15).astype(np.float32)

    count = len(ids)
    beliefs = Beliefs(0.5, 0.1, positive(rank), positive(count), positive(count, rank))
    pattern = ItemPattern(noise(count, traits), positive(traits), noise(count, places), positive(count), noise(places))
    return ItemModel(
        draw(st.sampled_from(SCALES)),
        Vocabulary.of(ids),
        draw(st.floats(-1e15, 1e15)),
        noise(count),
        noise(count, rank),
        None if kind == "plain" else beliefs,
        pattern if kind == "pattern" else None,
    )


def arrays_of(model: ItemModel) -> dict[str, Any]:
    parts = [part for part in (model, model.beliefs, model.pattern) if part is not None]
    return {name: value for part in parts for name, value in vars(part).items() if isinstance(value, np.ndarray)}


def sample(items: int = 4) -> ItemModel:
    rng = np.random.default_rng(1)

    def noise(*shape: int) -> Any:
        return np.abs(rng.normal(size=shape)).astype(np.float32)

    beliefs = Beliefs(0.5, 0.1, noise(2), noise(items), noise(items, 2))
    pattern = ItemPattern(noise(items, 5), noise(5), noise(items, 2), noise(items), noise(2))
    words = Vocabulary.of([f"film {number}" for number in range(items)])
    return ItemModel(SCALES[0], words, 3.0, noise(items), noise(items, 2), beliefs, pattern)


WIRE = encode_items(sample())


def with_header(header: bytes, wire: bytes = WIRE) -> bytes:
    rest = wire[8 + int.from_bytes(wire[4:8], "little") :]
    header += b" " * (-len(header) % 8)
    return wire[:4] + len(header).to_bytes(4, "little") + header + rest


def header_of(wire: bytes) -> Any:
    return json.loads(wire[8 : 8 + int.from_bytes(wire[4:8], "little")])


def assert_refused(content: bytes) -> str:
    with pytest.raises(ModelError) as caught:
        decode_items(content)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def tried(content: bytes) -> None:
    """Read something, which may be a model still."""
    with suppress(ModelError):
        decode_items(content)


@given(item_models())
def test_a_model_comes_back_as_published(model: ItemModel) -> None:
    wire, published = encode_items(model), model.as_published()
    again = decode_items(wire)
    assert (again.scale, again.mean, again.items.ids.tolist()) == (model.scale, model.mean, model.items.ids.tolist())
    assert (again.beliefs is None, again.pattern is None) == (model.beliefs is None, model.pattern is None)
    if again.beliefs is not None and model.beliefs is not None:
        assert again.beliefs.residual_variance == model.beliefs.residual_variance
        assert again.beliefs.offset_variance == model.beliefs.offset_variance
    found, expected = arrays_of(again), arrays_of(published)
    assert set(found) == set(expected)
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name], strict=True)
        assert not array.flags.writeable
    assert encode_items(again) == wire
    assert len(wire) % 8 == 0


@given(item_models(), st.data())
def test_what_was_cut_off_is_refused(model: ItemModel, data: st.DataObject) -> None:
    wire = encode_items(model)
    assert_refused(wire[: data.draw(st.integers(0, len(wire) - 1))])


@given(st.binary(min_size=1, max_size=40))
def test_trailing_bytes_are_refused(extra: bytes) -> None:
    assert_refused(WIRE + extra)


@settings(max_examples=400)
@given(st.lists(st.tuples(st.integers(0, len(WIRE) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_changed_bytes_never_do_worse_than_be_refused(changes: list[tuple[int, int]]) -> None:
    content = bytearray(WIRE)
    for place, byte in changes:
        content[place] = byte
    tried(bytes(content))


@given(st.integers(0, len(WIRE)), st.integers(0, len(WIRE)), st.binary(max_size=30))
def test_replaced_parts_never_do_worse_than_be_refused(one: int, other: int, new: bytes) -> None:
    tried(WIRE[: min(one, other)] + new + WIRE[max(one, other) :])


@given(st.binary(max_size=300))
def test_arbitrary_bytes_and_headers_are_refused(content: bytes) -> None:
    assert_refused(content)
    assert_refused(b"tim\x01" + content)
    assert_refused(with_header(content))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200)
@given(st.sampled_from(sorted(header_of(WIRE))), JSON)
@example(name="mean", value=10**400)
@example(name="rank", value=True)
@example("encoding", "\ud800")
@example("arrays", [{"name": ["x"], "type": {}, "shape": 1}])
def test_other_fields_never_do_worse_than_be_refused(name: str, value: Any) -> None:
    tried(with_header(json.dumps(header_of(WIRE) | {name: value}).encode()))


@settings(max_examples=200)
@given(st.integers(0, 20), st.sampled_from(["name", "type", "shape"]), JSON | st.lists(st.integers(0, 2**70)))
@example(0, "shape", [0, 2**63 - 1])
@example(0, "shape", [2**63, 0])
@example(0, "shape", [True])
@example(0, "type", "object")
@example(0, "type", "float64")
@example(0, "name", "traits")
def test_other_arrays_never_do_worse_than_be_refused(place: int, part: str, value: Any) -> None:
    header = header_of(WIRE)
    entry = header["arrays"][place % len(header["arrays"])]
    if entry[part] != value:
        entry[part] = value
        assert_refused(with_header(json.dumps(header).encode()))


@pytest.mark.parametrize("depth", [50, 99, 900, 985, 990, 992, 994, 1000, 30_000])
@pytest.mark.parametrize("name", ["format", "encoding", "scale", "mean", "beliefs", "arrays"])
def test_nested_headers_are_refused(depth: int, name: str) -> None:
    header = json.dumps(header_of(WIRE) | {name: "HERE"}).replace('"HERE"', "[" * depth + "]" * depth)
    assert_refused(with_header(header.encode()))


@pytest.mark.parametrize("extra", ['"mean": 3.0', '"note": 1'])
def test_repeated_and_unknown_fields_are_refused(extra: str) -> None:
    assert_refused(with_header(json.dumps(header_of(WIRE)).replace("{", "{" + extra + ",", 1).encode()))
    scale = header_of(WIRE)["scale"] | {"note": "1"}
    assert "do not belong" in assert_refused(with_header(json.dumps(header_of(WIRE) | {"scale": scale}).encode()))


def test_a_header_is_read_with_spaces_and_in_any_order() -> None:
    document = dict(reversed(header_of(WIRE).items()))
    again = decode_items(with_header(json.dumps(document, indent=1).encode()))
    assert encode_items(again) == WIRE


def test_a_header_has_a_limit() -> None:
    text = json.dumps(header_of(WIRE)).encode()
    decode_items(with_header(text + b" " * (LARGEST_HEADER - len(text))))
    assert str(LARGEST_HEADER) in assert_refused(with_header(text + b" " * (LARGEST_HEADER - len(text) + 1)))


def test_a_model_has_a_limit() -> None:
    assert str(LARGEST_ITEMS) in assert_refused(WIRE + bytes(LARGEST_ITEMS))
    rank = 512
    count = LARGEST_ITEMS // rank
    zeros = np.zeros((count, rank), dtype=np.float32)
    large = ItemModel(SCALES[0], Vocabulary.of(range(count)), 3.0, zeros[:, 0], zeros)
    with pytest.raises(ModelError, match=str(LARGEST_ITEMS)):
        encode_items(large)


def test_numbers_that_are_none_are_refused() -> None:
    header = header_of(WIRE)
    start = len(WIRE) - sum(_padded(entry) for entry in header["arrays"])
    starts = [start]
    for entry in header["arrays"]:
        starts.append(starts[-1] + _padded(entry))
    assert starts[-1] == len(WIRE)
    floats = [
        (first, last)
        for entry, (first, last) in zip(header["arrays"], pairwise(starts), strict=True)
        if entry["type"] == "float32"
    ]
    assert len(floats) == 10
    for first, _last in floats:
        for number in (np.nan, np.inf, -np.inf, 3e38):
            assert_refused(WIRE[:first] + np.float32(number).tobytes() + WIRE[first + 4 :])


def _padded(entry: Any) -> int:
    size = int(np.dtype(entry["type"]).itemsize * np.prod(entry["shape"], dtype=int))
    return size + -size % 8


def test_memory_is_bounded_by_what_came() -> None:
    wire = encode_items(sample(20_000))
    header = header_of(wire)
    header["arrays"][0]["shape"] = [2**40]
    claims = with_header(json.dumps(header).encode(), wire)
    tracemalloc.start()
    try:
        assert_refused(claims)
        refusing = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        decode_items(wire)
        reading = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refusing < len(wire)
    assert reading < 20 * len(wire)
