"""The committed vectors replay: this is what every other implementation must do too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from tacit.errors import ReportError, TacitError
from tacit.privacy.compact import decode_compact, encode_compact
from tacit.privacy.policy import Policy
from tacit.privacy.report import Report, decode_json, encode_json

PROTOCOL = Path(__file__).parents[2] / "protocol"


def load(name: str) -> Any:
    return json.loads((PROTOCOL / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", load("vectors/draws.json"), ids=lambda vector: vector["policy"]["mechanism"])
def test_draws(vector: dict[str, Any]) -> None:
    policy = Policy.from_json(json.dumps(vector["policy"]))
    ranks = policy.scale.ranks_of([float(draw["rating"]) for draw in vector["draws"]])
    words = np.array([int(draw["word"]) for draw in vector["draws"]], dtype=np.uint64)
    assert policy.channel.draw(ranks, words).tolist() == [draw["symbol"] for draw in vector["draws"]]
    assert len({draw["symbol"] for draw in vector["draws"]}) > 1


@pytest.mark.parametrize("vector", load("vectors/refused-policies.json"), ids=lambda vector: vector["why"])
def test_refused_policies(vector: dict[str, Any]) -> None:
    with pytest.raises(TacitError):
        Policy.from_json(vector["document"])


@pytest.mark.parametrize("vector", load("vectors/batches.json"))
def test_batches(vector: dict[str, Any]) -> None:
    policy = Policy.from_json(json.dumps(vector["policy"]))
    reports = [Report(policy.id, row["item"], row["symbol"], row["revision"]) for row in vector["reports"]]
    assert encode_compact(reports, policy).hex() == vector["compact"]
    assert decode_compact(bytes.fromhex(vector["compact"]), {policy.id: policy}) == reports
    assert encode_json(reports).decode() == vector["json"]
    assert decode_json(vector["json"].encode(), {policy.id: policy}) == reports


@pytest.mark.parametrize("vector", load("vectors/refused-batches.json"), ids=lambda vector: vector["why"])
def test_refused_batches(vector: dict[str, Any]) -> None:
    policy = Policy.from_json(json.dumps(vector["policy"]))
    with pytest.raises(ReportError):
        decode_compact(bytes.fromhex(vector["compact"]), {policy.id: policy})


def test_documents_agree_with_their_schemas() -> None:
    policy_schema, batch_schema = load("policy.schema.json"), load("reports.schema.json")
    for schema in (policy_schema, batch_schema):
        jsonschema.Draft202012Validator.check_schema(schema)
    for vector in load("vectors/draws.json"):
        jsonschema.validate(vector["policy"], policy_schema)
    for vector in load("vectors/batches.json"):
        jsonschema.validate(json.loads(vector["json"]), batch_schema)
    by_shape = [
        "a field too many",
        "a field too few",
        "an unknown format",
        "an epsilon with an exponent",
        "a weight of zero",
    ]
    refused = {vector["why"]: json.loads(vector["document"]) for vector in load("vectors/refused-policies.json")}
    for why in by_shape:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(refused[why], policy_schema)
