from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.errors import EngineError, MissingExtraError
from tacit.learning.memory import available_memory
from tacit.learning.spark.session import _end, java_version, spark_session
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("spark")

FIT = ["fit", "reports.parquet", "--policy", "policy.json", "--engine", "spark", "-o", "model"]
POLICY = Policy.make("bounded-laplace", RatingScale.parse("1:5:1"), "1")

START = """
from tacit.errors import TacitError
from tacit.learning.spark.session import spark_session
try:
    spark_session({"spark.master": "local[1]"})
except TacitError as error:
    print(type(error).__name__, error)
"""


def run(script: str, *arguments: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a script in a Python of its own: a process has one Spark, started once."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=180, check=False, env={**os.environ, **(environment or {})}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def java_that_says(folder: Path, said: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n", encoding="utf-8")
    program.chmod(0o755)
    return folder


def test_without_pyspark_there_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"install tacit\[spark\]"):
        spark_session()


@pytest.mark.usefixtures("spark_is_there")
def test_without_java_there_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    said = run(START, environment={"PATH": str(tmp_path), "JAVA_HOME": ""})
    assert said.startswith("EngineError Spark needs Java, and there is no program java on PATH; install Java 17")
    assert said.count("\n") == 1


def test_a_wrong_home_of_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError, match=f"no program java in JAVA_HOME, which is '{tmp_path}'; install Java 17"):
        java_version()


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ('openjdk version "1.8.0_302"', "is Java 8; install Java 17"),
        ('java version "11.0.2" 2019-01-15', "is Java 11; install Java 17"),
        ("cannot execute", "does not work: cannot execute; install Java 17"),
        ("", "does not work: nothing was said; install Java 17"),
    ],
)
def test_a_java_that_will_not_do_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, problem: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_that_says(tmp_path, said)))
    with pytest.raises(EngineError, match=problem):
        java_version()


@pytest.mark.parametrize(("said", "expected"), [('openjdk version "17.0.1"', "17.0.1"), ('java version "21"', "21")])
def test_a_java_that_will_do_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, expected: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_that_says(tmp_path, said)))
    assert java_version() == expected


@pytest.mark.usefixtures("spark_is_there")
def test_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    with pytest.raises(EngineError, match="Spark Connect cannot; use a classic session"):
        spark_session()


