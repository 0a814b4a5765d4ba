"""The item model on the wire: its document and its arrays in one run of bytes, the same on every machine.

    bytes     content
    4         "tim" and the version, 1
    4         the header's length, unsigned, little endian
    header    JSON in UTF-8, filled up with spaces to a multiple of 8
    arrays    one after the other, little endian, in C order, each filled up with zeros to a multiple of 8

The header is the document that `item_files` writes, with a list of the arrays' names, types and shapes.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ModelError
from tacit.privacy.canonical import read_json
from tacit.privacy.documents import Fields
from tacit.privacy.item_files import KIND, from_parts, to_parts
from tacit.privacy.item_model import ItemModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

MEDIA_TYPE = "application/vnd.tacit.items"
LARGEST_ITEMS = 64 * 2**20
LARGEST_HEADER = 2**16  # bytes; a real one has less than 3000

_MAGIC = b"tim\x01"
_START = 8
_ALIGNED = 8
_LABEL = "the item model"
_TYPES = {name: np.dtype(name).newbyteorder("<") for name in ("int8", "int16", "int64", "float32", "uint8")}
_MOST_DIMENSIONS = 2
_MOST_BRACKETS = 100  # a real header opens less than 60; how deep it is nested, and its memory, are bounded by it
_SHOWN = 40


def encode_items(model: ItemModel) -> bytes:
    """Write an item model in the one form that devices fetch; its numbers are rounded as on disk.

    >>> from tacit.privacy.scale import RatingScale
    >>> from tacit.privacy.vocabulary import Vocabulary
    >>> zeros = np.zeros((2, 1), dtype=np.float32)
    >>> films = ItemModel(RatingScale.parse("1:5:1"), Vocabulary.of(["Harbour", "Rain"]), 3.0, zeros[:, 0], zeros)
    >>> decode_items(encode_items(films)).items.ids.tolist()
    ['Harbour', 'Rain']
    """
    fields, arrays = to_parts(model)
    listed = [{"name": name, "type": str(array.dtype), "shape": array.shape} for name, array in arrays.items()]
    document = {"format": KIND.format, **fields, "arrays": listed}
    header = _filled(json.dumps(document, separators=(",", ":"), allow_nan=False).encode(), b" ")
    parts = [_filled(array.astype(_TYPES[str(array.dtype)], copy=False).tobytes(), b"\0") for array in arrays.values()]
    content = b"".join([_MAGIC, len(header).to_bytes(4, "little"), header, *parts])
    _check_size(content)
    return content


def decode_items(content: bytes) -> ItemModel:
    """Read an item model that may have come from anywhere; what does not add up exactly is refused in one line."""
    _check_size(content)
    document, start = _header_of(content)
    arrays = _arrays_of(document, content, start)
    model = ItemModel(*from_parts(Fields(_LABEL, document), arrays))
    _refuse_others(document, arrays, *to_parts(model))
    return model


def _filled(part: bytes, filler: bytes) -> bytes:
    return part + filler * (-len(part) % _ALIGNED)


def _check_size(content: bytes) -> None:
    if len(content) > LARGEST_ITEMS:
        msg = f"an item model of {len(content)} bytes is over the limit of {LARGEST_ITEMS}; leave rare items out"
        raise ModelError(msg)


def _header_of(content: bytes) -> tuple[dict[str, Any], int]:
    """Return the document, and where the arrays start."""
    length, start = int.from_bytes(content[len(_MAGIC) : _START], "little"), _START
    if content[: len(_MAGIC)] != _MAGIC or len(content) < start:
        raise ModelError(f"{_LABEL} does not begin as version 1 of the layout does; fetch it again, or update tacit")
    if length % _ALIGNED or length > min(LARGEST_HEADER, len(content) - start):
        msg = f"a header of {length} bytes is no multiple of 8 up to {LARGEST_HEADER} that is there"
        raise ModelError(f"{_LABEL}: {msg}; fetch it again")
    header = content[start : start + length]
    if header.count(b"[") + header.count(b"{") > _MOST_BRACKETS:
        raise ModelError(f"the header of {_LABEL} opens more than {_MOST_BRACKETS} brackets; fetch it again")
    try:
        document = read_json(header)
    except ValueError as error:
        raise ModelError(f"the header of {_LABEL} cannot be read ({error}); fetch it again") from error
    if not isinstance(document, dict) or document.get("format") != KIND.format:
        raise ModelError(f"{_LABEL} is not of the format {KIND.format}; fetch another, or update tacit")
    return document, start + length


def _arrays_of(document: dict[str, Any], content: bytes, start: int) -> Arrays:
    """Read the arrays one behind the other: they cannot overlap, and nothing is left over."""
    listed = document.get("arrays")
    if not isinstance(listed, list):
        raise ModelError(f"{_LABEL} lists no arrays; fetch it again")
    arrays: Arrays = {}
    for entry in listed:
        name, kind, shape = _described(entry, most=len(content))
        stop = start + kind.itemsize * math.prod(shape)
        end = stop + -stop % _ALIGNED
        if name in arrays or end > len(content) or any(content[stop:end]):
            raise ModelError(f"{_LABEL}: array {name!r} is there twice, cut off, or not filled up with zeros")
        # A copy, so that it is aligned and in this machine's own order of bytes.
        arrays[name] = np.frombuffer(content[start:stop], kind).astype(kind.newbyteorder("=")).reshape(shape)
        start = end
    if start != len(content):
        raise ModelError(f"{_LABEL} has {len(content) - start} bytes after its arrays; fetch it again")
    return arrays


def _described(entry: object, *, most: int) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    """Return the name, type and shape of a listed array; no side of it is longer than the whole content."""
    if not isinstance(entry, dict) or set(entry) != {"name", "type", "shape"}:
        raise ModelError(f"{_LABEL} lists something that is not a name, a type and a shape; fetch it again")
    name, kind, shape = entry["name"], entry["type"], entry["shape"]
    if not isinstance(name, str) or not isinstance(kind, str) or kind not in _TYPES:
        msg = f"array {str(name)[:_SHOWN]!a} of the type {str(kind)[:_SHOWN]!a} is none"
        raise ModelError(f"{_LABEL}: {msg}; types are {', '.join(_TYPES)}")
    sides = isinstance(shape, list) and all(type(side) is int and 0 <= side <= most for side in shape)
    if not sides or len(shape) > _MOST_DIMENSIONS:
        raise ModelError(f"{_LABEL}: array {name[:_SHOWN]!a} has no shape that fits the content; fetch it again")
    return name[:_SHOWN], _TYPES[kind], tuple(shape)


def _refuse_others(document: dict[str, Any], arrays: Arrays, fields: dict[str, Any], known: Arrays) -> None:
    """Refuse fields and arrays that a model like this one is not written with."""
    expected = {"format": "", **fields, "arrays": []}
    if _outline(document) != _outline(expected) or set(arrays) != set(known):
        raise ModelError(f"{_LABEL} has fields or arrays that do not belong to it; fetch it again, or update tacit")


def _outline(document: dict[str, Any]) -> dict[str, list[str]]:
    return {name: sorted(part) if isinstance(part, dict) else [] for name, part in document.items()}
