"""The unit of work of a study, and the identity under which its result is kept."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tacit
from tacit.learning.kernels import kernel_file, kernel_name

if TYPE_CHECKING:
    from tacit.evaluation.setting import Setting
    from tacit.evaluation.source import DataSource

_FORMAT = "tacit-fold/1"

# What decides a figure, apart from drawing and printing it.
_COMPUTING = (
    "tables/*.py",
    "privacy/**/*.py",
    "device/cholesky.py",
    "device/equations.py",
    "device/likeness.py",
    "device/personal.py",
    "device/ranking.py",
    "learning/**/*.py",
    "evaluation/catalogue.py",
    "evaluation/dataset*.py",
    "evaluation/devices.py",
    "evaluation/fold.py",
    "evaluation/metrics.py",
    "evaluation/top_lists.py",
    "evaluation/pg_mf*.py",
    "evaluation/ratings.py",
    "evaluation/splits.py",
    "evaluation/tailoring.py",
    "evaluation/world.py",
)


@dataclass(frozen=True, slots=True)
class Task:
    """One fold of one setting on some data."""

    source: DataSource
    sha256: str
    """Of the data, as they were when the study began."""
    scale: str
    setting: Setting
    fold: int
    threshold: float

    def identity(self) -> dict[str, Any]:
        """Return everything that decides the result, as plain values."""
        return {
            "format": _FORMAT,
            **self.setting.to_document(),
            "epsilon": self.setting.epsilon,
            "fold": self.fold,
            "threshold": self.threshold,
            "scale": self.scale,
            "data_sha256": self.sha256,
            "versions": versions(),
            "code": code_digest(),
        }

    @property
    def key(self) -> str:
        """The SHA-256 of the identity."""
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()


@cache
def versions() -> dict[str, str]:
    """Return what computes."""
    return {name: version(name) for name in ("tacit", "numpy", "scipy")} | {"kernel": kernel_name()}


@cache
def code_digest() -> str:
    """Return the SHA-256 of the code that decides figures: a result kept from other code is not used again."""
    root = Path(tacit.__file__).parent
    files = [file for pattern in _COMPUTING for file in sorted(root.glob(pattern))]
    compiled = kernel_file()
    digest = hashlib.sha256()
    for file in [*files, *([] if compiled is None else [compiled])]:
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
