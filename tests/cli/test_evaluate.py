"""`tacit evaluate` keeps its contract, on good input and on bad."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tacit.cli.evaluate import duration_of
from tacit.evaluation.fold import FoldResult
from tacit.evaluation.metrics import Metrics
from tacit.evaluation.rows import Row
from tacit.evaluation.setting import STUDIED_MECHANISMS, STUDIED_MODELS, Setting
from tacit.learning import GlobalMeanOptions
from tacit.tables import read_columns, write_columns

if TYPE_CHECKING:
    from collections.abc import Callable

CONTRACT: dict[str, type | tuple[type, ...]] = {
    "mechanism": str,
    "model": str,
    "at": str,
    "epsilon": (float, type(None)),
    "rank": (int, type(None)),
    "folds": int,
    "seed": int,
    "rmse": float,
    "rmse_sd": float,
    "mae": float,
    "ndcg": float,
    "f_score": float,
    "precision": float,
    "recall": float,
    "f_score_all": float,
    "precision_all": float,
    "recall_all": float,
    "fit_seconds": float,
    "n_train": int,
    "n_test": int,
    "options": dict,
    "data_sha256": str,
}


def write_ratings(path: Path, users: int = 30, items: int = 12, *, shift: float = 0) -> None:
    """Write ratings in which people of one half like the items that those of the other half do not."""
    rng = np.random.default_rng(5)
    lines = [
        f"{user},film {item},{shift + (4 + rng.integers(2) if (user + item) % 2 else 1 + rng.integers(2)):g}"
        for user in range(users)
        for item in rng.choice(items, size=8, replace=False).tolist()
    ]
    path.write_text("\n".join(["user,item,rating", *lines, ""]), encoding="utf-8")


@pytest.fixture
def evaluate(run: Callable[..., Any], tmp_path: Path, without_workers: None) -> Callable[..., Any]:
    """Evaluate small ratings, two folds, and compute here."""
    _ = without_workers
    write_ratings(tmp_path / "ratings.csv")

    def call(*arguments: str, scale: str = "1:5:1") -> Any:
        return run("evaluate", "ratings.csv", "--scale", scale, "--folds", "2", *arguments)

    return call


def rows_of(done: Any) -> list[dict[str, Any]]:
    assert (done.status, done.err) == (0, "")
    assert set(done.json) == {"rows"}
    return list(done.json["rows"])


def test_a_row_has_every_field_of_the_contract(evaluate: Callable[..., Any]) -> None:
    found = rows_of(
        evaluate("--mechanism", "bounded-laplace,none", "--epsilon", "0.5,1", "--model", "mog-mf,pg-mf", "--json")
    )
    for row in found:
        assert {name: isinstance(row[name], kind) for name, kind in CONTRACT.items()} == dict.fromkeys(CONTRACT, True)
        assert row["n_train"] + row["n_test"] == 240
        assert (row["folds"], row["seed"], len(row["data_sha256"])) == (2, 0, 64)
        assert row["options"]["rank"] == row["rank"] == 3
        assert 0 < row["mae"] <= row["rmse"] < 4
    assert [(row["mechanism"], row["model"], row["at"], row["epsilon"]) for row in found] == [
        ("bounded-laplace", "mog-mf", "provider", 0.5),
        ("bounded-laplace", "mog-mf", "provider", 1.0),
        ("none", "mog-mf", "provider", None),
        ("pg-mf", "pg-mf", "device", 0.5),
        ("pg-mf", "pg-mf", "device", 1.0),
    ]


def test_every_mechanism_goes_with_every_model(evaluate: Callable[..., Any]) -> None:
    with_channel = [mechanism for mechanism in STUDIED_MECHANISMS if mechanism != "laplace"]
    without = [model for model in STUDIED_MODELS if model != "channel-mf"]
    found = []
    for mechanisms, models in ((with_channel, STUDIED_MODELS), (["laplace"], without)):
        wanted = ["--mechanism", ",".join(mechanisms), "--model", ",".join(models)]
        found += rows_of(evaluate(*wanted, "--rank", "2", "--json"))
    assert len(found) == len(STUDIED_MECHANISMS) * (len(STUDIED_MODELS) - 1) - 1 + 2  # pg-mf is there both times
    assert {row["model"]: row["rank"] for row in found} == dict.fromkeys(STUDIED_MODELS, 2) | {
        "offsets": None,
        "global-mean": None,
    }


def where(rows: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(row["mechanism"], row["model"], row["at"]) for row in rows]


def test_predictions_are_made_at_both_places(evaluate: Callable[..., Any]) -> None:
    wanted = ["--mechanism", "bounded-laplace,none", "--model", "channel-mf,mf-als,pg-mf", "--epsilon", "1"]
    both = rows_of(evaluate(*wanted, "--at", "provider,device", "--json"))
    assert where(both) == [
        (mechanism, model, place)
        for mechanism in ("bounded-laplace", "none")
        for model in ("channel-mf", "mf-als")
        for place in ("provider", "device")
    ] + [("pg-mf", "pg-mf", "device")]
    # Each place gives the same alone.
    device = rows_of(evaluate(*wanted, "--at", "device", "--json"))
    assert device == [row for row in both if row["at"] == "device"]
    assert all(row["n_train"] + row["n_test"] == 240 for row in both)


def test_a_model_that_no_device_can_rank_with_is_left_out_with_a_line(evaluate: Callable[..., Any]) -> None:
    done = evaluate("--model", "offsets,mf-als,global-mean", "--at", "provider,device", "--json")
    assert done.status == 0
    assert done.err.splitlines() == [
        f"{model} is left out on the device: it has no item factors to rank with"
        for model in ("offsets", "global-mean")
    ]
    blp = "bounded-laplace"
    assert where(done.json["rows"]) == [
        (blp, "offsets", "provider"),
        (blp, "mf-als", "provider"),
        (blp, "mf-als", "device"),
        (blp, "global-mean", "provider"),
    ]
    alone = evaluate("--model", "offsets,mf-als", "--at", "device", "--json")
    assert (alone.status, alone.err.count("\n")) == (0, 1)
    assert where(alone.json["rows"]) == [(blp, "mf-als", "device")]


def test_the_pattern_and_the_reports_can_be_switched_off(evaluate: Callable[..., Any]) -> None:
    figures = {}
    for switch in ("pattern=on", "pattern=off", "reports=off", "tune=off"):
        line = ["--model", "channel-mf", "--at", "provider,device", "--option", f"channel-mf.{switch}", "--json"]
        rows = rows_of(evaluate(*line))
        name, value = switch.split("=")
        assert {row["options"][name] for row in rows} == {value == "on"}
        figures[switch] = tuple(row["rmse"] for row in rows)
    assert len({device for _, device in figures.values()}) == len(set(figures.values())) == 4


def test_options_reach_their_model_and_no_other(evaluate: Callable[..., Any]) -> None:
    given = ["--option", "mf-als.regularisation=15", "--option", "mf-als.offsets=true", "--option", "svd.rank=1"]
    als, svd = rows_of(evaluate("--model", "mf-als,svd", "--rank", "2", *given, "--seed", "9", "--json"))
    assert (als["rank"], als["options"]["regularisation"], als["options"]["offsets"]) == (2, 15, True)
    assert (svd["rank"], svd["options"]["rank"], svd["options"]["fill"], svd["seed"]) == (1, 1, "item", 9)


def test_the_seed_decides_everything(evaluate: Callable[..., Any], tmp_path: Path) -> None:
    def figures(seed: str) -> list[float]:
        row = rows_of(evaluate("--seed", seed, "--json"))[0]
        return [row[name] for name in row if isinstance(row[name], float) and name != "fit_seconds"]

    first = figures("4")
    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    assert figures("4") == first
    assert figures("5") != first


def test_the_threshold_can_be_set(evaluate: Callable[..., Any]) -> None:
    usual, higher = (rows_of(evaluate("--model", "offsets", "--json", *more))[0] for more in ([], ["--threshold", "5"]))
    assert (usual["threshold"], higher["threshold"]) == (3.4, 5)
    assert usual["rmse"] == higher["rmse"]
    assert usual["recall_everything"] == higher["recall_everything"] == 1
    assert usual["precision_everything"] > higher["precision_everything"] > 0


def test_ratings_between_two_steps_need_rounding(evaluate: Callable[..., Any], tmp_path: Path) -> None:
    exact = rows_of(evaluate("--model", "global-mean", "--json"))[0]
    write_ratings(tmp_path / "ratings.csv", shift=-0.25)
    refused = evaluate("--model", "global-mean", scale="0:5:1")
    assert refused.status == 2
    assert refused.err.count("\n") == 1
    assert "--round" in refused.err
    row = rows_of(evaluate("--model", "global-mean", "--json", "--round", scale="0:5:1"))[0]
    assert row["rmse"] == pytest.approx(exact["rmse"], abs=0.2)
    assert row["data_sha256"] != exact["data_sha256"]


@pytest.mark.parametrize("scale", [["--scale", "-10:10:0.25"], ["--scale=-10:10:0.25"]])
def test_a_scale_may_begin_with_a_minus(
    run: Callable[..., Any], tmp_path: Path, scale: list[str], without_workers: None
) -> None:
    _ = without_workers
    write_ratings(tmp_path / "ratings.csv", shift=-6.75)
    done = run("evaluate", "ratings.csv", *scale, "--folds", "2", "--model", "offsets", "--json")
    assert (rows_of(done)[0]["scale"], done.json["rows"][0]["threshold"]) == ("-10:10:0.25", 2)


def test_the_table_shows_what_everything_gives(evaluate: Callable[..., Any]) -> None:
    done = evaluate("--mechanism", "none,duchi", "--model", "offsets,pg-mf")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert " ".join(lines[0].split()) == "mechanism model at epsilon rank RMSE MAE nDCG F F everything F all fit"
    assert [line.split()[:5] for line in lines[1:4]] == [
        ["none", "offsets", "provider", "-", "-"],
        ["duchi", "offsets", "provider", "1", "-"],
        ["pg-mf", "pg-mf", "device", "1", "3"],
    ]
    assert "+-" in lines[1]
    assert "relevant from 3.4 on" in done.out
    assert "read it beside 'F everything', which recommends all of them" in done.out
    assert max(map(len, lines)) <= 132


def test_rows_are_written_as_csv_and_parquet(evaluate: Callable[..., Any], tmp_path: Path) -> None:
    wanted = ["--mechanism", "none,duchi", "--model", "mf-als,offsets", "--json"]
    found = rows_of(evaluate(*wanted, "-o", "rows.csv"))
    assert rows_of(evaluate(*wanted, "--output", "rows.parquet")) == found
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        texts = list(csv.DictReader(file))
    table = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    for row, text, stored in zip(found, texts, table, strict=True):
        assert set(row) == set(text) == set(stored)
        assert [json.loads(one["options"]) for one in (text, stored)] == [row["options"]] * 2
        assert {name: stored[name] for name in row if not isinstance(row[name], dict)} == {
            name: value for name, value in row.items() if not isinstance(value, dict)
        }
        assert float(text["rmse"]) == pytest.approx(row["rmse"])
        assert text["epsilon"] == ("" if row["epsilon"] is None else "1")
    assert read_columns(tmp_path / "rows.csv", ["rmse"])[0].numbers().tolist() == [row["rmse"] for row in found]


def test_neither_the_format_nor_the_columns_matter(evaluate: Callable[..., Any], run: Callable[..., Any]) -> None:
    first = rows_of(evaluate("--model", "mf-als", "--json"))[0]
    user, item, rating = read_columns("ratings.csv", ["user", "item", "rating"])
    columns = {"rating": rating.numbers(), "timestamp": np.zeros(240), "item": item.ids().decoded()}
    write_columns("ratings.parquet", columns | {"user": user.ids().decoded()}, {})
    done = run("evaluate", "ratings.parquet", "--scale", "1:5:1", "--folds", "2", "--model", "mf-als", "--json")
    own = {"data", "data_sha256", "fit_seconds"}
    second = rows_of(done)[0]
    assert {name for name in first if first[name] != second[name]} <= own
    assert (first["data"], second["data"]) == ("ratings.csv", "ratings.parquet")


BAD: dict[str, tuple[list[str], list[str]]] = {
    "unknown mechanism": (["--mechanism", "gauss"], ["mechanism 'gauss'", "choose one of", "bounded-laplace"]),
    "unknown mechanism, for pg-mf": (["--mechanism", "gauss", "--model", "pg-mf"], ["mechanism 'gauss'", "choose"]),
    "pg-mf as a mechanism": (["--mechanism", "pg-mf"], ["mechanism 'pg-mf'", "choose one of"]),
    "unknown model": (["--model", "knn"], ["no model 'knn'", "choose one of mog-mf", "pg-mf"]),
    "unknown place": (["--at", "cloud"], ["'cloud' is no place", "write provider or device"]),
    "place twice": (["--at", "device,device"], ["'device,device'", "place twice", "name each once"]),
    "nothing for the device": (
        ["--at", "device", "--model", "offsets,global-mean"],
        ["offsets, global-mean has no item factors for a device to rank with", "write --at provider"],
    ),
    "no channel": (
        ["--mechanism", "laplace", "--model", "channel-mf"],
        ["channel-mf reads reports through their channel", "laplace noise has none", "choose clamped-laplace"],
    ),
    "no switch": (
        ["--model", "channel-mf", "--option", "channel-mf.pattern=perhaps"],
        ["pattern", "perhaps"],
    ),
    "unknown option": (["--option", "mog-mf.colour=red"], ["mog-mf has no option 'colour'", "rank=3"]),
    "option of no model": (["--option", "rank=3"], ["option 'rank' is of no model", "a dot, a name"]),
    "option of another model": (["--option", "svd.rank=3"], ["option 'svd.rank'", "write one of mog-mf"]),
    "option without a value": (["--option", "mog-mf.rank"], ["'mog-mf.rank' is not NAME=VALUE", "write"]),
    "option twice": (["--option", "mog-mf.rank=2", "--option", "mog-mf.rank=3"], ["'mog-mf.rank'", "give it once"]),
    "option of another kind": (["--option", "mog-mf.rank=two"], ["rank is 'two'", "give a whole number"]),
    "option out of range": (["--option", "mog-mf.rank=0"], ["rank is 0", "give a whole number from 1"]),
    "rank": (["--rank", "0"], ["rank is 0", "give a whole number from 1"]),
    "rank beyond the data": (["--rank", "13", "--model", "svd"], ["rank is 13", "12 at most"]),
    "epsilon 0": (["--epsilon", "0"], ["epsilon 0 is not", "0.001 to 20", "choose"]),
    "epsilon 21": (["--epsilon", "1,21"], ["epsilon 21 is not", "0.001 to 20", "choose"]),
    "epsilon of letters": (["--epsilon", "abc"], ["epsilon abc is not", "0.001 to 20", "choose"]),
    "epsilon twice": (["--epsilon", "1,2,1"], ["'1,2,1' names the same epsilon twice", "name each once"]),
    "epsilon twice, otherwise written": (["--epsilon", "1,1.0"], ["'1,1.0'", "epsilon twice", "name each once"]),
    "mechanism twice": (["--mechanism", "none,none"], ["'none,none'", "mechanism twice", "name each once"]),
    "model twice": (["--model", "svd, svd"], ["'svd, svd'", "model twice", "name each once"]),
    "no epsilon between commas": (["--epsilon", "1,,2"], ["'1,,2' names no epsilon", "write one or more"]),
    "no model": (["--model", ""], ["'' names no model", "write one or more"]),
    "a comma too many": (["--mechanism", "none,"], ["'none,' names no mechanism", "write one or more"]),
    "one fold": (["--folds", "1"], ["'--folds': 1 is not in the range 2<=x<=1000"]),
    "more folds than ratings": (["--folds", "241"], ["240 ratings are too few for 241 folds", "choose fewer folds"]),
    "negative seed": (["--seed", "-1"], ["'--seed': -1 is not in the range 0<=x"]),
    "no job": (["--jobs", "0"], ["'--jobs': 0 is not in the range 1<=x<=256"]),
    "threshold off the scale": (["--threshold", "5.5"], ["threshold 5.5 is outside 1 to 5", "choose one on the scale"]),
    "threshold that is none": (["--threshold", "nan"], ["threshold nan is outside 1 to 5", "choose"]),
    "scale": (["--scale", "5:1:1"], ["5:1:1"]),
    "another scale": (["--scale", "1:4:1"], ["ratings.csv: rating 5", "outside the scale 1 to 4", "wider scale"]),
    "output nowhere": (["-o", "nowhere/rows.csv"], ["nowhere is not a folder", "make it"]),
    "output of no kind": (["-o", "rows.txt"], ["rows.txt ends in '.txt'", "name it .csv or .parquet"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_with_the_remedy(evaluate: Callable[..., Any], name: str) -> None:
    arguments, said = BAD[name]
    done = evaluate(*arguments)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("tacit: ")
    assert [part for part in said if part not in done.err] == []
    assert not Path("cache").exists()  # nothing was computed


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, ["cannot read given.csv: ", "No such file", "check the path"]),
        ("", ["given.csv", "check the file"]),
        ("user,item,rating\n", ["given.csv has a header but no rows", "give at least one"]),
        ("user,rating\n1,5\n", ["given.csv has no column 'item'", "it needs user, item, rating"]),
        ("user,item,rating\n1,1,five\n", ["given.csv row 1: rating 'five' is not a number", "correct"]),
        ("user,item,rating\n1,1,5\n1,1,4\n", ["given.csv rows 1 and 2 both rate item 1 for user 1", "keep one"]),
        ("user,item,rating\n1,1,5\n1,2,nan\n", ["given.csv", "nan"]),
        ("user,item,rating\n1,1,5\n1,,4\n", ["given.csv row 2: item is missing", "fill it in"]),
    ],
)
def test_an_unusable_file_is_one_line(
    run: Callable[..., Any], tmp_path: Path, content: str | None, said: list[str]
) -> None:
    if content is not None:
        (tmp_path / "given.csv").write_text(content, encoding="utf-8")
    done = run("evaluate", "given.csv", "--scale", "1:5:1")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert [part for part in said if part not in done.err] == []


def test_a_file_without_a_scale_and_an_unknown_data_set_are_told_apart(run: Callable[..., Any]) -> None:
    for name in ("ratings.csv", "ml-100"):
        done = run("evaluate", name)
        assert (done.status, done.err.count("\n")) == (2, 1)
        assert done.err.startswith(f"tacit: {name}: say its --scale, such as 1:5:1, or name a data set: ml-100k, ")


def test_a_cache_that_cannot_be_written_to_is_one_line(
    evaluate: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("TACIT_CACHE", "file")
    done = evaluate("--model", "offsets")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "file/folds" in done.err
    assert "set TACIT_CACHE to a folder that can be written to" in done.err


def test_long_fits_are_told_in_minutes() -> None:
    def shown(seconds: float) -> str:
        result = FoldResult(Metrics(*[0.5] * 12, users=1), 9, 1, seconds, None)
        return duration_of(Row(Setting("none", None, GlobalMeanOptions()), "", "", "1:5:1", 3.4, (result,)))

    assert [shown(seconds) for seconds in (0.004, 1.5, 600.0)] == ["0.00 s", "1.50 s", "10 min"]


# With processes.


def test_the_same_again_is_answered_from_what_is_kept(run: Callable[..., Any], tmp_path: Path) -> None:
    write_ratings(tmp_path / "ratings.csv")
    command = ["evaluate", "ratings.csv", "--scale", "1:5:1", "--folds", "3", "--model", "mf-als,pg-mf", "--json"]
    first = run(*command, "--jobs", "2")
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    assert len(kept) == 6
    again = run(*command, "--jobs", "1")
    assert rows_of(first) == rows_of(again)  # fit_seconds included
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*") if path.is_file()} == kept


def test_an_interrupt_is_one_line_and_what_was_done_is_kept(tmp_path: Path) -> None:
    write_ratings(tmp_path / "ratings.csv")
    # Whoever runs the tests may have left interrupts ignored, which children inherit.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from tacit.cli import main; main()"
    command = [sys.executable, "-c", code, "evaluate", "ratings.csv", "--scale", "1:5:1", "--jobs", "2"]
    command += ["--mechanism", "none", "--model", "offsets,mog-mf", "--rank", "20"]
    endless = ["--option", "mog-mf.iterations=10000", "--option", "mog-mf.tolerance=0"]
    with subprocess.Popen(
        [*command, *endless], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            while not list((tmp_path / "cache").rglob("*.json")) and process.poll() is None:
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
            said = process.communicate(timeout=60)[1]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert said.strip() == "tacit: interrupted"
    assert list((tmp_path / "cache").rglob("*.json"))


# Real data.


def test_real_ratings_give_the_published_errors(run: Callable[..., Any], data_file: Callable[[str], Path]) -> None:
    path = str(data_file("ml-100k.parquet"))
    options = ["rank=10", "regularisation=15", "offsets=true"]
    found = rows_of(
        run(
            *["evaluate", path, "--scale", "1:5:1", "--mechanism", "none", "--model", "mf-als,global-mean"],
            *[part for option in options for part in ("--option", f"mf-als.{option}")],
            *["--folds", "10", "--jobs", "2", "--json"],
        )
    )
    factors, flat = found
    assert 0.90 < factors["rmse"] < 0.92
    assert factors["rmse_sd"] < 0.02
    assert flat["rmse"] == pytest.approx(1.125, abs=0.002)
    # A constant above the threshold recommends everything; items without a report have the user's mean instead.
    assert flat["f_score"] == pytest.approx(flat["f_score_everything"], abs=0.001)
    assert (factors["n_train"], factors["n_test"], factors["epsilon"]) == (90_000, 10_000, None)
