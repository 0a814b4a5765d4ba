"""Keeping a fit on disk while it runs, and going on from there to the same result."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field, replace
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tacit.errors import EngineError, FileError, ModelError
from tacit.files import reason_of, written_atomically
from tacit.learning.mixture import NoiseMixture
from tacit.learning.trace import FitTrace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.lib.npyio import NpzFile
    from numpy.typing import NDArray

    from tacit.learning.engine import Engine
    from tacit.learning.loop import State
    from tacit.learning.options import Options

FILE = "checkpoint.npz"
_FORMAT = "tacit-checkpoint/1"
_SECONDS_BETWEEN = 10.0
_EXTRA = "extra_"

_Found = TypeVar("_Found")


@dataclass(frozen=True, eq=False, slots=True)
class Checkpoint:
    """A file in a folder with the state of one particular fit: its data, options and randomness, and its kernels."""

    folder: Path
    identity: str
    engine: Engine
    _saved_at: list[float] = field(default_factory=lambda: [time.monotonic()])

    @classmethod
    def of(cls, folder: Path, engine: Engine, options: Options, rng: np.random.Generator) -> Checkpoint:
        """Name the fit by what determines its course; how long it runs does not.

        A folder that cannot be written to, or that has another fit's state, is refused.
        """
        course = {name: value for name, value in options.to_document().items() if name not in ("iterations", "epochs")}
        named = [_FORMAT, options.model, course, engine.summary.checksum, rng.bit_generator.state]
        identity = hashlib.sha256(json.dumps(named, sort_keys=True, default=str).encode()).hexdigest()
        _make(folder)
        kept = cls(folder, identity, engine)
        if kept.file.exists():
            kept.read(lambda file: kept.refuse_other(_document(file), begun=False))
        return kept

    @property
    def file(self) -> Path:
        """Where the state is kept."""
        return self.folder / FILE

    @property
    def computer(self) -> list[str]:
        """What computes, once the fit has begun: an engine may choose its kernels as late as that."""
        versions = self.engine.versions()
        return [versions["kernel"], versions.get("device", "")]

    def keep(self, state: State, *, now: bool) -> None:
        """Write the state down, if it has been a while or if asked to."""
        if not now and time.monotonic() - self._saved_at[0] < _SECONDS_BETWEEN:
            return
        trace = FitTrace(state.iterations, "", state.notes).to_document()
        named = {"format": _FORMAT, "identity": self.identity, "computer": self.computer, "trace": trace}
        document = json.dumps(named).encode()
        pair = state.factors.home()
        extra: dict[str, Any] = {_EXTRA + name: array for name, array in state.extra.items()}
        with written_atomically(self.file) as temporary, temporary.open("wb") as file:
            np.savez(
                file,
                document=np.frombuffer(document, dtype=np.uint8),
                users=pair.users,
                items=pair.items,
                weights=state.mixture.weights,
                variances=state.mixture.variances,
                **extra,
            )
        self._saved_at[0] = time.monotonic()

    def resumed(self, start: State) -> State:
        """Return the state that was kept, or the start if none was."""
        if not self.file.exists():
            return start
        state = self.read(lambda file: self._state(file, start))
        start.factors.take(state.factors.home())
        for name, array in state.extra.items():
            start.extra[name][:] = array  # steps hold on to the arrays they began with
        return replace(state, factors=start.factors, extra=start.extra)

    def read(self, look: Callable[[NpzFile], _Found]) -> _Found:
        """Look into the file; whatever is wrong with it is said in a line."""
        unreadable = f"{self.file} is not a readable checkpoint; remove it to start afresh"
        if not self.file.is_file():  # a pipe would never end
            raise ModelError(unreadable)
        try:
            with self.file.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                return look(file)
        except (EngineError, ModelError, MemoryError):  # none of them is the file's fault
            raise
        except Exception as error:  # zipfile, json and NumPy have no common word for a file that is not theirs
            raise ModelError(unreadable) from error

    def refuse_other(self, document: dict[str, Any], *, begun: bool) -> None:
        """Refuse another fit's state, or once the fit has begun that of other kernels."""
        if document["identity"] != self.identity or (begun and document["computer"] != self.computer):
            other = "another fit (other reports, options, seed or kernel)"
            raise ModelError(f"{self.file} belongs to {other}; remove it or choose another")

    def _state(self, file: NpzFile, start: State) -> State:
        """Read where the fit stood; refuse another fit's state, and what does not fit the start."""
        users, items, weights, variances = (file[name] for name in ("users", "items", "weights", "variances"))
        extra, document = {name: file[_EXTRA + name] for name in start.extra}, _document(file)
        self.refuse_other(document, begun=True)
        trace = FitTrace.from_document(document["trace"])
        pair = start.factors.home()
        _demand_alike(users, pair.users)
        _demand_alike(items, pair.items)
        _demand_alike(weights, start.mixture.weights)
        _demand_alike(variances, start.mixture.variances)
        for name, array in extra.items():
            _demand_alike(array, start.extra[name])
        pair, mixture = replace(pair, users=users, items=items), NoiseMixture(weights, variances)
        return replace(
            start, factors=pair, mixture=mixture, iterations=trace.iterations, notes=trace.notes, extra=extra
        )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):  # what cannot be written to is better found before a long fit
            pass
    except OSError as error:
        raise FileError(f"cannot make {folder}, or write to it: {reason_of(error)}; choose another folder") from error
    except ValueError as error:
        raise FileError(f"{str(folder)!r} is not the name of a folder; choose another") from error


def _document(file: NpzFile) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bytes(file["document"]))
    return found


def _demand_alike(found: NDArray[Any], wanted: NDArray[Any]) -> None:
    if found.dtype != wanted.dtype or found.shape != wanted.shape or not np.isfinite(found).all():
        raise ValueError("another shape or kind, or not finite")
