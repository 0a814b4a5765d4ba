"""What goes wrong on Spark, in one line."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tacit.errors import EngineError
from tacit.learning.spark.failures import Log, cause, failures_in_one_line

JAVA = "An error occurred while calling o86.toArrow.\n: org.apache.spark.SparkException: Exception thrown in await:\n"
AT = "\tat org.apache.spark.util.ThreadUtils$.awaitResult(ThreadUtils.scala:53)\n"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (f"{JAVA}{AT}", "org.apache.spark.SparkException: Exception thrown in await:"),
        (f"{JAVA}{AT}Caused by: a.B: first\n{AT}Caused by: a.C: the root of it.\n{AT}", "a.C: the root of it"),
        (
            f"{JAVA}{AT}Caused by: java.lang.OutOfMemoryError: Java heap space\n{AT}",
            "Java ran out of memory; raise spark.driver.memory or spark.executor.memory",
        ),
        (
            f"{JAVA}Traceback (most recent call last):\nValueError: not this\n{AT}Caused by: a.B: no",
            "ValueError: not this",
        ),
        (f"{JAVA}ValueError: not this\ntacit.errors.FileError: but this\n", "FileError: but this"),
        ("", "nothing was said"),
        ("x" * 500, "x" * 200),
    ],
)
def test_the_line_that_matters_is_found(said: str, expected: str) -> None:
    assert cause(said) == expected


def failing(*, interrupted: bool) -> None:
    """As Spark does it: what it cleans up with fails, too."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - only if it is there

    try:
        if interrupted:
            raise KeyboardInterrupt
        raise ValueError
    finally:
        raise Py4JError("an error occurred while calling o1.getResult")


@pytest.mark.skipif(importlib.util.find_spec("py4j") is None, reason="pyspark is not installed")
def test_an_interrupt_stays_one_whatever_fails_after_it() -> None:
    with pytest.raises(KeyboardInterrupt), failures_in_one_line():
        failing(interrupted=True)
    with pytest.raises(EngineError, match="Spark gave up: an error occurred while calling o1"), failures_in_one_line():
        failing(interrupted=False)


def test_a_log_goes_unless_somebody_was_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "_path", None)
    monkeypatch.setattr(Log, "_told", False)
    assert Log.told() == "the log of its executors"
    assert Log.first_error() == ""
    monkeypatch.setattr(Log, "_told", False)
    with Log.begun() as file:
        file.write(b"WARNING: not yet\nInvalid maximum heap size: -Xmxlots\nError: Could not create it.\n")
    assert Log.first_error() == "Invalid maximum heap size: -Xmxlots"
    path = Log._path
    assert path is not None
    Log.end()
    assert not path.exists()
    with Log.begun():
        kept = Path(Log.told())
    Log.end()
    assert kept.exists()
    kept.unlink()
