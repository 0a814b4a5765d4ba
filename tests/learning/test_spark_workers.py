"""What Python workers do beside their tasks."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from tacit.learning.spark.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark_is_there")]


def _settled_twice(_: int) -> tuple[int, int, int]:
    settle()
    left, frozen = len(gc.get_objects()), gc.get_freeze_count()
    import wave  # noqa: F401, PLC0415 - so that something is loaded after the worker has settled

    settle()
    return left, frozen, gc.get_freeze_count()


def test_workers_do_not_hunt_through_what_they_have_loaded(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize(range(2), 2).map(_settled_twice).collect()
    assert all(left < 1000 < frozen for left, frozen, _ in found)
    assert any(after > frozen for _, frozen, after in found)  # of the tasks of a worker only the first loads anything


def test_nothing_changes_outside_of_workers() -> None:
    before = gc.get_freeze_count()
    settle()
    assert gc.get_freeze_count() == before
