"""`tacit tradeoff` keeps its contract, on good input and on bad."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tacit.evaluation.world import WorldShape, make_world
from tacit.privacy.scale import RatingScale
from tacit.tables import write_columns

if TYPE_CHECKING:
    from collections.abc import Callable

STARS = RatingScale.parse("1:5:1")
VOCABULARIES = ("w3.org", "purl.org", "creativecommons.org", "matplotlib.org")
ONE = ("--mechanism", "duchi", "--epsilon", "1")
FEW = ("--mechanism", "bounded-laplace,tailored", "--epsilon", "2,0.5", "--rank", "1", "--folds", "2")


@pytest.fixture
def tradeoff(run: Callable[..., Any], tmp_path: Path, without_workers: None) -> Callable[..., Any]:
    """Run on a small synthetic world, and compute here."""
    _ = without_workers
    world = make_world(STARS, shape=WorldShape(60, 40, 900), seed=1)
    columns = {"user": world.users, "item": world.items, "rating": world.ratings}
    write_columns(tmp_path / "ratings.csv", columns, {})

    def call(*arguments: str, scale: str = "1:5:1") -> Any:
        return run("tradeoff", "ratings.csv", "--scale", scale, *arguments)

    return call


def test_rows_are_those_of_evaluate_with_every_control(tradeoff: Callable[..., Any], run: Callable[..., Any]) -> None:
    done = tradeoff(*FEW, "--seed", "4", "--json")
    assert (done.status, done.err) == (0, "")
    assert set(done.json) == {"rows", "advice"}
    rows: Any = done.json["rows"]
    assert len(rows) == 2 * 2 * 2 + 2 * 2 + 4
    assert {(row["folds"], row["seed"], row["folds_run"]) for row in rows} == {(2, 4, 2)}
    assert all(0.3 < row["rmse"] < 2 for row in rows)
    curves = [(row["mechanism"], row["at"], row["epsilon"]) for row in rows[:4]]
    assert curves == [
        ("bounded-laplace", "provider", 0.5),
        ("bounded-laplace", "provider", 2.0),
        ("tailored", "provider", 0.5),
        ("tailored", "provider", 2.0),
    ]
    assert {(row["options"]["pattern"], row["at"]) for row in rows[8:12]} == {(False, "device")}
    assert [row["mechanism"] for row in rows[12:]] == ["none"] * 4
    assert rows[-1]["options"]["reports"] is False
    assert rows[-2]["model"] == "global-mean"
    same = ["--folds", "2", "--seed", "4", "--mechanism", "tailored", "--epsilon", "2", "--rank", "1"]
    evaluated = run("evaluate", "ratings.csv", "--scale", "1:5:1", *same, "--model", "channel-mf", "--json")
    assert evaluated.json["rows"] == [rows[3]]


def test_the_table_has_a_block_for_each_place_and_the_advice(tradeoff: Callable[..., Any]) -> None:
    done = tradeoff(*FEW)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "RMSE at the provider, from reports alone:"
    assert lines[1].split() == ["epsilon", "0.5", "2"]
    assert [line.split()[0] for line in lines[2:4]] == ["bounded-laplace", "tailored"]
    assert lines[5] == "RMSE on the device, with its own true ratings:"
    assert [line.rsplit(maxsplit=2)[0] for line in lines[7:11]] == [
        "bounded-laplace",
        "tailored",
        "bounded-laplace, pattern off",
        "tailored, pattern off",
    ]
    for text in (
        "Means over 2 folds; standard deviations are ",
        "On the device, RMSE is within 1 % of the non-private",
    ):
        assert text in done.out
    assert "own ratings and the pattern, no report" in done.out
    assert max(map(len, lines)) <= 100
    kept = [path for path in Path("cache").rglob("*") if path.is_file()]
    assert len(kept) == 16 * 2
    assert tradeoff(*FEW).out == done.out


@pytest.mark.parametrize(("name", "begins"), [("t.png", b"\x89PNG"), ("t.SVG", b"<?xml"), ("t.pdf", b"%PDF")])
def test_pictures_and_rows_are_written(tradeoff: Callable[..., Any], name: str, begins: bytes) -> None:
    done = tradeoff(*ONE, "--plot", name, "-o", "rows.csv")
    assert (done.status, done.err) == (0, f"wrote {name}\n")
    assert Path(name).read_bytes().startswith(begins)
    with Path("rows.csv").open(encoding="utf-8", newline="") as file:
        assert [row["mechanism"] for row in csv.DictReader(file)] == ["duchi"] * 3 + ["none"] * 4


def test_the_page_says_everything_and_fetches_nothing(tradeoff: Callable[..., Any]) -> None:
    done = tradeoff("--mechanism", "bounded-laplace,duchi", "--epsilon", "0.5,3", "--plot", "page.html", "--json")
    assert done.status == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 4
    for text in (
        "Accuracy against epsilon: ratings.csv",
        "The true histogram of the data is used to draw this figure, and for nothing else",
        "At an equal total for a person",
        "delta = 1e-6",
        "bounded-laplace, pattern off",
        "constant, the true mean of all ratings",
        str(done.json["rows"][0]["data_sha256"]),
    ):
        assert text in page
    for address in ("http://", "https://"):
        around = [page[at : at + 60] for at in range(len(page)) if page.startswith(address, at)]
        # Names of XML vocabularies are not addresses anything is fetched from.
        assert all(any(name in text for name in VOCABULARIES) for text in around)
    assert [text for text in ("<script", "src=", "<link", "@import", "url(http") if text in page] == []


BAD: dict[str, tuple[list[str], list[str]]] = {
    "no channel": (["--mechanism", "none"], ["mechanism 'none' is no channel", "choose among bounded-laplace"]),
    "unknown mechanism": (["--mechanism", "duchi,gauss"], ["mechanism 'gauss' is no channel", "choose among"]),
    "mechanism twice": (["--mechanism", "duchi,duchi"], ["mechanism twice", "name each once"]),
    "epsilon 21": (["--epsilon", "1,21"], ["epsilon 21 is not", "0.001 to 20", "choose"]),
    "epsilon twice": (["--epsilon", "1,1.0"], ["epsilon twice", "name each once"]),
    "rank": (["--rank", "-1"], ["rank is -1", "give a whole number from 0"]),
    "one fold": (["--folds", "1"], ["'--folds': 1 is not in the range 2<=x<=1000"]),
    "more folds than ratings": (
        [*ONE, "--folds", "901"],
        ["900 ratings are too few for 901 folds", "choose fewer folds"],
    ),
    "picture of no kind": (["--plot", "t.doc"], ["t.doc ends in '.doc'", ".png, .svg or .pdf, or .html"]),
    "picture nowhere": (["--plot", "nowhere/t.png"], ["nowhere is not a folder", "--plot"]),
    "output of no kind": (["-o", "rows.txt"], ["rows.txt ends in '.txt'", "name it .csv or .parquet"]),
    "another scale": (["--scale", "1:4:1"], ["ratings.csv: rating 5", "wider scale"]),
    "a coarser scale": (["--scale", "1:5:2"], ["ratings.csv: rating", "--round"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_with_the_remedy(tradeoff: Callable[..., Any], name: str) -> None:
    arguments, said = BAD[name]
    done = tradeoff(*arguments)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("tacit: ")
    assert [part for part in said if part not in done.err] == []
    assert not Path("cache").exists()  # nothing was computed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.csv", "--scale", "1:5:1"], "cannot read none.csv"),
        (["none.csv"], "say its --scale"),
        ([], "Missing argument 'RATINGS'"),
    ],
)
def test_missing_input_is_one_line(run: Callable[..., Any], arguments: list[str], said: str) -> None:
    done = run("tradeoff", *arguments)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err
