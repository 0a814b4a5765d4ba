"""Models on disk: a folder with `model.json`, `arrays.npz` and, in `items/`, the public item model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.channel_files import channel_arrays, channel_fields, read_channel
from tacit.learning.mixture import NoiseMixture
from tacit.learning.model_parts import Offsets, Provenance, structure
from tacit.learning.trace import FitTrace
from tacit.privacy import item_model
from tacit.privacy.array_folders import FolderKind, check_target, folder_written_atomically, read_parts, write_parts
from tacit.privacy.documents import Fields, is_number, scale_document, scale_of
from tacit.privacy.item_model import take
from tacit.privacy.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.model import Model

ITEMS = "items"
KIND = FolderKind("tacit-model/1", "model.json", "arrays.npz", ((ITEMS, item_model.KIND),))

_SERIES = ("objective", "likelihood", "change", "seconds")
_SERIES_OF_LISTS = ("weights", "variances")


def check_place(folder: str | Path) -> None:
    """Refuse a place where a model cannot be written; better before a long fit than after it."""
    check_target(Path(folder), KIND)


def write_model(model: Model, folder: Path, least_reports: int = 1) -> None:
    """Write a model's folder, complete or not at all; items with fewer reports are not made public."""
    with folder_written_atomically(folder, KIND) as temporary:
        fields = _fields_of(model) | {"least_reports": least_reports}
        write_parts(temporary, KIND, fields, _arrays_of(model))
        model.item_model(least_reports=least_reports).write_into(temporary / ITEMS)


def read_model(folder: Path) -> dict[str, Any]:
    """Read the parts of a model; whether they fit together, the model itself will check."""
    fields, arrays = read_parts(folder, KIND)

    def array(name: str) -> NDArray[Any]:
        return take(arrays, name, folder)

    return {
        "name": fields.text("name"),
        "options": fields.group("options").values,
        "scale": scale_of(fields),
        "users": Vocabulary.from_arrays(arrays, "user_names"),
        "items": Vocabulary.from_arrays(arrays, "item_names"),
        "user_factors": array("user_factors"),
        "item_factors": array("item_factors"),
        "offsets": Offsets(fields.number("mean"), array("user_offsets"), array("item_offsets")),
        "fallback": Offsets(fields.number("fallback_mean"), array("fallback_users"), array("fallback_items")),
        "noise": _noise_of(fields.group("noise")),
        "factor_ridge": fields.number("factor_ridge"),
        "offset_ridge": None if fields.is_null("offset_ridge") else fields.number("offset_ridge"),
        "rated": structure(array("rated_starts"), array("rated_columns")),
        "trace": _trace_of(fields.group("trace")),
        "provenance": _provenance_of(fields),
        "channel": read_channel(fields, arrays, folder),
    }


def _arrays_of(model: Model) -> dict[str, NDArray[Any]]:
    return {
        "user_factors": model.user_factors,
        "item_factors": model.item_factors,
        "user_offsets": model.offsets.users,
        "item_offsets": model.offsets.items,
        "fallback_users": model.fallback.users,
        "fallback_items": model.fallback.items,
        "rated_starts": model.rated.starts,
        "rated_columns": model.rated.columns,
        **channel_arrays(model.channel),
        **model.users.to_arrays("user_names"),
        **model.items.to_arrays("item_names"),
    }


def _fields_of(model: Model) -> dict[str, Any]:
    made = model.provenance
    return {
        "name": model.name,
        "options": model.options,
        "scale": scale_document(model.scale),
        "rank": model.rank,
        "users": len(model.users),
        "items": len(model.items),
        "reports": model.reports,
        "mean": float(model.offsets.mean),
        "fallback_mean": float(model.fallback.mean),
        "noise": {"weights": model.noise.weights.tolist(), "variances": model.noise.variances.tolist()},
        "factor_ridge": float(model.factor_ridge),
        "offset_ridge": None if model.offset_ridge is None else float(model.offset_ridge),
        "policies": list(made.policies),
        "data_checksum": made.data_checksum,
        "seed": made.seed,
        "versions": made.versions,
        "trace": _finite(model.trace.to_document()),
        "channel": channel_fields(model.channel),
    }


def _finite(value: Any) -> Any:  # noqa: ANN401 - any part of a document
    """Replace numbers that JSON does not have by null: a trace may end in one, and the model is still to be kept."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _provenance_of(fields: Fields) -> Provenance:
    versions = fields.group("versions")
    return Provenance(
        tuple(fields.texts("policies")),
        fields.text("data_checksum"),
        None if fields.is_null("seed") else fields.count("seed"),
        {name: versions.text(name) for name in versions.values},
    )


def _noise_of(fields: Fields) -> NoiseMixture:
    return NoiseMixture(np.array(fields.numbers("weights"), float), np.array(fields.numbers("variances"), float))


def _trace_of(fields: Fields) -> FitTrace:
    for name in (*_SERIES, *_SERIES_OF_LISTS):
        found = fields.values.get(name)
        good = _is_series(found) if name in _SERIES else isinstance(found, list) and all(map(_is_series, found))
        if not good:
            raise fields.refuse(name, "a list of numbers")
    series = {name: [math.nan if entry is None else entry for entry in fields.values[name]] for name in _SERIES}
    series["likelihood"] = fields.values["likelihood"]  # here nothing is said where there is no noise model
    text = {"stopped": fields.text("stopped"), "notes": fields.texts("notes")}
    try:
        return FitTrace.from_document(fields.values | series | text)
    except ValueError as error:
        raise fields.refuse("objective", "as long as the other series") from error


def _is_series(value: object) -> bool:
    return isinstance(value, list) and all(entry is None or is_number(entry) for entry in value)
