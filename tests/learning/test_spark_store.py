"""From the store to the cluster: every worker reads its own ranges of devices."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tacit.learning import ReportMatrix
from tacit.learning.spark.engine import SparkEngine
from tacit.learning.spark.layout import lay_out
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.provider.store import Batch, Item, ReportStore
from tacit.provider.store.ranges import StoredPart, device_ranges
from tacit.provider.store.writing import GroupWriter, Said

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


pytestmark = pytest.mark.xdist_group("spark")  # one process starts Spark, and not every one


def test_what_is_stored_is_laid_out_as_on_one_machine(spark: SparkSession, tmp_path: Path) -> None:
    address, rng = f"sqlite:///{tmp_path / 'tacit.db'}", np.random.default_rng(7)
    policies = [Policy.make(name, RatingScale.parse("1:5:1"), "1") for name in ("bounded-laplace", "duchi")]
    store = ReportStore.open(address)
    try:
        store.put_items([Item(f"film {number}", "a title") for number in range(20)])
        for policy in policies:
            key, symbols = store.adopt(policy), len(policy.channel.symbol_values)
            writer = GroupWriter(store.database, most_reports=100)
            writer.store([_said(device, key, symbols, rng) for device in range(30)])
        with device_ranges(address, 3) as ranges:
            parts = [StoredPart(address, one) for one in ranges]
            layout = lay_out(spark.sparkContext, parts, policies, chunk_reports=100)
            found = SparkEngine(layout).summary
            expected = ReportMatrix.of_parts(store.latest_reports())
            assert (len(parts), found.shape, found.checksum) == (3, expected.shape, expected.checksum)
        layout.close()
    finally:
        store.close()


def _said(device: int, policy: int, symbols: int, rng: np.random.Generator) -> Batch:
    """Some reports, of which some are newer than others on the same item."""
    drawn = zip(*(rng.integers(0, end, 12).tolist() for end in (20, symbols, 3)), strict=True)
    said = [Said(f"film {item}", symbol, revision) for item, symbol, revision in drawn]
    return Batch(hashlib.sha256(bytes([device])).digest(), policy, symbols, said)
