"""The process that trains: `python -m tacit.provider.training.process FOLDER`, started by the service.

Its first line of standard input holds its orders; the end of standard input means that the service is gone, and so
goes the process. Standard output is for the service, one JSON document a line; standard error is the run's log. It
only reads from the database.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.provider.training.orders import FAILED, Orders, message
from tacit.provider.training.run_folder import RunFolder
from tacit.provider.training.train import note, train

_NICENESS = 10
_DESERTED = 3  # the status of a process whose service is gone


def main() -> int:
    """Train as ordered; return the exit status."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return _DESERTED
    threading.Thread(target=_end_with_service, daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is prose

    def say(about: str, **content: Any) -> None:  # noqa: ANN401 - anything plain
        answers.write(message(about, **content) + "\n")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a system that stops the service tells all its processes
    os.nice(_NICENESS)
    # Held by a process that is still about to end with a service that died: two must not share a folder.
    fcntl.flock(sys.stderr.fileno(), fcntl.LOCK_EX)
    error = _error_of(RunFolder(Path(sys.argv[1])), Orders.from_line(line), say)
    if error is not None:
        note(f"failed: {error}")
        say(FAILED, error=error)
    return 0 if error is None else 1


def _error_of(folder: RunFolder, orders: Orders, say: Any) -> str | None:  # noqa: ANN401 - as above
    """Train, and return what went wrong in one line."""
    try:
        train(folder, orders, say)
    except TacitError as error:
        return str(error)
    except MemoryError:
        return "there was not enough memory; give the machine more, or choose a model of lower rank"
    except Exception as error:  # noqa: BLE001 - whatever it is, the service has to be told
        traceback.print_exc()
        said = (str(error).splitlines() or [""])[0][:200]
        return f"{type(error).__name__}: {said}; the log has more, please report it"
    return None


def _end_with_service() -> None:
    while os.read(sys.stdin.fileno(), 4096):  # not through a buffer, whose lock would be held at the end
        pass
    os._exit(_DESERTED)


if __name__ == "__main__":
    sys.exit(main())
