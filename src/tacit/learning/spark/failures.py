"""What goes wrong on Spark, in one line; and where the rest of what it said is kept."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tacit.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PYTHON_ERROR = re.compile(r"(?!org\.|java\.|py4j\.)[\w.]*(Error|Exception|Interrupt)\b")
_ERROR = re.compile(r"\b(Invalid|Error:|ERROR|\w*Exception\b)")
_OURS = "tacit.errors."  # before the name of a deliberate error, which may stand below the error that led to it
_BEHIND = "Caused by: "
_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
_MORE_MEMORY = "Java ran out of memory; raise spark.driver.memory or spark.executor.memory"


class Log:
    """Where the Java of this process says what it has to say: standard error, or a file that goes unless it is told of.

    A process has one Java, whatever sessions come and go.
    """

    _path: Path | None = None
    _told = False

    @classmethod
    def begun(cls) -> IO[bytes]:
        """Begin a file."""
        handle, name = tempfile.mkstemp(prefix="tacit-spark-", suffix=".log")
        cls._path = Path(name)
        return os.fdopen(handle, "wb")

    @classmethod
    def told(cls, otherwise: str = "the log of its executors") -> str:
        """Name the place, for somebody who will look there."""
        cls._told = True
        return otherwise if cls._path is None else str(cls._path)

    @classmethod
    def end(cls) -> None:
        """Remove a file that nobody was told of."""
        if cls._path is not None and not cls._told:
            cls._path.unlink(missing_ok=True)

    @classmethod
    def first_error(cls) -> str:
        """Return the first line that tells of an error, if there is one."""
        text = "" if cls._path is None else cls._path.read_text(errors="replace")
        found = next((line for line in text.splitlines() if _ERROR.search(line)), "")
        return first_line(found) if found else ""


@contextmanager
def failures_in_one_line() -> Iterator[None]:
    """Turn Spark's failures, pages of two languages, into one line of what went wrong first."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - there only with the extra
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        if _was_interrupted(error):
            raise KeyboardInterrupt from error
        raise EngineError(f"Spark gave up: {cause(str(error))}; see {Log.told()}") from error


def _was_interrupted(error: BaseException) -> bool:
    """Tell whether what failed was only a farewell: Spark's clean-up, after somebody had pressed Ctrl-C."""
    behind = error.__context__
    return behind is not None and (isinstance(behind, KeyboardInterrupt) or _was_interrupted(behind))


def cause(said: str) -> str:
    """Find the line that matters: an error of ours, another one in Python, or else what was first in Java."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ours = (line.removeprefix(_OURS) for line in lines if line.startswith(_OURS))
    in_python = (line for line in lines if _PYTHON_ERROR.match(line))
    no_memory = (_MORE_MEMORY for line in lines if _OUT_OF_MEMORY in line)
    behind = (line.removeprefix(_BEHIND) for line in reversed(lines) if line.startswith(_BEHIND))
    in_java = (line.removeprefix(": ") for line in lines if line.startswith(": "))
    found = (next(each, None) for each in (ours, in_python, no_memory, behind, in_java))
    return first_line(next((line for line in found if line), said))


def first_line(said: str) -> str:
    """Return the first line, if there is one, no longer than lines should be."""
    return (said.strip().splitlines() or ["nothing was said"])[0].rstrip(".")[:200]
