"""What may be asked of a training run: a model that is known, with options that it has."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from tacit.errors import ModelError
from tacit.learning import MODELS, Options

if TYPE_CHECKING:
    from tacit.provider.store.runs import RunRequest

_SHOWN = 40
_SORTS: dict[type, Any] = {bool: bool, int: int | float, float: int | float, str: str}


def checked_options(request: RunRequest) -> Options:
    """Return the options of the model that is asked for, or refuse what it does not have."""
    _check_seed(request.seed)
    if request.model not in MODELS:
        raise ModelError(f"there is no model {request.model[:_SHOWN]!r}; choose one of {', '.join(MODELS)}")
    kind = MODELS[request.model]
    defaults = {field.name: field.default for field in fields(kind)}
    for name, value in request.options.items():
        if name not in defaults:
            offered = ", ".join(f"{known} {default!r}" for known, default in defaults.items()) or "none"
            raise ModelError(f"{kind.model} has no option {name[:_SHOWN]!r}; its options and defaults are {offered}")
        _check_sort(kind.model, name, value, defaults[name])
    return kind(**request.options)


def _check_sort(model: str, name: str, value: object, default: object) -> None:
    """Refuse a value of another sort than the default: JSON tells numbers, texts and truth values apart."""
    is_sort = isinstance(value, _SORTS[type(default)]) and isinstance(value, bool) == isinstance(default, bool)
    if not is_sort or len(repr(value)) > _SHOWN:
        raise ModelError(f"{model}: {name} is {repr(value)[:_SHOWN]}; give something like {default!r}")


def _check_seed(seed: object) -> None:
    if seed is not None and (type(seed) is not int or not 0 <= seed < 2**63):
        raise ModelError(f"seed is {repr(seed)[:_SHOWN]}; give a whole number from 0 to 2**63 - 1, or none")
