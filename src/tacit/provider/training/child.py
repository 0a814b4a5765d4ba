"""A training process as its parent sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tacit.provider.training.orders import Orders
    from tacit.provider.training.run_folder import RunFolder

# Sums must not depend on how many threads BLAS happens to use.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_SECONDS_TO_END = 5


class TrainingProcess:
    """A process that trains in a run's folder: it ends when this one does, for its standard input ends then."""

    def __init__(self, folder: RunFolder, orders: Orders) -> None:
        """Start it, in a session of its own so that Ctrl-C is not for it, and without the working folder's modules."""
        command = [sys.executable, "-P", "-m", "tacit.provider.training.process", str(folder.path)]
        with folder.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own program, and a path made of a number
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env=os.environ | _ONE_THREAD,
            )
        with suppress(BrokenPipeError):  # it ended at once; its status will tell
            self._input.write(orders.to_line())
            self._input.flush()

    @property
    def pid(self) -> int:
        """The number the system knows it by."""
        return self._process.pid

    @property
    def _input(self) -> Any:  # noqa: ANN401 - a stream
        return self._process.stdin

    def messages(self) -> Iterator[dict[str, Any]]:
        """Return what it says, until it ends; a line that was cut off by its end is left out."""
        for line in self._process.stdout or ():
            with suppress(ValueError):
                yield json.loads(line)

    def ending(self) -> str | None:
        """Wait for the end; return what is wrong with it."""
        status = self._process.wait()
        if status < 0:
            why = ", perhaps for want of memory" if -status == signal.SIGKILL else ""
            return f"the training process was killed by signal {-status}{why}; start another run"
        return f"the training process ended with status {status}; the log may say why" if status else None

    def end(self) -> None:
        """Make it end: by itself, or by force after a while."""
        with suppress(OSError):
            self._input.close()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind, whatever happened."""
        self.end()
        if self._process.stdout is not None:
            self._process.stdout.close()
