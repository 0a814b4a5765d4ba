from __future__ import annotations

import gc
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.errors import EngineError, ModelError
from tacit.learning import ChannelMfOptions, MfAlsOptions, MogMfOptions, OffsetsOptions, SvdOptions
from tacit.learning.factors import FactorPair, Ridge, random_pair
from tacit.learning.fit import fit, fit_with
from tacit.learning.local_engine import LocalEngine
from tacit.learning.matrix import ReportMatrix, read_reports
from tacit.learning.mixture import NoiseMixture
from tacit.learning.spark import spark_engine
from tacit.learning.spark.engine import SparkEngine
from tacit.learning.spark.layout import Layout, lay_out
from tacit.learning.spark.sources import parts_of_files
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tacit.learning.options import Options

pytestmark = pytest.mark.xdist_group("spark")

STARS = RatingScale.parse("1:5:1")
POLICIES = [Policy.make("bounded-laplace", STARS, "1"), Policy.make("randomized-response", STARS, "2")]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    cells = rng.choice(90 * 50, 1500, replace=False)
    columns = {
        "user": np.char.add("u", (cells // 50).astype(str)),
        "item": cells % 50,
        "symbol": rng.integers(0, 5, 1500),
        "policy": [POLICIES[at].id for at in rng.integers(0, 2, 1500)],
    }
    file = tmp_path_factory.mktemp("reports") / "reports.parquet"
    pq.write_table(pa.table(columns), file, row_group_size=400)
    return file


@pytest.fixture(scope="module")
def matrix(path: Path) -> ReportMatrix:
    return read_reports(path, POLICIES)


@pytest.fixture(scope="module")
def layout(spark: SparkSession, path: Path) -> Layout:
    return lay_out(spark.sparkContext, parts_of_files([path]), POLICIES, chunk_reports=200)


@pytest.fixture(scope="module")
def engine(layout: Layout) -> SparkEngine:
    return SparkEngine(layout)


def assert_equal_pairs(found: FactorPair, expected: FactorPair) -> None:
    np.testing.assert_array_equal(found.users, expected.users)
    np.testing.assert_array_equal(found.items, expected.items)


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("ridge", [Ridge(0.1, 0.2), Ridge(0.0, 0.0)])
def test_sweeps_give_the_factors_of_one_machine_bit_for_bit(
    engine: SparkEngine, matrix: ReportMatrix, offsets: bool, ridge: Ridge
) -> None:
    mean = matrix.mean if offsets else 0.0
    here, there = (
        each.sweeper(random_pair(matrix, 3, offsets=offsets, rng=np.random.default_rng(1)), mean, ridge)
        for each in (LocalEngine(matrix, 1), engine)
    )
    mixture = NoiseMixture.random(3, matrix.variance, np.random.default_rng(2))
    for _ in range(2):
        assert there.users(mixture) == here.users(mixture)
        expected, found = here.items(mixture), there.items(mixture)
        assert_equal_pairs(there.factors.home(), here.factors.home())
        assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-6)
        np.testing.assert_allclose(found.responsibility, expected.responsibility, rtol=1e-5)
        np.testing.assert_allclose(found.square, expected.square, rtol=1e-5)
        assert there.penalty() == here.penalty()


def test_sweeps_go_on_from_factors_that_were_given_in_between(engine: SparkEngine, matrix: ReportMatrix) -> None:
    first, second = (random_pair(matrix, 3, offsets=False, rng=np.random.default_rng(seed)) for seed in (3, 4))
    mixture = NoiseMixture.single()
    sweeper = engine.sweeper(first, 0.0, Ridge(0.1))
    sweeper.users(mixture)
    sweeper.items(mixture)
    sweeper.factors.take(second)
    sweeper.items(mixture)
    expected = LocalEngine(matrix, 1).sweeper(second, 0.0, Ridge(0.1))
    expected.items(mixture)
    assert_equal_pairs(sweeper.factors.home(), expected.factors.home())


def test_where_chunks_are_makes_no_difference(layout: Layout, matrix: ReportMatrix) -> None:
    scattered = replace(
        layout,
        by_user=replace(layout.by_user, frame=layout.by_user.frame.repartition(5)),
        by_item=replace(layout.by_item, frame=layout.by_item.frame.coalesce(1)),
    )
    mixture = NoiseMixture.random(3, matrix.variance, np.random.default_rng(2))
    pairs, sums = [], []
    for each in (layout, scattered):
        pair = random_pair(matrix, 3, offsets=True, rng=np.random.default_rng(1))
        sweeper = SparkEngine(each).sweeper(pair, 3.0, Ridge(0.1, 0.1))
        change = sweeper.users(mixture)
        found = sweeper.items(mixture)
        pairs.append(sweeper.factors.home())
        sums.append([change, found.log_likelihood, *found.responsibility, *found.square, sweeper.penalty()])
    assert_equal_pairs(*pairs)
    assert sums[0] == sums[1]


FITS = [
    MogMfOptions(rank=3, iterations=3),
    MfAlsOptions(rank=3, iterations=3),
    ChannelMfOptions(rank=2, dimensions=4, iterations=8),
    OffsetsOptions(),
]


@pytest.mark.parametrize("options", FITS, ids=lambda options: options.model)
def test_a_fit_is_the_one_of_one_machine(engine: SparkEngine, matrix: ReportMatrix, options: Options) -> None:
    found = fit_with(engine, options, np.random.default_rng(5), seed=5)
    expected = fit(matrix, options, np.random.default_rng(5), seed=5)
    np.testing.assert_allclose(found.user_factors, expected.user_factors, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.item_factors, expected.item_factors, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.fallback.users, expected.fallback.users, rtol=1e-4, atol=1e-6)
    assert len(found.trace.iterations) == len(expected.trace.iterations)
    for one, other in zip(found.trace.iterations, expected.trace.iterations, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-6)
        assert (one.likelihood is None) == (other.likelihood is None)
        assert one.likelihood is None or one.likelihood == pytest.approx(other.likelihood, rel=1e-6)
    assert found.provenance.data_checksum == expected.provenance.data_checksum
    assert found.recommend("u7", 5).items == expected.recommend("u7", 5).items


def test_a_model_says_what_it_was_fitted_on(engine: SparkEngine) -> None:
    fitted = fit_with(engine, MogMfOptions(rank=2, iterations=1), np.random.default_rng(0))
    versions = fitted.provenance.versions
    assert versions["spark"][0] >= "4"
    assert versions["java"].split(".")[0] >= "17"
    assert versions["plan"] == "broadcast"
    assert versions["kernel"] == LocalEngine(None, 1).versions()["kernel"]  # type: ignore[arg-type]


def test_factors_are_sent_whole_up_to_a_limit(layout: Layout) -> None:
    size = 64 * sum(SparkEngine(layout).summary.shape)  # rows of 16 floats
    options = MogMfOptions(rank=3)
    enough, too_little = SparkEngine(layout, size), SparkEngine(layout, size - 1)
    assert enough.prepare(options) == "factors take 0.01 MB, here and in every worker"
    assert too_little.prepare(options) == "factors take 0.01 MB and stay on the cluster; at the end they come here"
    assert too_little.prepare(ChannelMfOptions()).endswith("and stay here; workers get the rows they need")
    assert enough.versions()["plan"] == ""
    pair = random_pair(enough.summary, 3, offsets=False, rng=np.random.default_rng(0))
    enough.sweeper(pair, 0.0, Ridge(0.1))
    too_little.sweeper(pair, 0.0, Ridge(0.1))
    assert (enough.versions()["plan"], too_little.versions()["plan"]) == ("broadcast", "joined")


@pytest.mark.parametrize(
    "options",
    [
        MogMfOptions(rank=16, iterations=1),
        MfAlsOptions(rank=16, iterations=1, offsets=True),
        ChannelMfOptions(rank=5, iterations=1, dimensions=4),
        ChannelMfOptions(rank=0, iterations=1, dimensions=20),
        ChannelMfOptions(rank=5, iterations=1, pattern=False),
    ],
    ids=lambda options: f"{options.model} {options.rank}",
)
def test_what_is_said_beforehand_is_what_decides_on_the_plan(
    layout: Layout, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    plan = SparkEngine.plan
    monkeypatch.setattr(SparkEngine, "plan", lambda engine, size: sizes.append(size) or plan(engine, size))
    fit_with(SparkEngine(layout), options, np.random.default_rng(0))
    first, *later = sizes
    assert max(later) == first


def test_the_limit_is_what_the_memory_of_java_can_bear(layout: Layout) -> None:
    java: Any = layout.context._jvm
    most = java.java.lang.Runtime.getRuntime().maxMemory()
    assert most < 2 << 30  # as the tests' session was told
    assert SparkEngine(layout).largest_broadcast == most // 8


def test_sums_of_rows_are_those_of_one_machine(engine: SparkEngine, matrix: ReportMatrix) -> None:
    local = LocalEngine(matrix, 1)
    for by_item in (False, True):
        dense = np.random.default_rng(6).standard_normal((matrix.shape[0 if by_item else 1], 7)).astype(np.float32)
        np.testing.assert_array_equal(engine.row_sums(dense, by_item=by_item), local.row_sums(dense, by_item=by_item))


@pytest.mark.parametrize("options", [SvdOptions(rank=2), MogMfOptions(start="svd")], ids=lambda each: each.model)
def test_models_that_need_all_reports_in_one_place_are_refused_at_once(
    layout: Layout, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = SparkEngine(layout)
    monkeypatch.delattr(SparkEngine, "sweeper")
    with pytest.raises(ModelError, match="engine spark"):
        fit_with(engine, options, np.random.default_rng(0))


def test_what_an_engine_computes_with_is_known_without_java(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SparkEngine(layout)
    known = engine.versions()
    monkeypatch.setattr(type(layout.context), "_jvm", None)
    monkeypatch.setattr(layout.context, "_jsc", None)
    assert engine.versions() == known
    assert known["java"]


def test_a_fit_goes_on_from_a_checkpoint_of_one_machine(
    engine: SparkEngine, matrix: ReportMatrix, tmp_path: Path
) -> None:
    half, whole = (MogMfOptions(rank=2, iterations=iterations, tolerance=0.0) for iterations in (2, 4))
    fit(matrix, half, np.random.default_rng(7), checkpoint=tmp_path / "kept")
    found = fit_with(engine, whole, np.random.default_rng(7), checkpoint=tmp_path / "kept")
    expected = fit(matrix, whole, np.random.default_rng(7))
    np.testing.assert_allclose(found.item_factors, expected.item_factors, rtol=1e-4, atol=1e-6)


def test_workers_forget_factors_that_are_out_of_date(engine: SparkEngine, matrix: ReportMatrix) -> None:
    sweeper: Any = engine.sweeper(random_pair(matrix, 3, offsets=False, rng=np.random.default_rng(1)), 0.0, Ridge(0.1))
    before = sweeper.factors.copy(of_items=False)
    sweeper.users(NoiseMixture.single())
    after = sweeper.factors.copy(of_items=False)
    assert not _lives(before)
    assert _lives(after)
    del sweeper
    gc.collect()
    assert not _lives(after)


def _lives(copy: Any) -> bool:
    return bool(copy._jbroadcast.isValid())


def test_what_fails_in_a_worker_is_said_in_one_line(layout: Layout, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EngineError, match="Spark gave up: ZeroDivisionError: ") as found:
        layout.by_user.each(lambda chunk: chunk.number // 0)
    assert "\n" not in str(found.value)
    capfd.readouterr()  # Spark's log has it at length


def test_an_interrupt_still_waits_for_the_end_of_an_iteration(engine: SparkEngine) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    seen: list[int] = []

    def watch(iteration: Any) -> None:
        seen.append(iteration.number)
        signal.raise_signal(signal.SIGINT)

    fitted = fit_with(engine, MogMfOptions(rank=2, iterations=9), np.random.default_rng(0), watch=watch)
    assert (seen, fitted.trace.stopped) == ([1], "interrupted")


def test_an_engine_is_made_of_files_in_the_session_that_is_there(
    spark: SparkSession, path: Path, matrix: ReportMatrix
) -> None:
    made = spark_engine(spark, [path], POLICIES)
    assert made.layout.context is spark.sparkContext
    assert made.summary.checksum == matrix.checksum
    assert len(made.layout.by_user) == 1
    made.close()
    assert not made.layout.by_user.frame.is_cached
