"""Orders: what a training process is told on its standard input, and what it answers on its standard output."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

# What a line of a training process is about.
DATA, FIT, ITERATION, DONE, FAILED = "data", "fit", "iteration", "done", "failed"


@dataclass(frozen=True, slots=True)
class Orders:
    """What a process needs to know beside its folder; not on its command line, which everybody can read."""

    database: str = field(repr=False)
    """The address, password included."""
    influence_key: str = field(repr=False)
    """The secret, in hexadecimal digits, that decides which reports of a busy device are heard."""
    most_heard: int
    """How many reports of one device are heard."""
    least_reports: int
    """Items with fewer reports are not made public."""
    threads: int
    most_memory: int | None = None

    def to_line(self) -> bytes:
        """Write the orders as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Orders:
        """Read what `to_line` wrote."""
        return cls(**json.loads(line))


def message(about: str, **content: Any) -> str:  # noqa: ANN401 - anything plain
    """Write one line of JSON; numbers that JSON does not have become null."""
    return json.dumps({"about": about, **_finite(content)}, allow_nan=False)


def _finite(value: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
