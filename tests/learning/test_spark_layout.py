from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from tacit.errors import EngineError, FileError, ReportError, TableError, TacitError
from tacit.learning.matrix import ReportMatrix, Rows, read_reports
from tacit.learning.reports import Alphabet, Reports, reports_of_file
from tacit.learning.spark import spark_engine, spark_engine_of_frame
from tacit.learning.spark.chunks import cut
from tacit.learning.spark.engine import SparkEngine
from tacit.learning.spark.failures import failures_in_one_line
from tacit.learning.spark.layout import Layout, lay_out, lay_out_frame
from tacit.learning.spark.reading import _digest, _read_slices, _written, as_surveyed, read_parts, survey
from tacit.learning.spark.sources import parts_of_files
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.tables import refuse_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tacit.learning.spark.layout import SideLayout

pytestmark = pytest.mark.xdist_group("spark")

STARS = RatingScale.parse("1:5:1")
LAPLACE = Policy.make("bounded-laplace", STARS, "1")
DIRECT = Policy.make("randomized-response", STARS, "2")
BIT = Policy.make("duchi", STARS, "1")
POLICIES = [LAPLACE, DIRECT, BIT]

Columns = dict[str, Any]


def drawn(seed: int, users: int = 60, items: int = 40, reports: int = 800) -> Columns:
    """Reports on different pairs, some users and items far busier than others."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(users * items, reports, replace=False, p=_popular(users, items))
    return {"user": cells // items - 7, "item": cells % items, "symbol": rng.integers(0, 5, reports)}


def _popular(users: int, items: int) -> Any:
    share = np.outer(1 / np.arange(1, users + 1), 1 / np.sqrt(np.arange(1, items + 1))).ravel()
    return share / share.sum()


def write(path: Path, columns: Columns, policy: Policy | None = LAPLACE, group: int = 300) -> Path:
    metadata = {} if policy is None else {"tacit.policy": policy.id}
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path, row_group_size=group)
    return path


def laid_out(spark: SparkSession, paths: Sequence[Path], chunk_reports: int = 100) -> Layout:
    return lay_out(spark.sparkContext, parts_of_files(paths), POLICIES, chunk_reports=chunk_reports)


def assert_same(layout: Layout, matrix: ReportMatrix) -> None:
    engine = SparkEngine(layout)
    found = engine.summary
    for name in ("scale", "policies", "shape", "reports", "mean", "variance", "checksum"):
        assert getattr(found, name) == getattr(matrix, name), name
    for name in ("symbol_values", "symbol_counts", "user_counts", "item_counts"):
        np.testing.assert_array_equal(getattr(found, name), getattr(matrix, name))
    for name in ("users", "items"):
        ids, expected = getattr(found, name).ids, getattr(matrix, name).ids
        assert ids.dtype == expected.dtype
        np.testing.assert_array_equal(ids, expected)
    assert_same_rows(layout.by_user, matrix.by_user)
    assert_same_rows(layout.by_item, matrix.by_item)
    rated = engine.rated()
    np.testing.assert_array_equal(rated.starts, matrix.by_user.starts)
    np.testing.assert_array_equal(rated.columns, matrix.by_user.columns)


def assert_same_rows(side: SideLayout, rows: Rows) -> None:
    chunks = side.each(lambda chunk: chunk)
    assert [chunk.number for chunk in chunks] == list(range(len(side)))
    assert [chunk.first for chunk in chunks] + [len(rows)] == side.edges.tolist()
    for chunk in chunks:
        expected = rows.part(chunk.first, chunk.last)
        for name in ("starts", "columns", "values"):
            found = getattr(chunk.rows, name)
            assert found.dtype == getattr(expected, name).dtype
            np.testing.assert_array_equal(found, getattr(expected, name))


def test_reports_in_row_groups_are_laid_out_as_on_one_machine(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "reports.parquet", drawn(0))
    layout = laid_out(spark, [path])
    assert len(layout.by_user) > 4
    assert_same(layout, read_reports(path, POLICIES))


def test_the_rows_of_a_dataframe_are_laid_out_as_those_of_files(spark: SparkSession, tmp_path: Path) -> None:
    columns = drawn(0)
    path = write(tmp_path / "reports.parquet", columns)
    frame = spark.createDataFrame(pa.table(columns)).repartition(7)
    assert_same(lay_out_frame(frame, [LAPLACE], chunk_reports=100), read_reports(path, [LAPLACE]))
    owner = np.random.default_rng(1).choice([LAPLACE.id, DIRECT.id], len(columns["user"]))
    mixed = columns | {"policy": owner, "item": [f"film {item}" for item in columns["item"]]}
    other = write(tmp_path / "mixed.parquet", mixed, policy=None)
    frame = spark.createDataFrame(pa.table(mixed)).withColumnRenamed("user", "who").withColumnRenamed("who", "user")
    assert_same(lay_out_frame(frame, POLICIES, chunk_reports=100), read_reports(other, POLICIES))
    engine = spark_engine_of_frame(frame, POLICIES)
    assert engine.summary.reports == len(owner)
    engine.close()


@pytest.mark.usefixtures("spark_is_there")
def test_rows_of_a_dataframe_may_come_in_another_order_when_they_are_read_again() -> None:
    given, table = Alphabet.of([LAPLACE]), pa.table(drawn(0, reports=60))
    orders = np.arange(60), np.random.default_rng(0).permutation(60)
    first, second = (read_from(given, table.take(order)) for order in orders)
    assert _digest(first) == _digest(second)
    np.testing.assert_array_equal(first.users.distinct, second.users.distinct)
    assert _digest(read_from(given, table.slice(1))) != _digest(first)


def read_from(given: Alphabet, table: Any) -> Any:
    slices = [[cell.as_py()] for batch in _written(table.to_batches(20)) for cell in batch[0]]
    ((_, found),) = _read_slices(given, 0, slices)
    return found


def test_chunks_come_to_the_driver_a_few_partitions_at_a_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.learning.spark.layout._PARTITIONS_PER_CORE", 2)
    monkeypatch.setattr("tacit.learning.spark.layout._PARTITIONS_AT_ONCE", 3)
    layout, context = laid_out(spark, [write(tmp_path / "reports.parquet", drawn(0))]), spark.sparkContext
    side, tracker = layout.by_user, context.statusTracker()
    assert side.frame.rdd.getNumPartitions() == 4
    context.setJobGroup("in order", "")
    found = list(side.in_order("columns"))
    jobs: list[Any] = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("in order")]
    context.setLocalProperty("spark.jobGroup.id", None)
    last: list[Any] = [tracker.getStageInfo(max(job.stageIds)) for job in jobs]
    assert sorted(stage.numTasks for stage in last) == [1, 3]
    expected = side.each(lambda chunk: chunk.rows.columns)
    assert len(found) == len(expected) > 4
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    layout.close()


def test_the_session_that_was_active_stays_so(spark: SparkSession, tmp_path: Path) -> None:
    path, active = write(tmp_path / "reports.parquet", drawn(0, reports=60)), type(spark).getActiveSession
    found: list[object] = []

    def work() -> None:
        found.append(active())
        laid_out(spark, [path]).close()
        found.append(active())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [None, None]
    other = spark.newSession()
    other.createDataFrame([], "nothing int")
    laid_out(spark, [path]).close()
    now: Any = active()
    assert now._jsparkSession.equals(other._jsparkSession)
    spark.createDataFrame([], "nothing int")


def test_a_dataframe_that_cannot_be_read_is_refused_in_words(spark: SparkSession) -> None:
    columns = drawn(0, reports=30)
    frame = spark.createDataFrame(pa.table(columns))
    with pytest.raises(TableError, match="no column 'symbol'"):
        lay_out_frame(frame.drop("symbol"), [LAPLACE])
    with pytest.raises(ReportError, match="several policies were given"):
        lay_out_frame(frame, POLICIES)
    with pytest.raises(ReportError, match="both report item"):
        lay_out_frame(frame.union(frame.limit(1)), [LAPLACE])
    with pytest.raises(ReportError, match="symbol 99 is not one of"):
        lay_out_frame(spark.createDataFrame(pa.table(columns | {"symbol": np.full(30, 99)})), [DIRECT])
    with pytest.raises(ReportError, match="there are no reports"):
        lay_out_frame(frame.limit(0), [LAPLACE])


def test_files_of_several_kinds_policies_and_id_types_are_one_set_of_reports(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second, third = drawn(1), drawn(2), drawn(3)
    second["user"] = np.char.add("é", second["user"].astype(str))
    third["item"] += 1000
    third["policy"] = np.where(third["symbol"] > 2, LAPLACE.id, DIRECT.id)
    paths = [
        write(tmp_path / "a.parquet", first, DIRECT),
        write(tmp_path / "b.parquet", second, LAPLACE, group=1000),
        tmp_path / "c.csv",
    ]
    pacsv.write_csv(pa.table(third), paths[2])
    layout = laid_out(spark, paths)
    assert layout.users.vocabulary.ids.dtype == object
    assert layout.items.vocabulary.ids.dtype == np.int64
    assert_same(layout, read_reports(paths, POLICIES))


@dataclass(frozen=True)
class Kept:
    """A part that is read from a file each time."""

    label: str

    def reports(self, alphabet: Alphabet) -> Reports:
        return reports_of_file(self.label, alphabet)


@pytest.mark.parametrize("change", ["user", "item", "symbol", "gone", "spoiled"])
def test_a_part_that_is_read_again_must_be_the_same(spark: SparkSession, tmp_path: Path, change: str) -> None:
    columns, given = drawn(0, reports=60), Alphabet.of([LAPLACE])
    path = write(tmp_path / "reports.parquet", columns)
    read = read_parts(spark.sparkContext, [Kept(str(path))], given)
    said = survey(read, given)
    assert as_surveyed(read, said).count() == 1
    if change == "gone":
        path.unlink()
    elif change == "spoiled":
        write(path, _without(columns, "item"))
    else:
        write(path, _with(columns, change, [columns[change][1], *columns[change][1:].tolist()]))
    gone = f"gave up: FileError: cannot read {path}: No such file or directory; check"
    reason = {"gone": re.escape(gone), "spoiled": "gave up: TableError: .* has no column 'item'"}
    expected = pytest.raises(EngineError, match=reason.get(change, "ReportError: .* changed while it was read; write"))
    with expected, failures_in_one_line():
        as_surveyed(read, said).count()


def test_a_folder_as_spark_writes_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    columns = drawn(4, reports=300)
    rows = zip(*(values.tolist() for values in columns.values()), [DIRECT.id] * 300, strict=True)
    frame = spark.createDataFrame(list(rows), "user long, item long, symbol int, policy string")
    frame.repartition(3).write.parquet(str(tmp_path / "written"))
    assert (tmp_path / "written" / "_SUCCESS").exists()
    layout = laid_out(spark, [tmp_path / "written"])
    users, items, symbols = columns.values()
    assert_same(layout, ReportMatrix.of_symbols(users, items, symbols, DIRECT))


def test_empty_parts_and_ids_beyond_64_bits_are_no_trouble(spark: SparkSession, tmp_path: Path) -> None:
    columns = drawn(5, reports=50)
    columns["item"] = columns["item"].astype(np.uint64) + np.uint64(2**64 - 50)
    path = write(tmp_path / "large.parquet", columns)
    table = pq.read_table(path)
    nothing = tmp_path / "nothing.parquet"
    with pq.ParquetWriter(nothing, table.schema) as writer:
        writer.write_table(table.slice(0, 0))
    assert_same(laid_out(spark, [nothing, path]), read_reports(path, POLICIES))


def test_an_address_will_do_for_a_path(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "a file.parquet", drawn(0, reports=60))
    layout = lay_out(spark.sparkContext, parts_of_files([path.as_uri()]), POLICIES)
    assert layout.symbol_counts.sum() == 60
    folder = tmp_path / "of files"
    folder.mkdir()
    path.rename(folder / "100%25 of a file.parquet")
    (part,) = parts_of_files([folder.as_uri()])
    assert part.label == f"{folder.as_uri()}/100%25 of a file.parquet"
    assert lay_out(spark.sparkContext, [part], POLICIES).symbol_counts.sum() == 60


@pytest.mark.parametrize(
    "address",
    [
        "s3://AKIA:hush@bucket/x.parquet",
        "gs://u:hush@h/",
        "s3://:hush@bucket/x@y",
        "s3://AKIA:hu/sh@bucket/x.parquet",
        "s3://AKIA:12/hush@bucket/x.parquet",
        "hdfs://me:hu/sh@h:8020/x.parquet",
    ],
)
def test_secrets_in_addresses_are_refused_and_not_said(address: str) -> None:
    with pytest.raises(TableError, match="has a secret before its @") as error:
        parts_of_files([address])
    assert "hush" not in str(error.value)
    assert "hu/sh" not in str(error.value)


@pytest.mark.parametrize(
    "address", ["hdfs://h:8020/data/x@y.parquet", "hdfs://me@h:8020/x@y", "s3://b/x:1@2", "/a:b@c"]
)
def test_a_colon_or_an_at_makes_no_secret(address: str) -> None:
    refuse_secrets(address)


@pytest.mark.parametrize(
    ("reports", "rows", "edges"),
    [(5, 100, [0, 1, 3, 5]), (100, 2, [0, 2, 4, 5]), (6, 100, [0, 2, 5]), (100, 100, [0, 5])],
)
def test_chunks_end_once_they_have_enough_reports_or_rows(reports: int, rows: int, edges: list[int]) -> None:
    assert cut(np.array([5, 3, 2, 2, 1]), reports, rows).tolist() == edges


def _with(columns: Columns, name: str, values: Any) -> Columns:
    return {**columns, name: values}


def _without(columns: Columns, name: str) -> Columns:
    return {key: values for key, values in columns.items() if key != name}


def _late(columns: Columns, name: str, value: Any) -> Any:
    return [*columns[name].tolist()[:-1], value]


COLUMNS = drawn(6, reports=60)
SPOILED: dict[str, tuple[Columns, Policy | None, type[TacitError]]] = {
    "symbol out of range": (_with(COLUMNS, "symbol", _late(COLUMNS, "symbol", 99)), LAPLACE, ReportError),
    "symbol below zero": (_with(COLUMNS, "symbol", _late(COLUMNS, "symbol", -1)), LAPLACE, ReportError),
    "symbol missing": (_with(COLUMNS, "symbol", _late(COLUMNS, "symbol", None)), LAPLACE, TableError),
    "fraction as symbol": (_with(COLUMNS, "symbol", COLUMNS["symbol"] + 0.5), LAPLACE, TableError),
    "user missing": (_with(COLUMNS, "user", _late(COLUMNS, "user", None)), LAPLACE, TableError),
    "empty item": (_with(COLUMNS, "item", ["", *COLUMNS["item"].astype(str)[1:]]), LAPLACE, TableError),
    "no column": (_without(COLUMNS, "item"), LAPLACE, TableError),
    "fractions as ids": (_with(COLUMNS, "user", COLUMNS["user"] / 2), LAPLACE, TableError),
    "no policy": (COLUMNS, None, ReportError),
    "policy of the file not given": (COLUMNS, Policy.make("piecewise", STARS, "1"), ReportError),
    "policy of a row not given": (_with(COLUMNS, "policy", [DIRECT.id] * 59 + ["f" * 64]), None, ReportError),
    "pair there twice": ({name: [*values, values[7]] for name, values in COLUMNS.items()}, LAPLACE, ReportError),
}


@pytest.mark.parametrize("case", SPOILED)
def test_what_the_local_reader_refuses_is_refused_in_the_same_words(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    columns, policy, error = SPOILED[case]
    path = write(tmp_path / "spoiled.parquet", columns, policy)
    with pytest.raises(error) as expected:
        read_reports(path, POLICIES)
    with pytest.raises(error) as found:
        laid_out(spark, [path])
    assert str(found.value) == str(expected.value)
    assert "\n" not in str(found.value)


def test_a_wrong_row_is_named_with_its_row_group(spark: SparkSession, tmp_path: Path) -> None:
    columns = _with(COLUMNS, "symbol", _late(COLUMNS, "symbol", 99))
    path = write(tmp_path / "spoiled.parquet", columns, group=25)
    with pytest.raises(ReportError, match=r"spoiled.parquet row group 3 row 10: symbol 99 is not one of"):
        laid_out(spark, [path])


def test_a_pair_in_two_files_is_named_with_both_places(spark: SparkSession, tmp_path: Path) -> None:
    first = write(tmp_path / "a.parquet", COLUMNS)
    second = write(tmp_path / "b.parquet", {name: [int(values[7])] for name, values in COLUMNS.items()})
    with pytest.raises(ReportError) as expected:
        read_reports([first, second], POLICIES)
    with pytest.raises(ReportError) as found:
        laid_out(spark, [first, second])
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda folder: [], ReportError, "no file of reports was given"),  # noqa: ARG005 - one signature
        (lambda folder: [folder], ReportError, "has no files of reports in it"),
        (lambda folder: [folder / "absent.parquet"], FileError, "cannot read .*absent.parquet: No such file"),
        (lambda folder: [folder / "reports.txt"], TableError, "name it .csv or .parquet"),
    ],
)
def test_files_that_are_not_there_are_refused_before_spark_starts(
    tmp_path: Path, make: Callable[[Path], list[Path]], error: type[TacitError], said: str
) -> None:
    with pytest.raises(error, match=said):
        parts_of_files(make(tmp_path))


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "reports.parquet").write_bytes(b"not a table")
    with pytest.raises(TableError, match="is not a readable table"):
        parts_of_files([tmp_path / "reports.parquet"])


def test_a_file_without_any_reports_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "empty.parquet", {name: values[:0] for name, values in COLUMNS.items()})
    with pytest.raises(ReportError, match="there are no reports"):
        laid_out(spark, [path])
    with pytest.raises(ReportError, match="there are no reports"):
        lay_out(spark.sparkContext, [], POLICIES)


def kept_by(spark: SparkSession) -> set[int]:
    context: Any = spark.sparkContext
    return set(context._jsc.getPersistentRDDs().keySet())


def test_an_engine_that_cannot_start_leaves_nothing_on_the_cluster(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = write(tmp_path / "reports.parquet", drawn(0)), kept_by(spark)

    def refuse(_: object) -> None:
        raise EngineError("no worker answers")

    monkeypatch.setattr("tacit.learning.spark.engine._found_on", refuse)
    with pytest.raises(EngineError, match="no worker answers"):
        spark_engine(spark, [path], POLICIES)
    assert kept_by(spark) == before


@pytest.mark.parametrize("by_item", [False, True])
def test_a_layout_that_fails_half_way_leaves_nothing_on_the_cluster(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_item: bool
) -> None:
    path, before = write(tmp_path / "reports.parquet", drawn(0)), kept_by(spark)
    laid = laid_out(spark, [path])
    assert kept_by(spark) > before
    laid.close()
    assert kept_by(spark) == before

    def refuse(*_: object) -> None:
        raise ReportError("not these")

    if by_item:
        monkeypatch.setattr("tacit.learning.spark.layout._number_of", refuse)
    else:
        monkeypatch.setattr("tacit.learning.spark.layout._refuse_repeats", refuse)
    with pytest.raises(TacitError, match="not these"):
        laid_out(spark, [path])
    assert kept_by(spark) == before
