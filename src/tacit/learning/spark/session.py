"""The Spark session: the one that is there, or one of our own on this machine; and what goes wrong, in one line."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import EngineError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17

_QUIET = Path(__file__).absolute().with_name("quiet.properties")
_ALWAYS = {
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",  # a task has one core
    "spark.ui.showConsoleProgress": "false",  # it would run into what fits say of theirs
    "spark.python.unix.domain.socket.enabled": "true",  # through TCP a wave of tasks takes four times as long
    "spark.broadcast.compress": "false",  # factors hardly get smaller
    "spark.driver.maxResultSize": "0",  # what comes back is as large as factors and ids are
}
_ON_THIS_MACHINE = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
_PYTHON_ERROR = re.compile(r"(?!org\.|java\.|py4j\.)[\w.]*(Error|Exception|Interrupt)\b")
_OURS = "tacit.errors."  # before the name of a deliberate error, which may stand below the error that led to it
# Where somebody may have said which cluster to use; see Spark's documentation of spark-submit.
_CONFIGURED_BY = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS")


def spark_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return the session of this process, or start one that ends with it.

    Without any configuration that is one on all cores of this machine. Settings are Spark's own, such as
    `spark.master` or `spark.driver.memory`; a session that is there already keeps its own, and goes on.
    """
    sql = _spark_sql()
    session: SparkSession = _running(sql) or _started(sql, dict(settings or {}))
    _check_workers(session.sparkContext)
    return session


def java_version() -> str:
    """Return the version of the Java that Spark would start, or say why there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    remedy = f"install Java {OLDEST_JAVA} or later, and set JAVA_HOME to its folder or add it to PATH"
    if java is None:
        place = f"in JAVA_HOME, which is {home[:200]!r}" if home else "on PATH"
        raise EngineError(f"Spark needs Java, and there is no program java {place}; {remedy}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603 - as Spark does
    found = re.search(r'version "(?:1\.)?(\d+)([^"]*)"', said)
    if found is None:
        raise EngineError(f"Spark needs Java, and {java} does not work: {_first_line(said)}; {remedy}")
    if int(found[1]) < OLDEST_JAVA:
        raise EngineError(f"Spark needs Java {OLDEST_JAVA} or later, and {java} is Java {found[1]}; {remedy}")
    return found[1] + found[2]


@contextmanager
def failures_in_one_line() -> Iterator[None]:
    """Turn Spark's failures, pages of two languages, into one line of what went wrong first."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - there only with the extra
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        raise EngineError(f"Spark gave up: {_cause(str(error))}; see the log of its executors") from error


def _spark_sql() -> Any:  # noqa: ANN401 - a class that is there only with the extra
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - as above
        from pyspark.sql.utils import is_remote  # noqa: PLC0415 - as above
    except ImportError as error:
        raise MissingExtraError("the Spark engine needs the spark extra; install tacit[spark]") from error
    if is_remote() or "SPARK_REMOTE" in os.environ:
        msg = "the Spark engine sends factors to executors, which Spark Connect cannot; use a classic session"
        raise EngineError(f"{msg}, without SPARK_REMOTE")
    return SparkSession


def _running(sql: Any) -> SparkSession | None:  # noqa: ANN401 - as above
    """Return this thread's session, or one beside what another thread has started: it is not ours to set or to end."""
    from pyspark import SparkContext  # noqa: PLC0415 - there only with the extra

    session: SparkSession | None = sql.getActiveSession()
    if session is None and SparkContext._active_spark_context is not None:  # noqa: SLF001 - there is no other way to ask
        session = sql.builder.getOrCreate()
    return session


def _started(sql: Any, settings: dict[str, str]) -> SparkSession:  # noqa: ANN401 - as above
    master = settings.get("spark.master", "")
    here = master.startswith("local") or not (master or any(name in os.environ for name in _CONFIGURED_BY))
    if here:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    version_found = java_version()
    builder = sql.builder.appName("tacit")
    kernel = {f"spark.executorEnv.{name}": os.environ[name] for name in ("TACIT_KERNEL",) if name in os.environ}
    for name, value in (_ALWAYS | kernel | (_ON_THIS_MACHINE if here else {}) | settings).items():
        builder = builder.config(name, value)
    with _own_interrupts():
        try:
            session: SparkSession = builder.getOrCreate()
            atexit.register(_end, session)
        except Exception as error:  # whatever Spark, Java or the network between them say
            raise EngineError(f"Spark does not start with Java {version_found}: {_cause(str(error))}") from error
    return session


def _end(session: Any) -> None:  # noqa: ANN401 - looked into
    """End Spark with the process; what its workers say when they are hung up on is no news."""
    with suppress(Exception):  # it may have ended before
        session.sparkContext._jvm.System.err.close()  # noqa: SLF001 - there is no other way to say so
        session.stop()


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep Spark from taking over Ctrl-C: a fit ends its iteration first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _check_workers(context: SparkContext) -> None:
    """Refuse workers that would compute something else, or nothing."""
    remedy = "install the same tacit for the Python that executors run (PYSPARK_PYTHON)"
    cores = context.defaultParallelism
    try:
        found = context.parallelize(["tacit"] * cores, cores).map(version).distinct().collect()
    except Exception as error:  # from Java, and about Python
        if "PackageNotFoundError" in str(error):
            raise EngineError(f"Spark's executors have no tacit; {remedy}") from error
        raise EngineError(f"Spark's executors do not run Python as here: {_cause(str(error))}; {remedy}") from error
    if found != [version("tacit")]:
        msg = f"Spark's executors have tacit {', '.join(sorted(found))}, and this is {version('tacit')}; {remedy}"
        raise EngineError(msg)


def _cause(said: str) -> str:
    """Find the line that matters: an error of ours, another one in Python, or else what Java says first."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ours = (line.removeprefix(_OURS) for line in lines if line.startswith(_OURS))
    in_python = (line for line in lines if _PYTHON_ERROR.match(line))
    in_java = (line.removeprefix(": ") for line in lines if line.startswith(": "))
    return _first_line(next(ours, None) or next(in_python, None) or next(in_java, said))


def _first_line(said: str) -> str:
    return (said.strip().splitlines() or ["nothing was said"])[0].rstrip(".")[:200]
