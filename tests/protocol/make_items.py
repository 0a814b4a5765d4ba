"""Writes items.json and refused-items.json in protocol/vectors: run `python tests/protocol/make_items.py`.

The bytes are put together here with `struct`, independently of the package.
"""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parents[2] / "protocol" / "vectors"
CODES = {"int8": "b", "int16": "h", "int64": "q", "float32": "f", "uint8": "B"}

Array = tuple[str, str, list[int], list[Any]]

PLAIN: list[Array] = [
    ("item_names_ids", "int64", [3], [7, -2, 2**63 - 1]),
    ("offsets", "int16", [3], [32767, 0, -16384]),
    ("offsets_scales", "float32", [], [2.0**-15]),
    ("factors", "int8", [1, 3], [127, -127, 1]),
    ("factors_scales", "float32", [3], [0.5, 0.25, 2.0]),
]
FULL: list[Array] = [
    ("item_names_text", "uint8", [11], list("RainAmélie".encode())),
    ("item_names_offsets", "int64", [3], [0, 4, 11]),
    ("offsets", "int16", [2], [-3, 32767]),
    ("offsets_scales", "float32", [], [0.125]),
    ("factors", "int8", [2, 2], [1, 2, 3, 4]),
    ("factors_scales", "float32", [2], [0.5, 0.25]),
    ("offset_variances", "int16", [2], [1, 32767]),
    ("offset_variances_scales", "float32", [], [2.0**-10]),
    ("factor_variances", "int8", [2, 2], [1, 0, 127, 5]),
    ("factor_variances_scales", "float32", [2], [0.5, 0.0625]),
    ("person_factor_variances", "float32", [2], [0.75, 1.5]),
    ("traits", "int8", [2, 3], [1, -2, 3, -4, 5, -128]),
    ("traits_scales", "float32", [3], [1.0, 0.5, 0.25]),
    ("responses", "int8", [2, 1], [100, -100]),
    ("responses_scales", "float32", [1], [0.0078125]),
    ("shares", "int16", [2], [32767, 1]),
    ("shares_scales", "float32", [], [2.0**-15]),
    ("person_trait_variances", "float32", [3], [0.5, 0.25, 0.125]),
    ("place_scale", "float32", [1], [-0.5]),
]


def document(arrays: list[Array], **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "format": "tacit-items/2",
        "scale": {"low": "1", "high": "5", "step": "0.5"},
        "mean": 3.25,
        "rank": 1,
        "encoding": "int8",
        "beliefs": None,
        "pattern": None,
        "arrays": [{"name": name, "type": kind, "shape": shape} for name, kind, shape, _ in arrays],
    }
    return made | changes


def full(**changes: Any) -> dict[str, Any]:
    beliefs = {"residual_variance": 0.875, "offset_variance": 0.25}
    return document(FULL, rank=2, beliefs=beliefs, pattern={"traits": 3, "responses": 1}) | changes


def wire(header: dict[str, Any] | bytes, arrays: list[Array]) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    parts = [struct.pack(f"<{len(numbers)}{CODES[kind]}", *numbers) for _, kind, _, numbers in arrays]
    text += b" " * (-len(text) % 8)
    return b"tim\x01" + struct.pack("<I", len(text)) + text + b"".join(part + bytes(-len(part) % 8) for part in parts)


def changed(arrays: list[Array], name: str, **parts: Any) -> list[Array]:
    """Return arrays with the type, shape or numbers of one changed."""

    def other(array: Array) -> Array:
        _, kind, shape, numbers = array
        return name, parts.get("type", kind), parts.get("shape", shape), parts.get("numbers", numbers)

    return [other(array) if array[0] == name else array for array in arrays]


def without_items(name: str, kind: str, shape: list[int], numbers: list[Any]) -> Array:
    return name, kind, [*shape[:-1], *[0] * bool(shape)], [] if shape else numbers


def whole(arrays: list[Array]) -> bytes:
    return wire(document(arrays), arrays)


