from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tacit.errors import EngineError, FileError, ModelError
from tacit.evaluation.world import WorldShape, make_world
from tacit.learning import GlobalMeanOptions, MfAlsOptions, Model, MogMfOptions, Options, ReportMatrix, fit
from tacit.learning.spark import top_n
from tacit.learning.spark.top_n import recommend_to_parquet
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")  # one process starts Spark, and not every one

SCALE = RatingScale.parse("1:5:1")
USERS, ITEMS = 120, 30


def fitted(options: Options, *, text: bool) -> Model:
    """A model with users and items that nobody heard of, and ids of both kinds."""
    world = make_world(SCALE, shape=WorldShape(USERS, ITEMS, 1200), seed=3)
    users = np.array([f"u{user}" for user in world.users.tolist()], dtype=object) if text else world.users
    items = world.items if text else np.array([f"film {item}" for item in world.items.tolist()], dtype=object)
    strangers = (["silent", "still"], [-1]) if text else ([-1, -2], ["never seen"])
    catalogues = {"catalogue_users": strangers[0], "catalogue_items": strangers[1]}
    matrix = ReportMatrix.of_values(users, items, world.ratings, SCALE, **catalogues)
    return fit(matrix, options, np.random.default_rng(1), threads=1)


def lists_in(folder: Path) -> dict[Any, list[tuple[Any, np.float32]]]:
    """The lists by user, in order of rank, which must be 1, 2 and so on."""
    found: dict[Any, list[Any]] = {}
    for row in pq.read_table(folder).to_pylist():
        found.setdefault(row["user"], []).append((row["rank"], row["item"], np.float32(row["score"])))
    assert all([rank for rank, *_ in rows] == list(range(1, len(rows) + 1)) for rows in found.values())
    return {user: [(item, score) for _, item, score in rows] for user, rows in found.items()}


def expected(model: Model, n: int, *, exclude_rated: bool) -> dict[Any, list[tuple[Any, np.float32]]]:
    said = {user: model.recommend(user, n, exclude_rated=exclude_rated) for user in model.users.ids.tolist()}
    lists = {user: list(zip(one.items, one.ratings.tolist(), strict=True)) for user, one in said.items()}
    return {user: [(item, np.float32(score)) for item, score in one] for user, one in lists.items() if one}


@pytest.mark.parametrize(
    ("options", "text", "exclude_rated"),
    [
        (MfAlsOptions(rank=5, iterations=3), True, True),
        (MogMfOptions(rank=3, iterations=2), False, False),
        (GlobalMeanOptions(), False, True),
    ],
    ids=["offsets", "factors alone", "no factors"],
)
def test_lists_are_those_of_the_model(  # noqa: PLR0913, PLR0917 - three of them are fixtures
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: Options,
    text: bool,
    exclude_rated: bool,
) -> None:
    monkeypatch.setattr(top_n, "_MOST_USERS_AT_ONCE", 17)
    monkeypatch.setattr(top_n, "_WAVE_BYTES", 5000)  # several chunks in several waves
    model = fitted(options, text=text)
    recommend_to_parquet(spark, model, 8, tmp_path / "lists", exclude_rated=exclude_rated)
    assert lists_in(tmp_path / "lists") == expected(model, 8, exclude_rated=exclude_rated)
    assert (tmp_path / "lists" / "_SUCCESS").exists()
    schema = pq.read_schema(next((tmp_path / "lists").glob("*.parquet")))
    assert schema.names == ["user", "item", "score", "rank"]
    assert [str(kind) for kind in schema.types] == [
        *(["string", "int64"] if text else ["int64", "string"]),
        "float",
        "int32",
    ]


def test_lists_longer_than_all_that_is_left_end_early(spark: SparkSession, tmp_path: Path) -> None:
    model = fitted(MfAlsOptions(rank=2, iterations=1), text=True)
    model.save(tmp_path / "model")
    recommend_to_parquet(spark, tmp_path / "model", 3 * ITEMS, tmp_path / "lists")
    found = lists_in(tmp_path / "lists")
    assert found == expected(model, 3 * ITEMS, exclude_rated=True)
    assert max(map(len, found.values())) == model.reported_items < 3 * ITEMS


def test_an_address_of_a_folder_is_left_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    model = fitted(GlobalMeanOptions(), text=False)
    recommend_to_parquet(spark, model, 3, f"file:{tmp_path}/lists")  # as Java writes it
    assert lists_in(tmp_path / "lists") == expected(model, 3, exclude_rated=True)


def test_a_folder_that_is_there_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    model = fitted(GlobalMeanOptions(), text=False)
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "mine").write_text("precious")
    with pytest.raises(FileError, match="lists is there already; choose another folder"):
        recommend_to_parquet(spark, model, 3, tmp_path / "lists")
    assert [path.name for path in (tmp_path / "lists").iterdir()] == ["mine"]


def test_lists_that_end_half_way_are_not_marked_as_complete(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top_n, "_MOST_USERS_AT_ONCE", 17)
    monkeypatch.setattr(top_n, "_WAVE_BYTES", 5000)
    model, table_of, made = fitted(GlobalMeanOptions(), text=False), top_n._table, []

    def damaged(whole: Model, wave: list[range], *, exclude_rated: bool) -> Any:
        made.append(wave)
        table = table_of(whole, wave, exclude_rated=exclude_rated)
        return table if len(made) == 1 else table.set_column(2, "levels", [[b"odd"] * len(table)])

    monkeypatch.setattr(top_n, "_table", damaged)
    with pytest.raises(EngineError, match="Spark gave up: ValueError"):
        recommend_to_parquet(spark, model, 3, tmp_path / "lists")
    assert list((tmp_path / "lists").glob("*.parquet"))
    assert not (tmp_path / "lists" / "_SUCCESS").exists()


@pytest.mark.parametrize("n", [0, -1, 10_001])
def test_a_list_of_no_length_is_refused(spark: SparkSession, tmp_path: Path, n: int) -> None:
    with pytest.raises(ModelError, match=f"a list of {n} items"):
        recommend_to_parquet(spark, fitted(GlobalMeanOptions(), text=False), n, tmp_path / "lists")
