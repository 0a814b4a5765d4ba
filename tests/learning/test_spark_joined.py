"""Factors that never leave the cluster: the same as those that are sent whole, bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.errors import EngineError
from tacit.learning import ChannelMfOptions, MfAlsOptions, MogMfOptions, ReportMatrix, fit_with, read_reports
from tacit.learning.factors import FactorPair, Ridge, random_pair
from tacit.learning.local_engine import LocalEngine
from tacit.learning.loop import Conduct
from tacit.learning.mf_als import fit_mf_als
from tacit.learning.mixture import NoiseMixture
from tacit.learning.mog_mf import fit_mog_mf
from tacit.learning.spark import joined, written
from tacit.learning.spark.engine import SparkEngine
from tacit.learning.spark.exchange import sent
from tacit.learning.spark.joined import JoinedPlan
from tacit.learning.spark.layout import Layout, lay_out
from tacit.learning.spark.sources import parts_of_files
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")  # one process starts Spark, and not every one

POLICY = Policy.make("bounded-laplace", RatingScale.parse("1:5:1"), "1")
MIXTURE = NoiseMixture(np.array([0.7, 0.3]), np.array([0.5, 4.0]))


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of reports on different pairs, some users and items far busier than others."""
    rng, (users, items, count) = np.random.default_rng(2), (90, 70, 1500)
    share = np.outer(1 / np.sqrt(np.arange(1, users + 1)), 1 / np.sqrt(np.arange(1, items + 1))).ravel()
    cells = rng.choice(users * items, count, replace=False, p=share / share.sum())
    symbols = rng.integers(0, len(POLICY.channel.symbol_values), count)
    table = pa.table({"user": cells // items, "item": cells % items, "symbol": symbols})
    path = tmp_path_factory.mktemp("reports") / "reports.parquet"
    pq.write_table(table.replace_schema_metadata({"tacit.policy": POLICY.id}), path, row_group_size=500)
    return path


@pytest.fixture(scope="module")
def matrix(reports: Path) -> ReportMatrix:
    return read_reports(reports, [POLICY])


@pytest.fixture(scope="module")
def layout(spark: SparkSession, reports: Path) -> Iterator[Layout]:
    """The same, in several chunks a side."""
    made = lay_out(spark.sparkContext, parts_of_files([reports]), [POLICY], chunk_reports=400)
    assert (len(made.by_user), len(made.by_item)) == (4, 4)
    yield made
    made.close()


@pytest.fixture(scope="module")
def plan(layout: Layout) -> Iterator[JoinedPlan]:
    made = JoinedPlan(layout, threads=1)
    yield made
    made.close()


def started(matrix: ReportMatrix, *, offsets: bool) -> FactorPair:
    return random_pair(matrix, 5, offsets=offsets, rng=np.random.default_rng(3))


def assert_same_factors(one: FactorPair, other: FactorPair) -> None:
    np.testing.assert_array_equal(one.users, other.users)
    np.testing.assert_array_equal(one.items, other.items)
    assert (one.rank, one.offsets) == (other.rank, other.offsets)


@pytest.mark.parametrize("offsets", [False, True])
def test_sweeps_move_factors_as_all_other_sweeps_do(
    layout: Layout, plan: JoinedPlan, matrix: ReportMatrix, offsets: bool
) -> None:
    mean, ridge = (matrix.mean, Ridge(0.8, 2.0)) if offsets else (0.0, Ridge(0.8))
    made = [
        engine.sweeper(started(matrix, offsets=offsets), mean, ridge)
        for engine in (plan, SparkEngine(layout), LocalEngine(matrix, 1))
    ]
    for _ in range(2):
        changes = [sweeper.users(MIXTURE) for sweeper in made]
        sums = [sweeper.items(MIXTURE) for sweeper in made]
        assert changes == pytest.approx([changes[-1]] * 3, rel=1e-6)
        assert [each.penalty() for each in made] == pytest.approx([made[-1].penalty()] * 3, rel=1e-6)
        assert sums[0].log_likelihood == sums[1].log_likelihood == pytest.approx(sums[2].log_likelihood, rel=1e-6)
        np.testing.assert_array_equal(sums[0].square, sums[1].square)
        np.testing.assert_array_equal(sums[0].responsibility, sums[1].responsibility)
    here, whole, local = (sweeper.factors.home() for sweeper in made)
    assert_same_factors(here, whole)
    assert_same_factors(here, local)


def test_a_fit_of_mf_als_gives_the_factors_of_one_machine(layout: Layout, matrix: ReportMatrix) -> None:
    options = MfAlsOptions(rank=4, iterations=2)
    engines = SparkEngine(layout, largest_broadcast=0), LocalEngine(matrix, 1)
    (here, trace), (local, expected) = (
        fit_mf_als(engine, options, np.random.default_rng(4), Conduct()) for engine in engines
    )
    assert_same_factors(here.factors.home(), local.factors.home())
    np.testing.assert_allclose(
        [each.objective for each in trace.iterations], [each.objective for each in expected.iterations], rtol=1e-6
    )


def test_a_fit_of_mog_mf_gives_what_the_broadcast_plan_does(layout: Layout, matrix: ReportMatrix) -> None:
    options = MogMfOptions(rank=4, iterations=2)
    engines = SparkEngine(layout, largest_broadcast=0), SparkEngine(layout), LocalEngine(matrix, 1)
    (here, trace), (whole, _), (_, expected) = (
        fit_mog_mf(engine, options, np.random.default_rng(4), Conduct()) for engine in engines
    )
    assert_same_factors(here.factors.home(), whole.factors.home())
    np.testing.assert_array_equal(here.mixture.variances, whole.mixture.variances)
    np.testing.assert_allclose(
        [each.likelihood for each in trace.iterations], [each.likelihood for each in expected.iterations], rtol=1e-5
    )


def test_a_fit_of_channel_mf_gives_what_the_broadcast_plan_does(
    spark: SparkSession, layout: Layout, matrix: ReportMatrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined, "_WAVE_BYTES", 3000)  # so that rows go in several waves
    options, before = ChannelMfOptions(rank=2, pattern=False, iterations=2), written_down(spark)
    relayed, whole = SparkEngine(layout, largest_broadcast=0), SparkEngine(layout)
    here, there = (fit_with(engine, options, np.random.default_rng(4), seed=4) for engine in (relayed, whole))
    for name in ("user_factors", "item_factors"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name))
    assert [each.objective for each in here.trace.iterations] == [each.objective for each in there.trace.iterations]
    assert (here.provenance.versions["plan"], there.provenance.versions["plan"]) == ("joined", "broadcast")
    dense = np.random.default_rng(6).standard_normal((matrix.shape[1], 7)).astype(np.float32)
    expected = LocalEngine(matrix, 1).row_sums(dense, by_item=False)
    np.testing.assert_array_equal(relayed.row_sums(dense, by_item=False), expected)
    relayed.close()
    assert written_down(spark) <= before


def written_down(spark: SparkSession) -> set[str]:
    context: Any = spark.sparkContext
    folder = context.getCheckpointDir()
    if folder is None:
        return set()
    return {path.name for path in Path(folder.removeprefix("file:")).glob("rdd-*")}


@pytest.mark.parametrize("offsets", [False, True])
def test_factors_come_home_as_they_went(
    plan: JoinedPlan, matrix: ReportMatrix, offsets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined, "_WAVE_BYTES", 1000)  # so that they go in several waves
    pair, other = started(matrix, offsets=offsets), started(matrix, offsets=offsets)
    other.users[:, :5] *= 2
    factors = plan.sweeper(pair, 0.0, Ridge(1.0)).factors
    assert_same_factors(factors.home(), pair)
    factors.take(other)
    assert_same_factors(factors.home(), other)


def test_a_fit_that_failed_leaves_nothing_in_the_folder_for_checkpoints(
    spark: SparkSession, layout: Layout, matrix: ReportMatrix
) -> None:
    written.Checkpoints(spark.sparkContext)  # which makes sure that there is one
    folder = Path(str(spark.sparkContext.getCheckpointDir()).removeprefix("file:"))
    before = set(folder.iterdir())
    plan = JoinedPlan(layout, threads=1)
    sweeper = plan.sweeper(started(matrix, offsets=False), 0.0, Ridge(1.0))
    wrong = NoiseMixture(np.ones(1000) / 1000, np.ones(1000))
    with pytest.raises(EngineError) as error:  # it holds on to what it went through
        sweeper.users(wrong)
    assert set(folder.iterdir()) > before
    plan.close()
    assert set(folder.iterdir()) == before
    assert "\n" not in str(error.value)


def test_only_rows_that_reports_name_travel(plan: JoinedPlan, layout: Layout, matrix: ReportMatrix) -> None:
    factors = plan.sweeper(started(matrix, offsets=False), 0.0, Ridge(1.0)).factors
    for by_item in (False, True):
        side = layout.side(by_item=by_item)
        came = sent(plan._sides[not by_item].links, factors._seats[not by_item], len(side)).collect()
        counts = np.bincount([chunk for chunk, _ in came], [len(each.rows) for _, each in came])
        assert counts.tolist() == side.each(lambda chunk: len(np.unique(chunk.rows.columns)))
        assert {each.rows.shape[1] for _, each in came} == {5}  # and no padding


def test_what_spark_must_remember_stays_short(
    spark: SparkSession, plan: JoinedPlan, matrix: ReportMatrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined, "CHECKPOINT_EVERY", 2)
    context = spark.sparkContext
    sweeper, stages, files = plan.sweeper(started(matrix, offsets=False), 0.0, Ridge(1.0)), [], []
    folder = Path(str(context.getCheckpointDir()).removeprefix("file:"))
    for iteration in range(7):
        context.setJobGroup(f"iteration {iteration}", "")
        sweeper.users(MIXTURE)
        sweeper.items(MIXTURE)
        stages.append(stages_of(context, f"iteration {iteration}"))
        files.append({path.name for path in folder.iterdir()})
    context.setLocalProperty("spark.jobGroup.id", None)
    assert stages[2] == stages[4] == stages[6]
    assert stages[3] == stages[5] > stages[2]  # until the next time, it grows
    assert len(files[1]) == len(files[3]) == len(files[5])  # what nothing depends on is deleted
    assert not files[1] & files[3]
    history = [vars(seats) for seats in sweeper.factors._seats.values()]
    assert ["prev" in each for each in history] == [True, True]
    for each in (sweeper.users, sweeper.items):
        each(MIXTURE)
    assert not any("prev" in vars(seats) for seats in sweeper.factors._seats.values())  # Java can let go of it


def test_what_was_sent_is_deleted_once_factors_are_written_down(
    spark: SparkSession, plan: JoinedPlan, matrix: ReportMatrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined, "CHECKPOINT_EVERY", 2)
    for _ in range(2):
        before = shuffles_of(spark)  # the second time, with what is kept of who needs whose rows
        sweeper = plan.sweeper(started(matrix, offsets=False), 0.0, Ridge(1.0))
        sweeper.users(MIXTURE)
        sweeper.items(MIXTURE)
    assert len(shuffles_of(spark) - before) >= 4  # of what was sent there at the start, and in an iteration
    sweeper.users(MIXTURE)
    sweeper.items(MIXTURE)
    for _ in range(100):
        if not (left := shuffles_of(spark) - before):
            break
        time.sleep(0.1)
    assert not left


def shuffles_of(spark: SparkSession) -> set[str]:
    """The numbers of the shuffles that Spark has files of."""
    folder = Path(spark.sparkContext.getConf().get("spark.local.dir", ""))
    return {path.name.split("_")[1] for path in folder.rglob("shuffle_*.data")}


def stages_of(context: Any, group: str) -> int:
    """How many stages the jobs of a group have, those that need not run again included."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    return sum(len(job.stageIds) for job in jobs if job is not None)


def test_a_cluster_without_a_folder_for_checkpoints_is_refused() -> None:
    context: Any = SimpleNamespace(getCheckpointDir=lambda: None, master="spark://somewhere:7077")
    with pytest.raises(EngineError, match=r"set spark\.checkpoint\.dir"):
        written.Checkpoints(context)


@pytest.mark.usefixtures("spark_is_there")
def test_a_machine_that_is_lost_in_the_middle_changes_nothing(
    reports: Path, matrix: ReportMatrix, tmp_path: Path
) -> None:
    policy, found = tmp_path / "policy.json", tmp_path / "found.npz"
    policy.write_bytes(POLICY.to_json())
    program = Path(__file__).parent / "losing_an_executor.py"
    command = [sys.executable, str(program), str(reports), str(policy), str(found)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"broadcast": 1, "joined": 1}
    sweeper = LocalEngine(matrix, 1).sweeper(started(matrix, offsets=False), 0.0, Ridge(0.8))
    for _ in range(3):
        sweeper.users(MIXTURE)
        sweeper.items(MIXTURE)
    arrays = np.load(found)
    for plan in ("broadcast", "joined"):
        np.testing.assert_array_equal(arrays[f"{plan}_users"], sweeper.factors.users)
        np.testing.assert_array_equal(arrays[f"{plan}_items"], sweeper.factors.items)
