"""JSON documents that came from anywhere: each field is read as what it should be, or refused."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from tacit.errors import InvalidInputError, ModelError
from tacit.privacy.exact import decimal_text, parse_canonical_decimal
from tacit.privacy.scale import RatingScale

DAMAGED = "the file is damaged; fetch it again, or fit again"


@dataclass(frozen=True)
class Fields:
    """The fields of a document, each read as what it should be or refused."""

    label: str
    values: dict[str, Any]

    def text(self, name: str) -> str:
        """Read text."""
        return str(self._checked(name, isinstance(self.values.get(name), str), "text"))

    def number(self, name: str) -> float:
        """Read a finite number."""
        return float(self._checked(name, is_number(self.values.get(name)), "a finite number"))

    def count(self, name: str) -> int:
        """Read a whole number from 0 on."""
        value = self.values.get(name)
        return int(self._checked(name, type(value) is int and value >= 0, "a whole number from 0 on"))

    def numbers(self, name: str) -> list[float]:
        """Read a list of finite numbers."""
        value = self.values.get(name)
        return list(self._checked(name, isinstance(value, list) and all(map(is_number, value)), "a list of numbers"))

    def texts(self, name: str) -> list[str]:
        """Read a list of texts."""
        value = self.values.get(name)
        good = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
        return list(self._checked(name, good, "a list of texts"))

    def group(self, name: str) -> Fields:
        """Read a document inside the document."""
        value = self._checked(name, isinstance(self.values.get(name), dict), "an object")
        return Fields(f"{self.label}, {name}", value)

    def is_null(self, name: str) -> bool:
        """Tell whether a field is there and says nothing."""
        return name in self.values and self.values[name] is None

    def refuse(self, name: str, wanted: str) -> ModelError:
        """Say that a field is not what it should be."""
        found = repr(self.values[name])[:40] if name in self.values else "absent"
        return ModelError(f"{self.label}: {name} is {found}, not {wanted}; {DAMAGED}")

    def _checked(self, name: str, good: bool, wanted: str) -> Any:  # noqa: ANN401, FBT001 - JSON, and what was found of it
        if not good:
            raise self.refuse(name, wanted)
        return self.values[name]


def is_number(value: object) -> bool:
    """Tell whether a value of a document is a number that a float can hold."""
    try:
        return type(value) in {int, float} and isfinite(value)  # type: ignore[arg-type]
    except OverflowError:
        return False


def scale_document(scale: RatingScale) -> dict[str, str]:
    """Write a scale as policies do."""
    return {part: decimal_text(getattr(scale, part)) for part in ("low", "high", "step")}


def scale_of(fields: Fields) -> RatingScale:
    """Read the scale of a document."""
    parts = fields.group("scale")
    try:
        return RatingScale.of(*(parse_canonical_decimal(parts.text(part)) for part in ("low", "high", "step")))
    except InvalidInputError as error:
        raise ModelError(f"{fields.label}: {error}") from error