@pytest.mark.usefixtures("spark_is_there")
@pytest.mark.parametrize("master", ["nonsense", "yarn-cluster", "http://host:7077"])
def test_a_master_that_is_none_is_refused_before_java_starts(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    monkeypatch.setattr("tacit.learning.spark.session._running", lambda _: None)
    with pytest.raises(EngineError, match=r"which Spark does not know; set it to local\[2\], yarn"):
        spark_session({"spark.master": master})


SITE = """
import sys
from tacit.learning.spark.session import spark_session
conf = spark_session({"spark.app.id": "ours"}).sparkContext.getConf()
for name in sys.argv[1:]:
    print(conf.get(name))
"""


@pytest.mark.usefixtures("spark_is_there")
def test_what_a_site_has_set_stays_so(tmp_path: Path) -> None:
    site = {
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.driver.maxResultSize": "64m",
        "spark.executorEnv.OPENBLAS_NUM_THREADS": "3",
        "spark.checkpoint.dir": str(tmp_path / "written"),
    }
    lines = "".join(f"{name} {value}\n" for name, value in site.items())
    (tmp_path / "spark-defaults.conf").write_text(lines, encoding="utf-8")
    wanted = {**site, "spark.broadcast.compress": "false", "spark.ui.showConsoleProgress": "false"}
    there = {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_PYTHON": sys.executable}
    assert run(SITE, *wanted, environment=there).splitlines() == list(wanted.values())
    assert list((tmp_path / "written").iterdir()) == []  # of a folder of our session's own, nothing is left


WRONG = {
    "spark.task.cpus=9": "has to be >= the number of cpus per task = 9",
    "spark.driver.memory=lots": "Invalid maximum heap size: -Xmxlots",
}


@pytest.mark.usefixtures("spark_is_there")
@pytest.mark.parametrize("setting", WRONG)
def test_a_setting_that_will_not_do_is_said_in_one_line(tmp_path: Path, setting: str) -> None:
    script = f"import sys; from tacit.cli import main; sys.argv[1:] = {[*FIT, '--spark', setting]}; main()"
    pq.write_table(pa.table({"user": [1], "item": [2], "symbol": [0]}), tmp_path / "reports.parquet")
    (tmp_path / "policy.json").write_bytes(POLICY.to_json())
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    (log,) = tmp_path.glob("tacit-spark-*.log")
    assert WRONG[setting] in done.stderr
    assert f"; see {log}" in done.stderr


WORKERS = """
import os, sys, tempfile
from pathlib import Path
from tacit.errors import TacitError
from tacit.learning.spark.session import spark_session
for python in sys.argv[1:]:
    os.environ["PYSPARK_PYTHON"] = python
    try:
        spark_session({"spark.master": "local[1]"})
    except TacitError as error:
        print(type(error).__name__, error)
    from pyspark.sql import SparkSession
    session = SparkSession.getActiveSession()
    memory = session.sparkContext.getConf().get("spark.driver.memory")
    session.stop()
print(memory, len(list(Path(tempfile.gettempdir()).glob("tacit-spark-*.log"))))
"""


@pytest.mark.usefixtures("spark_is_there")
def test_workers_with_another_tacit_or_none_are_refused(tmp_path: Path) -> None:
    bare, other = tmp_path / "bare", tmp_path / "other"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', encoding="utf-8")
    (tmp_path / "tacit-9.9.dist-info").mkdir()
    (tmp_path / "tacit-9.9.dist-info" / "METADATA").write_text("Name: tacit\nVersion: 9.9\n", encoding="utf-8")
    other.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"\n', encoding="utf-8")
    for python in (bare, other):
        python.chmod(0o755)
    (tmp_path / "temporary").mkdir()
    nothing, another, java = run(WORKERS, bare, other, environment={"TMPDIR": f"{tmp_path}/temporary"}).splitlines()
    assert nothing.startswith("EngineError Spark's executors have no tacit; install the same tacit")
    assert another.startswith("EngineError Spark's executors have tacit 9.9, and this is ")
    # What Java may take where nobody said so, and the file that it speaks to, which is gone when nobody was told of it.
    memory, logs = java.split()
    assert 1024 <= int(memory.removesuffix("m")) <= available_memory() >> 20
    assert (logs, list((tmp_path / "temporary").glob("tacit-spark-*.log"))) == ("1", [])


def test_spark_is_ended_whatever_becomes_of_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.learning.spark.session.Log.end", list)  # other tests are not done with it
    done: list[str] = []

    def fail() -> None:
        raise OSError("the name node does not answer")

    context = SimpleNamespace(
        getCheckpointDir=fail, _jvm=SimpleNamespace(System=SimpleNamespace(err=SimpleNamespace(close=list)))
    )
    _end(SimpleNamespace(sparkContext=context, stop=lambda: done.append("stopped")))
    assert done == ["stopped"]


ANOTHER_THREAD = """
import atexit, threading
from pyspark.sql import SparkSession
from tacit.learning.spark.session import spark_session
theirs = []
builder = SparkSession.builder.master("local[1]").appName("theirs").config("spark.ui.enabled", "false")
thread = threading.Thread(target=lambda: theirs.append(builder.getOrCreate()))
thread.start()
thread.join()
ended = []
atexit.register = ended.append
found = spark_session({"spark.app.name": "ours", "spark.sql.shuffle.partitions": "3"})
print(found.sparkContext is theirs[0].sparkContext, found.sparkContext.appName, ended)
print(theirs[0].conf.get("spark.sql.shuffle.partitions"))
"""


@pytest.mark.usefixtures("spark_is_there")
def test_a_session_that_another_thread_started_is_used_as_it_is() -> None:
    said = run(ANOTHER_THREAD, environment={"PYSPARK_PYTHON": sys.executable})
    assert said.split() == ["True", "theirs", "[]", "200"]
