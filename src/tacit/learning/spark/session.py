"""The Spark session: the one that is there, or one of our own."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, nullcontext, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import EngineError, MissingExtraError
from tacit.learning.memory import available_memory
from tacit.learning.spark.failures import Log, cause, first_line
from tacit.learning.spark.written import delete

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17

_QUIET = Path(__file__).absolute().with_name("quiet.properties")
_SHOWN = 80
_ALWAYS = {"spark.ui.showConsoleProgress": "false"}  # it would run into what fits say of theirs
_USUALLY = {
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",  # a task has one core
    "spark.python.unix.domain.socket.enabled": "true",  # through TCP a wave of tasks takes four times as long
    "spark.broadcast.compress": "false",  # factors hardly get smaller
    "spark.shuffle.compress": "false",  # as above, and reports not much
    "spark.driver.maxResultSize": "0",  # what comes back is as large as factors and ids are
}
_JAVA_SHARE, _LEAST_FOR_JAVA, _MOST_FOR_JAVA = 0.5, 1 << 30, 31 << 30  # beyond, Java's pointers get longer
_ON_THIS_MACHINE = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
# All that Python knows where Java has ended without a word to it.
_GONE = "JAVA_GATEWAY_EXITED", "Error while sending or receiving", "Connection refused"
_MASTER = re.compile(r"local|yarn$|spark://|k8s://")  # else Java ends at once, with a page of its own
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
        raise EngineError(f"Spark needs Java, and {java} does not work: {first_line(said)}; {remedy}")
    if int(found[1]) < OLDEST_JAVA:
        raise EngineError(f"Spark needs Java {OLDEST_JAVA} or later, and {java} is Java {found[1]}; {remedy}")
    return found[1] + found[2]


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
        settings = _ON_THIS_MACHINE | {"spark.driver.memory": _memory_of_java()} | settings
    if master and not _MASTER.match(master):
        known = "local[2], yarn, spark://HOST:PORT or k8s://HOST:PORT"
        raise EngineError(f"spark.master is {master[:_SHOWN]!r}, which Spark does not know; set it to {known}")
    version_found = java_version()
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what it has to say comes as an error, too
    with _own_interrupts():
        try:
            wanted = _ALWAYS | _wanted_beside(_settings_of_site(settings, log=here)) | settings
            session: SparkSession = sql.builder.appName("tacit").config(map=wanted).getOrCreate()
            atexit.register(_end, session)
        except Exception as error:  # whatever Spark, Java or the network between them say
            why = cause(str(error))
            if any(word in why for word in _GONE):
                why = Log.first_error() or why
            place = Log.told("what it said before")
            raise EngineError(f"Spark does not start with Java {version_found}: {why}; see {place}") from error
    return session


def _memory_of_java() -> str:
    """Return what Java may take of this machine's memory: it takes no more than it needs."""
    share = min(max(int(_JAVA_SHARE * available_memory()), _LEAST_FOR_JAVA), _MOST_FOR_JAVA)
    return f"{share >> 20}m"


def _settings_of_site(settings: dict[str, str], *, log: bool) -> SparkConf:
    """Start Java, if it is not there, and return the settings that it has from elsewhere."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - there only with the extra
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - as above

    if SparkContext._gateway is None:  # noqa: SLF001 - there is no other way to say where Java speaks
        given = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        with Log.begun() if log else nullcontext() as place:
            gateway = launch_gateway(given, {"stderr": place} if place else {})
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - as above
    return SparkConf()


def _wanted_beside(given: SparkConf) -> dict[str, str]:
    """Return what is good for fits and not said otherwise."""
    kernel = {f"spark.executorEnv.{name}": os.environ[name] for name in ("TACIT_KERNEL",) if name in os.environ}
    return {name: value for name, value in (_USUALLY | kernel).items() if not given.contains(name)}


def _end(session: Any) -> None:  # noqa: ANN401 - looked into
    """End Spark with the process; what its workers say when they are hung up on is no news."""
    with suppress(Exception):  # it may have ended before; or the folder cannot be reached any more
        if (folder := session.sparkContext.getCheckpointDir()) is not None:
            delete(session.sparkContext, folder)  # Spark makes one for every session, and never takes it away
    with suppress(Exception):  # as above
        session.sparkContext._jvm.System.err.close()  # noqa: SLF001 - there is no other way to say so
        session.stop()
    Log.end()


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
        raise EngineError(f"Spark's executors do not run Python as here: {cause(str(error))}; {remedy}") from error
    if found != [version("tacit")]:
        msg = f"Spark's executors have tacit {', '.join(sorted(found))}, and this is {version('tacit')}; {remedy}"
        raise EngineError(msg)
