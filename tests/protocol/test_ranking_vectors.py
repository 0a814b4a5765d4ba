"""The committed rankings replay from the bytes of their models: this is what every other implementation must do too."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tacit.device import rank_items
from tacit.privacy.item_wire import decode_items

CASES = json.loads((Path(__file__).parents[2] / "protocol/vectors/ranking.json").read_text(encoding="utf-8"))["cases"]

# Scores are in single precision, and linear algebra rounds differently from machine to machine.
CLOSE = 2e-5


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_rankings(case: dict[str, Any]) -> None:
    ranking = rank_items(decode_items(base64.b64decode(case["model"], validate=True)), case["ratings"])
    assert ranking.predictions().tolist() == pytest.approx(case["predictions"], abs=CLOSE)
    listed = ranking.recommend(10)
    assert [(str(one.item), one.rank) for one in listed] == [(one["item"], one["rank"]) for one in case["list"]]
    for found, expected in zip(listed, case["list"], strict=True):
        assert (found.score, found.rating) == pytest.approx((expected["score"], expected["rating"]), abs=CLOSE)
        reasons, wanted = ranking.explain(found.item, 3), case["reasons"][expected["item"]]
        assert [str(reason.item) for reason in reasons] == [reason["item"] for reason in wanted]
        assert [reason.effect for reason in reasons] == pytest.approx([one["effect"] for one in wanted], abs=CLOSE)


def test_the_cases_are_of_every_kind() -> None:
    models = [decode_items(base64.b64decode(case["model"])) for case in CASES]
    assert {(model.beliefs is None, model.pattern is None) for model in models} == {
        (False, False),
        (False, True),
        (True, True),
    }
    assert {model.items.ids.dtype.kind for model in models} == {"i", "O"}
    assert any(any(not str(name).isascii() for name in model.items.ids) for model in models)
    assert any(model.mean == 0 and not model.offsets.any() for model in models)
    assert any(model.rank for model in models if model.pattern is not None)
    counts = [len(case["ratings"]) for case in CASES]
    assert (min(counts), max(counts)) == (0, 300)  # more than the 256 landmarks
    assert any(str(name).startswith("unknown") for case in CASES for name in case["ratings"])


def test_no_order_hangs_on_a_rounding() -> None:
    for case in CASES:
        scores = [one["score"] for one in case["list"]]
        assert all(first - second > 10 * CLOSE for first, second in pairwise(scores))
        for reasons in case["reasons"].values():
            sizes = [abs(reason["effect"]) for reason in reasons]
            assert all(first - second > 2 * CLOSE for first, second in pairwise(sizes))
