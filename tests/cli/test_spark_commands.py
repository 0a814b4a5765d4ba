"""Commands that compute on Spark: what they write is what they write on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tacit.learning import Model
from tacit.privacy.policy import Policy
from tacit.provider.store import Batch, Item, ReportStore
from tacit.provider.store.writing import GroupWriter, Said

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# One process starts Spark, and not every one.
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

MODEL = ["--model", "mog-mf", "--rank", "2", "--seed", "3", "--option", "regularisation=1", "--option", "iterations=3"]


@pytest.fixture
def policy_file(run: Callable[..., Any]) -> Policy:
    assert run("policy", "new", "--scale", "1:5:1", "--epsilon", "10", "-o", "policy.json").status == 0
    return Policy.load("policy.json")


def assert_same_models(one: str, other: str) -> None:
    first, second = Model.load(one), Model.load(other)
    assert first.provenance.data_checksum == second.provenance.data_checksum
    assert second.users.ids.tolist() == first.users.ids.tolist()
    np.testing.assert_allclose(second.user_factors, first.user_factors, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(second.offsets.users, first.offsets.users, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(second.fallback.items, first.fallback.items, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("policy_file")
def test_a_model_of_files_and_its_lists(run: Callable[..., Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rated = [(user, item) for user in range(40) for item in rng.choice(12, 8, replace=False)]
    lines = [f"person {user},{item},{rng.integers(1, 6)}" for user, item in rated]
    (tmp_path / "ratings.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "reports").mkdir()
    assert run("perturb", "ratings.csv", "--policy", "policy.json", "-o", "reports/some.parquet").status == 0
    local = run("fit", "reports", "--policy", "policy.json", *MODEL, "-o", "local", "--json")
    spark = run("fit", "reports", "--policy", "policy.json", *MODEL, "--engine", "spark", "-o", "spark", "--json")
    assert (spark.status, spark.json["engine"]) == (0, "spark")
    assert "here and in every worker" in spark.err
    assert spark.json["likelihood"] == pytest.approx(local.json["likelihood"], rel=1e-5)
    assert_same_models("local", "spark")
    for engine in ("local", "spark"):
        to = f"lists of {engine}"
        assert run("recommend", "local", "--everybody", "-n", "3", "--engine", engine, "-o", to).status == 0
    found, expected = (
        sorted(pq.read_table(f"lists of {engine}").to_pylist(), key=lambda row: (row["user"], row["rank"]))
        for engine in ("spark", "local")
    )
    assert [(row["user"], row["item"]) for row in found] == [(row["user"], row["item"]) for row in expected]
    assert len(found) == 120
    again = run("recommend", "local", "--everybody", "--engine", "spark", "-o", "lists of spark")
    assert (again.status, "is there already" in again.err) == (2, True)


def test_a_model_of_a_store(run: Callable[..., Any], policy_file: Policy) -> None:
    store, rng = ReportStore.open("sqlite:///tacit.db"), np.random.default_rng(1)
    key, symbols = store.adopt(policy_file), len(policy_file.channel.symbol_values)
    store.put_items([Item(f"film {item}", "a title") for item in range(12)])
    drawn = [rng.choice(12, 8, replace=False).tolist() for _ in range(30)]
    said = [[Said(f"film {item}", int(rng.integers(symbols)), 0) for item in items] for items in drawn]
    batches = [Batch(bytes([device]) * 32, key, symbols, each) for device, each in enumerate(said)]
    GroupWriter(store.database, most_reports=500).store(batches)
    store.close()
    assert run("fit", "sqlite:///tacit.db", *MODEL, "-o", "local").status == 0
    assert run("fit", "sqlite:///tacit.db", *MODEL, "--engine", "spark", "-o", "spark").status == 0
    assert_same_models("local", "spark")
