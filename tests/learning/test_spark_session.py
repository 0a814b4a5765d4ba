from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.errors import EngineError, MissingExtraError
from tacit.learning.local_engine import LocalEngine
from tacit.learning.matrix import read_reports
from tacit.learning.spark.session import java_version, spark_session
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Mapping

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


WORKERS = """
import os, sys
from tacit.errors import TacitError
from tacit.learning.spark.session import spark_session
for python in sys.argv[1:]:
    os.environ["PYSPARK_PYTHON"] = python
    try:
        spark_session({"spark.master": "local[1]"})
    except TacitError as error:
        print(type(error).__name__, error)
    from pyspark.sql import SparkSession
    SparkSession.getActiveSession().stop()
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
    nothing, another = run(WORKERS, bare, other).splitlines()
    assert nothing.startswith("EngineError Spark's executors have no tacit; install the same tacit")
    assert another.startswith("EngineError Spark's executors have tacit 9.9, and this is ")


SWEEPS = """
import sys
import numpy as np
from tacit.learning.factors import Ridge, random_pair
from tacit.learning.mixture import NoiseMixture


def swept(engine):
    pair = random_pair(engine.summary, 3, offsets=True, rng=np.random.default_rng(0))
    mixture = NoiseMixture.random(3, engine.summary.variance, np.random.default_rng(1))
    sweeper = engine.sweeper(pair, engine.summary.mean, Ridge(0.1, 0.1))
    for _ in range(2):
        sweeper.users(mixture)
        likelihood = sweeper.items(mixture).log_likelihood
    return sweeper.factors.home(), likelihood
"""

CRASH = f"""{SWEEPS}
import os, signal
from pathlib import Path
from tacit.learning.spark import broadcast
from tacit.learning.spark.engine import SparkEngine
from tacit.learning.spark.layout import lay_out
from tacit.learning.spark.session import spark_session
from tacit.learning.spark.sources import parts_of_files
from tacit.privacy.policy import Policy

reports, policy, killed, result = sys.argv[1:]


class Deadly(broadcast.HalfSweep):
    def __call__(self, chunk):
        solved = super().__call__(chunk)
        if chunk.number == 5 and self.statistics:
            try:
                Path(killed).touch(exist_ok=False)
            except FileExistsError:
                return solved
            daemon = os.getppid()
            executor = int(Path("/proc", str(daemon), "stat").read_text().rpartition(")")[2].split()[1])
            assert b"CoarseGrainedExecutorBackend" in Path("/proc", str(executor), "cmdline").read_bytes()
            for process in (executor, daemon, os.getpid()):
                os.kill(process, signal.SIGKILL)
        return solved


session = spark_session({{"spark.master": "local-cluster[2,1,512]", "spark.executor.memory": "512m"}})
layout = lay_out(session.sparkContext, parts_of_files([reports]), [Policy.load(policy)], chunk_reports=300)
broadcast.HalfSweep = Deadly
pair, likelihood = swept(SparkEngine(layout))
np.savez(result, users=pair.users, items=pair.items, likelihood=likelihood)
session.stop()
"""


@pytest.mark.usefixtures("spark_is_there")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for the executor in /proc")
def test_an_executor_that_is_killed_in_the_middle_of_a_sweep_makes_no_difference(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cells = rng.choice(120 * 60, 3000, replace=False)
    columns = {"user": cells // 60, "item": cells % 60, "symbol": rng.integers(0, 5, 3000)}
    reports, policy = tmp_path / "reports.parquet", tmp_path / "policy.json"
    table = pa.table(columns).replace_schema_metadata({"tacit.policy": POLICY.id})
    pq.write_table(table, reports, row_group_size=800)
    POLICY.save(policy)
    run(CRASH, reports, policy, tmp_path / "killed", tmp_path / "result.npz")
    assert (tmp_path / "killed").exists()
    here: dict[str, Any] = {}
    exec(SWEEPS, here)  # noqa: S102 - the same lines here and there
    pair, likelihood = here["swept"](LocalEngine(read_reports(reports, [POLICY]), 1))
    with np.load(tmp_path / "result.npz") as found:
        np.testing.assert_array_equal(found["users"], pair.users)
        np.testing.assert_array_equal(found["items"], pair.items)
        assert found["likelihood"] == pytest.approx(likelihood, rel=1e-6)
