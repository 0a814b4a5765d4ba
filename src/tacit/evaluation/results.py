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


@dataclass(frozen=True, slots=True)
class ResultStore:
    """A folder of results; each names everything that decided it, and is used again for the same only."""

    folder: Path

    def find(self, task: Task) -> FoldResult | None:
        """Return what was kept of a task; a damaged file is as good as none."""
        path = self._path(task)
        if not path.exists():
            return None
        try:
            document = json.loads(read_bytes(path, limit=_LARGEST))
            same = document["task"] == json.loads(json.dumps(task.identity()))
            return FoldResult.from_document(document["result"]) if same else None
        except (FileError, ValueError, TypeError, KeyError):
            return None

    def keep(self, task: Task, result: FoldResult) -> None:
        """Write the result of a task."""
        path = self._path(task)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            remedy = "set TACIT_CACHE to a folder that can be written to"
            raise FileError(f"cannot make the folder {path.parent}: {reason_of(error)}; {remedy}") from error
        document = {"task": task.identity(), "result": result.to_document()}
        write_bytes(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())

    def _path(self, task: Task) -> Path:
        key = task.key
        return self.folder / key[:2] / f"{key}.json"
