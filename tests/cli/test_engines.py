"""Other engines than the local one, and other sources than files, from the command line."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tacit.cli.sources import refuse_password
from tacit.learning import Model
from tacit.privacy.policy import Policy
from tacit.provider.store import Batch, Item, ReportStore
from tacit.provider.store.writing import GroupWriter, Said

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import NoReturn

FIT = ["fit", "reports.parquet", "--policy", "policy.json", "--rank", "2", "--seed", "3", "-o", "model"]
RIDGED = ["--option", "regularisation=0.5", "--option", "iterations=8"]


@pytest.fixture
def reports(run: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Make a policy and reports under it, by the commands for that."""
    rng = np.random.default_rng(5)
    rows = [
        f"{user},film {item},{rng.integers(1, 6)}" for user in range(50) for item in rng.choice(12, 8, replace=False)
    ]
    (tmp_path / "ratings.csv").write_text("user,item,rating\n" + "\n".join(rows) + "\n", encoding="utf-8")
    assert run("policy", "new", "--scale", "1:5:1", "--epsilon", "10", "-o", "policy.json").status == 0
    assert run("perturb", "ratings.csv", "--policy", "policy.json", "-o", "reports.parquet").status == 0
    return run


WRONG = {
    "an unknown engine": (["--engine", "abacus"], "engine 'abacus' is unknown; choose one of local, spark, gpu, auto"),
    "settings of Spark without it": (["--spark", "spark.master=local[2]"], "add --engine spark"),
    "a setting that is none": (["--engine", "spark", "--spark", "fast"], "'fast' is not NAME=VALUE"),
    "a model that only local has": (["--engine", "gpu", "--model", "svd"], "for svd use local"),
    "the same on Spark": (["--engine", "spark", "--model", "mf-sgd"], "for mf-sgd use local"),
    "a start that needs one machine": (
        ["--engine", "spark", "--option", "start=svd"],
        "start=svd needs all reports",
    ),
    "a file that is not there": (["absent.parquet", "--engine", "spark"], "cannot read absent.parquet"),
    "threads on Spark": (["--engine", "spark", "--threads", "2"], "set --spark spark.task.cpus=N instead"),
    "threads on a GPU": (["--engine", "gpu", "--threads", "2"], "of no use to the engine gpu; leave it out"),
    "a file and a store": (["sqlite:///some.db"], "a store is read by itself"),
    "an address of a file": (["s3://bucket/reports.parquet"], "addresses (s3://) are read by the engine spark; add"),
    "an address with a secret": (["s3://AKIA:hush@bucket/reports"], "has a secret before its @, which logs would show"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_done_is_said_in_one_line(reports: Callable[..., Any], case: str) -> None:
    more, said = WRONG[case]
    found = reports(*FIT, *more)
    assert found.status == 2
    assert said in found.err
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:hush@h/db",
        "postgresql://u:a/hush@h/db",
        "postgresql+psycopg://u@h/db?password=hush",
        "postgresql://u@h/db?%70assword=hush",
        "postgresql://u@h/db?sslpassword=hush",
        "postgresql://u@h/db?scram_client_key=hush",
        "postgresql://u@h/db?oauth_client_secret=hush",
    ],
)
def test_a_password_is_no_business_of_spark_submit(
    reports: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    found = reports("fit", address, "--engine", "spark", "-o", "model")
    assert found.status == 2
    assert "spark-submit writes its command line into Spark's event log" in found.err
    assert "hush" not in found.err


def test_where_a_password_lies_may_be_said_to_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    refuse_password("postgresql://u@h/db?passfile=/home/u/.pgpass&keepalives=1")


def test_files_need_their_policies(reports: Callable[..., Any]) -> None:
    found = reports("fit", "reports.parquet", "-o", "model")
    assert (found.status, "give --policy" in found.err) == (2, True)


def test_without_a_gpu_there_is_one_clear_line(reports: Callable[..., Any], absent: Callable[[str], NoReturn]) -> None:
    if importlib.util.find_spec("torch") is None:
        absent("PyTorch is not installed; install tacit[gpu]")
    import torch  # noqa: PLC0415 - only if it is there

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    found = reports("fit", "there-is-none.parquet", *FIT[2:], "--engine", "gpu")  # it is said before reports are read
    assert found.status == 2
    assert "no CUDA device" in found.err
    assert "TACIT_GPU_DEVICE=cpu" in found.err


@pytest.mark.parametrize("model", ["mog-mf", "mf-als", "channel-mf"])
def test_the_gpu_engine_gives_the_local_model(
    reports: Callable[..., Any], absent: Callable[[str], NoReturn], monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    if importlib.util.find_spec("torch") is None:
        absent("PyTorch is not installed; install tacit[gpu]")
    monkeypatch.setenv("TACIT_GPU_DEVICE", "cpu")
    options = [] if model == "channel-mf" else RIDGED
    local = reports(*FIT, "--model", model, *options, "--json")
    other = reports(*FIT[:-1], "other", "--model", model, *options, "--engine", "gpu", "--json")
    assert (local.json["engine"], other.json["engine"]) == ("local", "gpu")
    assert "reports stay there" in other.err
    assert other.json["objective"] == pytest.approx(local.json["objective"], rel=1e-5)
    one, two = Model.load("model"), Model.load("other")
    assert one.provenance.data_checksum == two.provenance.data_checksum
    np.testing.assert_allclose(
        two.user_factors @ two.item_factors.T, one.user_factors @ one.item_factors.T, rtol=1e-3, atol=1e-3
    )


def test_auto_says_what_it_chose(reports: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TACIT_GPU_DEVICE", raising=False)
    monkeypatch.setattr("tacit.learning.gpu.gpu_found", lambda: (False, "there is no GPU that PyTorch can use"))
    assert "engine local: there is no GPU" in reports(*FIT, "--engine", "auto").err
    more = ["--engine", "auto", "--model", "svd", "--spark", "spark.master=yarn", "--threads", "1"]
    assert "engine local: svd has no other; --spark is of no use to it\n" in reports(*FIT, *more).err
    found = reports("fit", "hdfs:///reports", *FIT[2:], "--engine", "auto", "--model", "svd")
    assert (found.status, "for svd use local, and files of this machine" in found.err) == (2, True)


def test_auto_stays_here_where_a_fit_does_not_go_to_the_gpu(
    reports: Callable[..., Any], absent: Callable[[str], NoReturn], monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("torch") is None:
        absent("PyTorch is not installed; install tacit[gpu]")
    monkeypatch.setenv("TACIT_GPU_DEVICE", "cpu")  # in a GPU's place, once it is chosen
    monkeypatch.setenv("TACIT_GPU_MEMORY", "20000")
    monkeypatch.setattr("tacit.learning.gpu.gpu_found", lambda: (True, "there is a small GPU"))
    found = reports(*FIT, "--engine", "auto", "--json")
    assert (found.status, found.json["engine"]) == (0, "local")
    assert "engine gpu: there is a small GPU" in found.err
    assert "engine local after all: the fit needs at least" in found.err
    assert reports(*FIT, "--engine", "gpu").status == 2


def test_auto_refuses_a_device_that_is_none(
    reports: Callable[..., Any], absent: Callable[[str], NoReturn], monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("torch") is None:
        absent("PyTorch is not installed; install tacit[gpu]")
    monkeypatch.setenv("TACIT_GPU_DEVICE", "cuda:7x")
    found = reports(*FIT, "--engine", "auto")
    assert (found.status, "TACIT_GPU_DEVICE is 'cuda:7x'" in found.err) == (2, True)
    monkeypatch.setenv("TACIT_GPU_DEVICE", "cpu")
    assert "engine local: TACIT_GPU_DEVICE is cpu\n" in reports(*FIT, "--engine", "auto").err


@pytest.mark.parametrize("engine", ["auto", "gpu"])
def test_a_pytorch_that_cannot_be_loaded_is_said_in_one_line(
    reports: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "torch.py").write_text("raise ImportError('libcudnn.so.9: no such file')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "broken"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch" or ".gpu." in name]:
        monkeypatch.delitem(sys.modules, name)
    found = reports(*FIT, "--engine", engine)
    assert "PyTorch is installed and cannot be loaded (libcudnn.so.9: no such file)" in found.err
    assert found.status == (0 if engine == "auto" else 2)


def test_auto_sends_nothing_to_spark_that_needs_all_reports(
    reports: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.cli.engines.available_memory", lambda: 10)
    found = reports(*FIT, "--engine", "auto", "--option", "start=svd")
    assert (found.status, "engine local: reports take about" in found.err) == (0, True)
    assert "but start=svd needs all of them on one machine" in found.err


def test_auto_counts_what_a_store_has(reports: Callable[..., Any], store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.cli.engines.available_memory", lambda: 10)
    monkeypatch.setattr("tacit.cli.engines.importlib.util.find_spec", lambda _: None)
    said = reports("fit", store, *FIT[4:], "--engine", "auto").err
    assert "engine local: reports take about 0 GB, and 0 GB of memory are to be had, but Spark is not installed" in said


def test_a_folder_of_parts_is_one_source(reports: Callable[..., Any], tmp_path: Path) -> None:
    whole = pq.read_table("reports.parquet")
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, first in enumerate(range(0, len(whole), 150)):
        pq.write_table(whole.slice(first, 150), folder / f"part-{number:05}.parquet")
    (folder / "_SUCCESS").touch()
    assert reports(*FIT).status == 0
    assert reports("fit", "parts", *FIT[2:-1], "other").status == 0
    assert Model.load("model").provenance.data_checksum == Model.load("other").provenance.data_checksum
    (tmp_path / "nothing").mkdir()
    found = reports("fit", "nothing", *FIT[2:])
    assert (found.status, "has no files in it" in found.err) == (2, True)


@pytest.fixture
def store(reports: Callable[..., Any], tmp_path: Path) -> str:  # noqa: ARG001 - what fills it
    """A store with the same reports, of devices in the order of users."""
    address, policy = f"sqlite:///{tmp_path / 'reports.db'}", Policy.load("policy.json")
    opened = ReportStore.open(address)
    key = opened.adopt(policy)
    opened.put_items([Item(f"film {number}", f"Film {number}") for number in range(12)])
    said: dict[int, list[Said]] = {}
    for row in pq.read_table("reports.parquet").to_pylist():
        said.setdefault(row["user"], []).append(Said(row["item"], row["symbol"], 0))
    symbols = policy.channel.weights.symbols
    tokens = {user: hashlib.sha256(str(user).encode()).digest() for user in sorted(said)}
    writer = GroupWriter(opened.database, most_reports=1000)
    for user in sorted(said):
        writer.store([Batch(tokens[user], key, symbols, said[user])])
    opened.close()
    return address


def test_a_store_is_a_source_and_knows_its_policies(reports: Callable[..., Any], store: str, tmp_path: Path) -> None:
    assert reports(*FIT, *RIDGED).status == 0
    assert reports("fit", store, *FIT[4:-1], "other", *RIDGED).status == 0
    one, two = Model.load("model"), Model.load("other")
    assert one.provenance.policies == two.provenance.policies
    assert one.trace.objective == two.trace.objective  # users have other names, and the same order
    assert reports("fit", store, "--policy", "policy.json", *FIT[4:-1], "third", *RIDGED).status == 0
    assert reports("policy", "new", "--scale", "1:5:1", "--epsilon", "2", "-o", "wrong.json").status == 0
    found = reports("fit", store, "--policy", "wrong.json", *FIT[4:-1], "fourth")
    assert (found.status, "which was not given" in found.err) == (2, True)
    ReportStore.open(f"sqlite:///{tmp_path / 'empty.db'}").close()
    found = reports("fit", f"sqlite:///{tmp_path / 'empty.db'}", "-o", "fifth")
    assert (found.status, "has no reports" in found.err) == (2, True)


def test_lists_of_everybody_are_those_of_each(reports: Callable[..., Any], tmp_path: Path) -> None:
    assert reports(*FIT, *RIDGED).status == 0
    assert reports("recommend", "model", "--everybody", "-n", "3", "-o", "lists").status == 0
    model, table = Model.load("model"), pq.read_table("lists").to_pylist()
    for user in model.users.ids:
        own = sorted((row for row in table if row["user"] == user), key=lambda row: row["rank"])
        expected = model.recommend(int(user), 3)
        assert [row["item"] for row in own] == expected.items
        np.testing.assert_allclose([row["score"] for row in own], expected.ratings, rtol=1e-6)
    assert (tmp_path / "lists" / "_SUCCESS").exists()
    again = reports("recommend", "model", "--everybody", "-n", "3", "-o", "lists")
    assert (again.status, "there already" in again.err) == (2, True)


@pytest.mark.parametrize("whom", [[], ["--user", "1", "--everybody", "-o", "x"], ["--user", "1", "-o", "x"]])
def test_lists_are_for_one_or_for_everybody(reports: Callable[..., Any], whom: list[str]) -> None:
    assert reports(*FIT).status == 0
    found = reports("recommend", "model", *whom)
    assert (found.status, found.err.count("\n")) == (2, 1)
    assert reports("recommend", "model", "--everybody").status == 2


@pytest.mark.parametrize(
    ("whom", "said"),
    [
        (["--user", "1", "--engine", "spark"], "the list of one user is found on this machine"),
        (["--user", "1", "--spark", "spark.master=yarn"], "of no use to the engine local; add --engine spark"),
        (
            ["--everybody", "-o", "x", "--spark", "spark.master=yarn"],
            "of no use to the engine local; add --engine spark",
        ),
    ],
)
def test_settings_that_would_be_ignored_are_refused(reports: Callable[..., Any], whom: list[str], said: str) -> None:
    found = reports("recommend", "model", *whom)
    assert (found.status, said in found.err) == (2, True)
