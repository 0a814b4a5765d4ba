"""Keeping a fit on disk while it runs, and going on from there to the same result."""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import FileError, ModelError
from tacit.files import reason_of, written_atomically
from tacit.learning.mixture import NoiseMixture
from tacit.learning.trace import FitTrace

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.learning.loop import State
    from tacit.learning.matrix import ReportMatrix
    from tacit.learning.options import Options

FILE = "checkpoint.npz"
_FORMAT = "tacit-checkpoint/1"
_SECONDS_BETWEEN = 10.0


@dataclass(frozen=True, eq=False, slots=True)
class Checkpoint:
    """A file in a folder with the state of one particular fit: its data, options and randomness."""

    folder: Path
    identity: str
    _saved_at: list[float] = field(default_factory=lambda: [time.monotonic()])

    @classmethod
    def of(cls, folder: Path, matrix: ReportMatrix, options: Options, rng: np.random.Generator) -> Checkpoint:
        """Name the fit by what determines its course; how long it runs does not."""
        course = {name: value for name, value in options.to_document().items() if name not in ("iterations", "epochs")}
        named = [_FORMAT, options.model, course, matrix.checksum, rng.bit_generator.state]
        identity = hashlib.sha256(json.dumps(named, sort_keys=True, default=str).encode()).hexdigest()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make {folder}: {reason_of(error)}; choose another folder") from error
        return cls(folder, identity)

    def keep(self, state: State, *, now: bool) -> None:
        """Write the state down, if it has been a while or if asked to."""
        if not now and time.monotonic() - self._saved_at[0] < _SECONDS_BETWEEN:
            return
        trace = FitTrace(state.iterations, "", state.notes).to_document()
        document = json.dumps({"format": _FORMAT, "identity": self.identity, "trace": trace}).encode()
        with written_atomically(self.folder / FILE) as temporary, temporary.open("wb") as file:
            np.savez(
                file,
                document=np.frombuffer(document, dtype=np.uint8),
                users=state.pair.users,
                items=state.pair.items,
                weights=state.mixture.weights,
                variances=state.mixture.variances,
            )
        self._saved_at[0] = time.monotonic()

    def resumed(self, start: State) -> State:
        """Return the state that was kept, or the start if none was."""
        path = self.folder / FILE
        if not path.exists():
            return start
        arrays = _read(path)
        document = json.loads(bytes(arrays["document"]))
        if document.get("identity") != self.identity:
            raise ModelError(
                f"{path} belongs to another fit (other reports, options or seed); choose another folder or remove it"
            )
        start.pair.users[:] = arrays["users"]
        start.pair.items[:] = arrays["items"]
        trace = FitTrace.from_document(document["trace"])
        mixture = NoiseMixture(arrays["weights"], arrays["variances"])
        return replace(start, mixture=mixture, iterations=trace.iterations, notes=trace.notes)


def _read(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in ("document", "users", "items", "weights", "variances")}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise ModelError(f"{path} is not a readable checkpoint; remove it to start afresh") from error
