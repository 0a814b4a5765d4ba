from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tacit.device import rank_items
from tacit.privacy.item_model import ItemModel
from tacit.privacy.scale import RatingScale
from tacit.privacy.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

OWN = {"Harbour": 5, "Rain": 1, "Nowhere": 3}


@pytest.fixture
def films(run: Callable[..., Any]) -> Callable[..., Any]:
    """A public item model in a folder of its own, and ratings of one person."""
    factors = np.array([[1], [-1], [0.9], [-0.9], [0.2]], dtype=np.float32)
    words = Vocabulary.of(["Harbour", "Rain", "Lighthouse", "Storm", "Fog\x1b[2J"])
    offsets = np.array([0.2, 0.1, 0.0, 0.3, -0.1], dtype=np.float32)
    Path("model").mkdir()
    ItemModel(RatingScale.parse("1:5:1"), words, 3.0, offsets, factors).save("model/items")
    rows = "".join(f"{item},{rating}\n" for item, rating in OWN.items())
    Path("my.csv").write_text(f"item,rating\n{rows}", encoding="utf-8")
    return run


@pytest.mark.parametrize("folder", ["model", "model/", "model/items", "model/items/"])
def test_the_ranking_is_the_devices_own_and_says_why(films: Callable[..., Any], folder: str) -> None:
    done = films("personal", folder, "my.csv", "-n", "2", "--json")
    assert done.status == 0
    expected = rank_items(ItemModel.load("model/items"), OWN)
    best = expected.recommend(2)
    assert done.json == {
        "items": [
            {"item": found.item, "score": found.score, "rank": found.rank, "rating": found.rating}
            | {"reasons": [vars(reason) for reason in expected.explain(found.item)]}
            for found in best
        ],
        "fallback": False,
    }
    assert [row["item"] for row in done.json["items"]] == ["Lighthouse", "Fog\x1b[2J"]
    assert set(done.json["items"][0]["reasons"][0]) == {"item", "rating", "effect"}
    assert done.err.count("\n") == 1
    assert "by 2 of your ratings" in done.err
    assert "1 on items it does not know" in done.err
    assert "Nothing was sent anywhere" in done.err


def test_the_table_tells_reasons_in_words(films: Callable[..., Any]) -> None:
    done = films("personal", "model", "my.csv")
    header, first, *others = done.out.splitlines()
    assert header.split() == ["rank", "item", "score", "rating", "because", "of", "your"]
    assert first.split()[:2] == ["1", "Lighthouse"]
    assert "5 for Harbour (+" in first
    assert len(others) == 2
    assert "\x1b" not in done.out


def test_with_no_known_item_it_is_everybodys_order(films: Callable[..., Any]) -> None:
    Path("my.csv").write_text("item,rating\nNowhere,3\n", encoding="utf-8")
    done = films("personal", "model", "my.csv", "--json")
    assert (done.status, done.json["fallback"], done.json["items"][0]["item"]) == (0, True, "Storm")
    assert all(row["reasons"] == [] for row in done.json["items"])
    assert "rated best by everybody" in done.err


def test_ratings_between_steps_can_be_rounded(films: Callable[..., Any]) -> None:
    Path("my.csv").write_text("item,rating\nRain,4.7\n", encoding="utf-8")
    assert films("personal", "model", "my.csv").status == 2
    done = films("personal", "model", "my.csv", "--round", "--json")
    assert (done.status, done.json["items"][0]["reasons"][0]["rating"]) == (0, 5.0)


def written(text: str) -> Callable[[], None]:
    return lambda: Path("my.csv").write_text(text, encoding="utf-8") and None


def cut_short() -> None:
    arrays = Path("model/items/items.npz")
    arrays.write_bytes(arrays.read_bytes()[:-5])


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "two users": (written("user,item,rating\nann,Rain,1\nbob,Fog,2\n"), "'ann' and 'bob' among them"),
    "an item twice": (written("item,rating\nRain,1\nRain,2\n"), "both rate item 'Rain'"),
    "off the scale": (written("item,rating\nRain,7\n"), "outside the scale"),
    "no number": (written("item,rating\nRain,x\n"), "is not a number"),
    "no item": (written("film,rating\nRain,1\n"), "no column 'item'"),
    "nothing": (written(""), "my.csv"),
    "no file": (lambda: Path("my.csv").unlink(), "my.csv"),
    "no model": (lambda: shutil.rmtree("model"), "there is no file model/items.json"),
    "an empty model": (lambda: shutil.rmtree("model/items"), "there is no file model/items.json"),
    "a damaged model": (cut_short, "not the file its document describes"),
    "a model of today's grandchildren": (
        lambda: Path("model/items/items.json").write_text('{"format": "tacit-items/9"}', encoding="utf-8"),
        "not of the format tacit-items/2",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(films: Callable[..., Any], case: str) -> None:
    spoil, complaint = BAD[case]
    spoil()
    done = films("personal", "model", "my.csv", "--json")
    assert (done.status, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert complaint in done.err


@pytest.mark.parametrize("arguments", [["model"], ["model", "my.csv", "-n", "0"], ["a\0b", "my.csv"], ["", "my.csv"]])
def test_bad_usage_is_one_line_and_status_2(films: Callable[..., Any], arguments: list[str]) -> None:
    done = films("personal", *arguments)
    assert (done.status, done.out) == (2, "")
    assert done.err.count("\n") == 1
