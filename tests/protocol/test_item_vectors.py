"""The committed item models read as they say, or are refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tacit.errors import ModelError
from tacit.privacy.item_wire import decode_items, encode_items

VECTORS = Path(__file__).parents[2] / "protocol" / "vectors"


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", load("items.json"), ids=lambda vector: vector["name"])
def test_item_models(vector: dict[str, Any]) -> None:
    model = decode_items(base64.b64decode(vector["wire"], validate=True))
    parts = [part for part in (model, model.beliefs, model.pattern) if part is not None]
    found = {name: value for part in parts for name, value in vars(part).items()}
    assert [str(name) for name in model.items.ids] == vector["items"]
    assert str(model.scale) == "1:5:0.5"
    assert model.mean == vector["mean"]
    for name in set(vector) - {"name", "wire", "items", "mean"}:
        assert found[name].tolist() == vector[name], name
    again = decode_items(encode_items(model))
    assert again.factors.tolist() == model.as_published().factors.tolist()


@pytest.mark.parametrize("vector", load("refused-items.json"), ids=lambda vector: vector["why"])
def test_refused_item_models(vector: dict[str, Any]) -> None:
    with pytest.raises(ModelError) as caught:
        decode_items(base64.b64decode(vector["wire"], validate=True))
    assert len(str(caught.value).splitlines()) == 1


def test_every_refused_item_model_is_refused_for_its_own_reason() -> None:
    vectors = [base64.b64decode(vector["wire"]) for vector in load("refused-items.json")]
    assert len(set(vectors)) == len(vectors)
    good = {vector["wire"] for vector in load("items.json")}
    assert not good & {vector["wire"] for vector in load("refused-items.json")}
