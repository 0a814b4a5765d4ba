"""An item model's parts as one document and arrays in few bits, and back; what comes from anywhere is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tacit.errors import ModelError
from tacit.privacy.array_checks import take
from tacit.privacy.array_folders import FolderKind
from tacit.privacy.documents import Fields, scale_document, scale_of
from tacit.privacy.item_beliefs import Beliefs, ItemPattern
from tacit.privacy.quantised import decode, encode
from tacit.privacy.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.privacy.item_model import ItemModel
    from tacit.privacy.scale import RatingScale

    Floats = NDArray[np.float32]
    Arrays: TypeAlias = dict[str, NDArray[Any]]
    Parts = tuple[RatingScale, Vocabulary, float, Floats, Floats, Beliefs | None, ItemPattern | None]

KIND = FolderKind("tacit-items/2", "items.json", "items.npz", compressed=True)

# How numbers are stored: a matrix in int8 with a scale for each column, what is one number an item in int16. Factors
# are stored turned, with a scale for each item: without a ridge, those of an item with one report can be huge, and in
# one scale with them all others would be zero.
_ENCODING = "int8"

_SCALES = "{}_scales"


def to_parts(model: ItemModel) -> tuple[dict[str, Any], Arrays]:
    """Return the document and the arrays of an item model."""
    beliefs, pattern = model.beliefs, model.pattern
    fields = {
        "scale": scale_document(model.scale),
        "mean": float(model.mean),
        "rank": model.rank,
        "encoding": _ENCODING,
        "beliefs": None if beliefs is None else _beliefs_document(beliefs),
        "pattern": None if pattern is None else _pattern_document(pattern),
    }
    arrays = model.items.to_arrays("item_names") | _coded(offsets=model.offsets, factors=_turned(model.factors))
    return fields, arrays | _beliefs_arrays(beliefs) | _pattern_arrays(pattern)


def from_parts(fields: Fields, arrays: Arrays) -> Parts:
    """Return what an item model is made of; whether the parts fit together, the model itself will check."""
    if fields.text("encoding") != _ENCODING:
        raise ModelError(f"{fields.label}: encoding {fields.text('encoding')[:40]!r} is not known; update tacit")
    stored = _Stored(fields.label, arrays)
    items = Vocabulary.from_arrays(arrays, "item_names")
    offsets, factors = stored.vector("offsets"), _turned(stored.matrix("factors"))
    _check_columns(fields, "rank", factors)
    beliefs = None if fields.is_null("beliefs") else _beliefs_of(fields.group("beliefs"), stored)
    pattern = None if fields.is_null("pattern") else _pattern_of(fields.group("pattern"), stored)
    return scale_of(fields), items, fields.number("mean"), offsets, factors, beliefs, pattern


def _turned(factors: Floats) -> Floats:
    return np.ascontiguousarray(factors.T)


class _Stored:
    """Arrays as they were stored, read one by one."""

    def __init__(self, label: str, arrays: Arrays) -> None:
        self._label, self._arrays = label, arrays

    def matrix(self, name: str) -> Floats:
        return self._decoded(name, dimensions=2)

    def vector(self, name: str) -> Floats:
        return self._decoded(name, dimensions=1)

    def small(self, name: str) -> Floats:
        found = take(self._arrays, name, self._label)
        if found.ndim != 1:
            raise ModelError(f"{self._label}: {name} is {found.ndim}-dimensional, not a row; the model is damaged")
        return found

    def _decoded(self, name: str, *, dimensions: int) -> Floats:
        codes, scales = (take(self._arrays, part, self._label) for part in (name, _SCALES.format(name)))
        return decode(f"item {name.replace('_', ' ')}", codes, scales, dimensions=dimensions)


def _coded(*, keep_positive: bool = False, **values: Floats) -> Arrays:
    arrays: Arrays = {}
    for name, numbers in values.items():
        arrays[name], arrays[_SCALES.format(name)] = encode(numbers, keep_positive=keep_positive)
    return arrays


def _beliefs_document(beliefs: Beliefs) -> dict[str, float]:
    return {
        "residual_variance": float(beliefs.residual_variance),
        "offset_variance": float(beliefs.offset_variance),
    }


def _beliefs_arrays(beliefs: Beliefs | None) -> Arrays:
    if beliefs is None:
        return {}
    coded = _coded(
        keep_positive=True,
        offset_variances=beliefs.item_offset_variances,
        factor_variances=beliefs.item_factor_variances,
    )
    return coded | {"person_factor_variances": beliefs.factor_variances}


def _beliefs_of(fields: Fields, stored: _Stored) -> Beliefs:
    return Beliefs(
        fields.number("residual_variance"),
        fields.number("offset_variance"),
        stored.small("person_factor_variances"),
        stored.vector("offset_variances"),
        stored.matrix("factor_variances"),
    )


def _pattern_document(pattern: ItemPattern) -> dict[str, int]:
    return {"traits": pattern.traits.shape[1], "responses": pattern.responses.shape[1]}


def _pattern_arrays(pattern: ItemPattern | None) -> Arrays:
    if pattern is None:
        return {}
    coded = _coded(traits=pattern.traits, responses=pattern.responses)
    coded |= _coded(keep_positive=True, shares=pattern.shares)
    return coded | {"person_trait_variances": pattern.trait_variances, "place_scale": pattern.place_scale}


def _pattern_of(fields: Fields, stored: _Stored) -> ItemPattern:
    traits, responses = stored.matrix("traits"), stored.matrix("responses")
    _check_columns(fields, "traits", traits)
    _check_columns(fields, "responses", responses)
    variances, place_scale = stored.small("person_trait_variances"), stored.small("place_scale")
    return ItemPattern(traits, variances, responses, stored.vector("shares"), place_scale)


def _check_columns(fields: Fields, name: str, array: Floats) -> None:
    if fields.count(name) != array.shape[1]:
        raise fields.refuse(name, f"the {array.shape[1]} columns of the array")