def accepted() -> list[dict[str, Any]]:
    """Small models with every number that they stand for, exact in single precision."""
    plain = {
        "items": ["7", "-2", str(2**63 - 1)],
        "mean": 3.25,
        "offsets": [32767 / 2**15, 0.0, -0.5],
        "factors": [[63.5], [-31.75], [2.0]],
    }
    rich = {
        "items": ["Rain", "Amélie"],
        "mean": 3.25,
        "offsets": [-0.375, 4095.875],
        "factors": [[0.5, 1.5], [0.5, 1.0]],
        "item_offset_variances": [2.0**-10, 32767 / 2**10],
        "item_factor_variances": [[0.5, 0.0], [63.5, 0.3125]],
        "factor_variances": [0.75, 1.5],
        "traits": [[1.0, -1.0, 0.75], [-4.0, 2.5, -32.0]],
        "responses": [[0.78125], [-0.78125]],
        "shares": [32767 / 2**15, 2.0**-15],
        "trait_variances": [0.5, 0.25, 0.125],
        "place_scale": [-0.5],
    }
    cases = [("the least there can be", whole(PLAIN), plain), ("beliefs and a pattern", wire(full(), FULL), rich)]
    return [{"name": name, "wire": base64.b64encode(content).decode(), **said} for name, content, said in cases]


def refused() -> list[dict[str, str]]:
    """Bytes that no device may use, each with what is wrong."""
    good = whole(PLAIN)
    text = json.dumps(document(PLAIN)).encode()
    cases = {
        "empty": b"",
        "cut off": good[:-8],
        "a byte too few": good[:-1],
        "eight bytes too many": good + bytes(8),
        "another version": b"tim\x02" + good[4:],
        "a header longer than everything": good[:4] + b"\xff\xff\xff\xff" + good[8:],
        "a header that is no multiple of 8": good[:4] + struct.pack("<I", len(text) | 1) + good[8:],
        "padding that is not zero": good.replace(struct.pack("<bbb", 127, -127, 1) + b"\0", b"\x7f\x81\x01\x01"),
        "a header that is not UTF-8": wire(text.replace(b"int8", b"int\xff"), PLAIN),
        "a header that is no object": wire(b"[]", PLAIN),
        "a field named twice": wire(text.replace(b'"rank": 1', b'"rank": 1, "rank": 1'), PLAIN),
        "nested too deeply": wire(b'{"format":' + b"[" * 5000 + b"]" * 5000 + b"}", PLAIN),
        "another format": wire(document(PLAIN, format="tacit-items/3"), PLAIN),
        "an unknown encoding": wire(document(PLAIN, encoding="int4"), PLAIN),
        "a field too many": wire(document(PLAIN, note="hello"), PLAIN),
        "an array too many": whole([*PLAIN, ("place_scale", "float32", [1], [1.0])]),
        "an array too few": whole(PLAIN[:-1]),
        "an array twice": whole([*PLAIN, PLAIN[-1]]),
        "an unknown type": wire(text.replace(b"int16", b"int32"), PLAIN),
        "a type that is not expected": whole(changed(PLAIN, "offsets", type="uint8", numbers=[1, 2, 3])),
        "a negative side": wire(text.replace(b'"shape": [3]', b'"shape": [-3]'), PLAIN),
        "a side that is no number": wire(text.replace(b'"shape": [3]', b'"shape": [true]'), PLAIN),
        "a huge side": wire(text.replace(b'"shape": [1, 3]', b'"shape": [0, 9223372036854775807]'), PLAIN),
        "three sides": wire(text.replace(b'"shape": [1, 3]', b'"shape": [1, 1, 3]'), PLAIN),
        "a rank that is not that of the factors": wire(document(PLAIN, rank=2), PLAIN),
        "a number that is none": wire(text.replace(b"3.25", b"NaN"), PLAIN),
        "a mean that no float can hold": wire(text.replace(b"3.25", b"1e999"), PLAIN),
        "a scale that is not finite": whole(changed(PLAIN, "factors_scales", numbers=[0.5, float("nan"), 2.0])),
        "the same item twice": whole(changed(PLAIN, "item_names_ids", numbers=[7, 7, 1])),
        "no items": whole([without_items(*array) for array in PLAIN]),
        "a rating scale of no width": wire(document(PLAIN, scale={"low": "1", "high": "1", "step": "1"}), PLAIN),
        "text that is not UTF-8": wire(full(), changed(FULL, "item_names_text", numbers=[255] * 11)),
        "text offsets that fall": wire(full(), changed(FULL, "item_names_offsets", numbers=[0, 12, 11])),
        "a variance of zero": wire(full(), changed(FULL, "person_factor_variances", numbers=[0.75, 0.0])),
        "a share of zero": wire(full(), changed(FULL, "shares", numbers=[32767, 0])),
        "a pattern without beliefs": wire(full(beliefs=None), FULL),
    }
    return [{"why": why, "wire": base64.b64encode(content).decode()} for why, content in cases.items()]


def write(name: str, content: object) -> None:
    (VECTORS / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write("items.json", accepted())
    write("refused-items.json", refused())
