"""Options of models on the command line: `NAME=VALUE`, read by the type that the model's options give the name."""

from __future__ import annotations

from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_type_hints

from tacit.errors import ModelError
from tacit.learning import MODELS, Options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SHOWN = 40
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def settings_of(lines: Sequence[str]) -> dict[str, str]:
    """Cut `NAME=VALUE` apart."""
    settings: dict[str, str] = {}
    for line in lines:
        name, found, value = line.partition("=")
        if not found or not name:
            raise ModelError(f"option {line[:_SHOWN]!r} is not NAME=VALUE; write, say, iterations=50")
        if name in settings:
            raise ModelError(f"option {name[:_SHOWN]!r} is given twice; give it once")
        settings[name] = value
    return settings


def options_of(
    model: str, settings: Mapping[str, str], models: Mapping[str, type[Options]] = MappingProxyType(MODELS)
) -> Options:
    """Build the options of a model from texts; what is not given keeps its default."""
    if model not in models:
        raise ModelError(f"there is no model {model[:_SHOWN]!r}; choose one of {', '.join(models)}")
    kinds = get_type_hints(models[model])
    known = {field.name: field for field in fields(models[model])}
    for name in settings:
        if name not in known:
            offered = ", ".join(f"{field.name}={_text(field.default)}" for field in known.values())
            listed = f"its options and their defaults are {offered}" if offered else "it has none"
            raise ModelError(f"{model} has no option {name[:_SHOWN]!r}; {listed}")
    return models[model](**{name: _value(model, name, text, kinds[name]) for name, text in settings.items()})


def _value(model: str, name: str, text: str, kind: type) -> Any:  # noqa: ANN401 - of the kind asked for
    try:
        return _read(text.strip(), kind)
    except (KeyError, ValueError) as error:
        wanted = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise ModelError(f"{model}: {name} is {text[:_SHOWN]!r}; give {wanted}") from error


def _read(text: str, kind: type) -> Any:  # noqa: ANN401 - as above
    if kind is bool:
        return _WORDS[text.lower()]
    if kind in {int, float} and "_" in text:
        raise ValueError("Python's digit groups are not everybody's")
    return kind(text)


def _text(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)
