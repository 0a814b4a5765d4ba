"""Results kept between runs: one small file for every fold of every setting."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.errors import FileError
from tacit.evaluation.fold import FoldResult
from tacit.files import read_bytes, reason_of, write_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.evaluation.task import Task

_LARGEST = 1 << 16
_BOUND = 1e300  # of anything that was ever measured; neither infinity nor NaN is below


@dataclass(frozen=True, slots=True)
class ResultStore:
    """A folder of results; each names everything that decided it, and is used again for the same only."""

    folder: Path

    def find(self, task: Task) -> FoldResult | None:
        """Return what was kept of a task; a damaged file is as good as none."""
        try:
            document = json.loads(read_bytes(self._path(task), limit=_LARGEST))
            same = document["task"] == json.loads(json.dumps(task.identity()))
            result = FoldResult.from_document(document["result"])
        except (FileError, ValueError, TypeError, KeyError, RecursionError):
            return None
        return result if same and _is_sound(result) else None

    def keep(self, task: Task, result: FoldResult) -> None:
        """Write the result of a task."""
        path = self._path(task)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            remedy = "set TACIT_CACHE to a folder that can be written to"
            raise FileError(f"cannot make the folder {path.parent}: {reason_of(error)}; {remedy}") from error
        document = {"task": task.identity(), "result": result.to_document()}
        try:
            write_bytes(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
        except FileError as error:
            raise FileError(f"{error} with TACIT_CACHE") from error

    def _path(self, task: Task) -> Path:
        key = task.key
        return self.folder / key[:2] / f"{key}.json"


def _is_sound(result: FoldResult) -> bool:
    """Tell whether every figure is a number; only that of iterations may be absent."""
    figures = result.to_document()
    iterations = figures.pop("iterations")
    return all(isinstance(value, int | float) and abs(value) < _BOUND for value in (*figures.values(), iterations or 0))
