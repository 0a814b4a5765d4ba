"""Keeping a fit on disk while it runs, and going on from there to the same result."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import FileError, ModelError
from tacit.files import reason_of, written_atomically
from tacit.learning.mixture import NoiseMixture
from tacit.learning.trace import FitTrace

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tacit.learning.engine import Engine
    from tacit.learning.loop import State
    from tacit.learning.options import Options

FILE = "checkpoint.npz"
_FORMAT = "tacit-checkpoint/1"
_SECONDS_BETWEEN = 10.0
_EXTRA = "extra_"


@dataclass(frozen=True, eq=False, slots=True)
class Checkpoint:
    """A file in a folder with the state of one particular fit: its data, options, randomness and kernel."""

    folder: Path
    course: str
    engine: Engine
    _saved_at: list[float] = field(default_factory=lambda: [time.monotonic()])

    @classmethod
    def of(cls, folder: Path, engine: Engine, options: Options, rng: np.random.Generator) -> Checkpoint:
        """Name the fit by what determines its course; how long it runs does not."""
        course = {name: value for name, value in options.to_document().items() if name not in ("iterations", "epochs")}
        named = [_FORMAT, options.model, course, engine.summary.checksum, rng.bit_generator.state]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make {folder}: {reason_of(error)}; choose another folder") from error
        except ValueError as error:
            raise FileError(f"{str(folder)!r} is not the name of a folder; choose another") from error
        return cls(folder, json.dumps(named, sort_keys=True, default=str), engine)

    @property
    def identity(self) -> str:
        """What tells this fit from all others, once it has begun: an engine may choose its kernel as late as that."""
        versions = self.engine.versions()
        computer = json.dumps([versions["kernel"], versions.get("device")])
        return hashlib.sha256(f"{self.course}{computer}".encode()).hexdigest()

    def keep(self, state: State, *, now: bool) -> None:
        """Write the state down, if it has been a while or if asked to."""
        if not now and time.monotonic() - self._saved_at[0] < _SECONDS_BETWEEN:
            return
        trace = FitTrace(state.iterations, "", state.notes).to_document()
        document = json.dumps({"format": _FORMAT, "identity": self.identity, "trace": trace}).encode()
        pair = state.factors.home()
        extra: dict[str, Any] = {_EXTRA + name: array for name, array in state.extra.items()}
        with written_atomically(self.folder / FILE) as temporary, temporary.open("wb") as file:
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
        path = self.folder / FILE
        if not path.exists():
            return start
        unreadable = f"{path} is not a readable checkpoint; remove it to start afresh"
        if not path.is_file():  # a pipe would never end
            raise ModelError(unreadable)
        try:
            state = _read(path, start, self.identity)
        except (ModelError, MemoryError):
            raise
        except Exception as error:  # zipfile, json and NumPy have no common word for a file that is not theirs
            raise ModelError(unreadable) from error
        start.factors.take(state.factors.home())
        for name, array in state.extra.items():
            start.extra[name][:] = array  # steps hold on to the arrays they began with
        return replace(state, factors=start.factors, extra=start.extra)


def _read(path: Path, start: State, identity: str) -> State:
    """Read where the fit stood; refuse another fit's state, and what does not fit the start."""
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        users, items, weights, variances = (file[name] for name in ("users", "items", "weights", "variances"))
        extra = {name: file[_EXTRA + name] for name in start.extra}
        document = json.loads(bytes(file["document"]))
    if document["identity"] != identity:
        raise ModelError(
            f"{path} belongs to another fit (other reports, options, seed or kernel); remove it or choose another"
        )
    trace = FitTrace.from_document(document["trace"])
    pair = start.factors.home()
    _demand_alike(users, pair.users)
    _demand_alike(items, pair.items)
    _demand_alike(weights, start.mixture.weights)
    _demand_alike(variances, start.mixture.variances)
    for name, array in extra.items():
        _demand_alike(array, start.extra[name])
    pair, mixture = replace(pair, users=users, items=items), NoiseMixture(weights, variances)
    return replace(start, factors=pair, mixture=mixture, iterations=trace.iterations, notes=trace.notes, extra=extra)


def _demand_alike(found: NDArray[Any], wanted: NDArray[Any]) -> None:
    if found.dtype != wanted.dtype or found.shape != wanted.shape or not np.isfinite(found).all():
        raise ValueError("another shape or kind, or not finite")
