"""The folder of a training run: its log and request, its model, and what it works with while it lasts."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.errors import FileError, RunError
from tacit.files import read_bytes, reason_of, write_bytes
from tacit.privacy.canonical import read_json
from tacit.provider.store.runs import RunRequest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LARGEST_REQUEST = 2**16
_LARGEST_LOG = 2**20
_PREFIX = "run-"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder; its name comes from the run's number and from nothing else."""

    path: Path

    @classmethod
    def of(cls, folder: Path, run_id: int) -> RunFolder:
        """Name the folder of a run."""
        return cls(folder / f"{_PREFIX}{run_id:04d}")

    @property
    def log(self) -> Path:
        """What the run says to people."""
        return self.path / "log.txt"

    @property
    def request(self) -> Path:
        """The model, options and seed that were asked for."""
        return self.path / "request.json"

    @property
    def snapshot(self) -> Path:
        """The reports that are trained on."""
        return self.path / "snapshot.parquet"

    @property
    def checkpoint(self) -> Path:
        """The fits while they run."""
        return self.path / "checkpoint"

    @property
    def model(self) -> Path:
        """What came out."""
        return self.path / "model"

    def make(self, request: RunRequest) -> None:
        """Make the folder, for its owner's eyes only, and write down what was asked for."""
        make_private(self.path)
        document = {"model": request.model, "options": request.options, "seed": request.seed}
        write_bytes(self.request, json.dumps(document).encode() + b"\n")

    def read_request(self) -> RunRequest:
        """Read what was asked for."""
        try:
            return RunRequest(**read_json(read_bytes(self.request, limit=_LARGEST_REQUEST)))
        except (ValueError, TypeError) as error:
            raise RunError(f"{self.request} cannot be read ({error}); start another run") from error

    def note(self, line: str) -> None:
        """Add a line to the log."""
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def log_text(self) -> str:
        """Return the log, or the end of a long one."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(os.fstat(file.fileno()).st_size - _LARGEST_LOG, 0))
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def clear_work(self) -> None:
        """Remove everything but the log, the request and the model; reports are not kept longer than needed."""
        for entry in self.path.iterdir() if self.path.is_dir() else ():
            if entry not in (self.log, self.request, self.model):
                _remove(entry)

    def remove_model(self) -> None:
        """Remove the model."""
        _remove(self.model)


def run_folders(folder: Path) -> Iterator[tuple[int, RunFolder]]:
    """List the folders of runs with the runs' numbers."""
    for path in sorted(folder.glob(f"{_PREFIX}*")):
        number = path.name.removeprefix(_PREFIX)
        if number.isascii() and number.isdecimal() and path == RunFolder.of(folder, int(number)).path:
            yield int(number), RunFolder(path)


def make_private(folder: Path) -> None:
    """Make a folder, if it is not there, that nobody else can look into."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make {folder}: {reason_of(error)}; choose another folder") from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
