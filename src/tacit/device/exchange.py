"""A request to the provider and its answer, before and after the network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST_ANSWER = 2**20
OK, NO_CONTENT, NOT_MODIFIED, NOT_FOUND = 200, 204, 304, 404


@dataclass(frozen=True)
class Request:
    """What the provider is asked; it may safely arrive twice."""

    method: str
    path: str
    query: Mapping[str, str | int] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)  # nothing that is printed or logged shows it
    """Who asks; most requests do without."""
    most: int = LARGEST_ANSWER
    """Bytes that the answer may have."""
    also: int | None = None
    """A status that is looked for besides success."""


@dataclass(frozen=True)
class Answer:
    """What the provider answered: complete, and no larger than was asked for."""

    status: int
    headers: Mapping[str, str]
    """By their names in small letters."""
    body: bytes = field(repr=False)
