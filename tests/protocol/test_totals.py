"""The totals that other implementations may not undercut are those of this one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tacit.privacy.accounting import total_loss
from tacit.privacy.canonical import canonical_json
from tacit.privacy.exact import decimal_text
from tacit.privacy.policy import Policy

DOCUMENT = json.loads((Path(__file__).parents[2] / "protocol" / "vectors" / "totals.json").read_bytes())


def test_every_total_is_what_this_accounting_says() -> None:
    policies = [Policy.from_json(canonical_json(document)) for document in DOCUMENT["policies"]]
    assert len(DOCUMENT["totals"]) > 100
    for vector in DOCUMENT["totals"]:
        found = total_loss({policies[at]: count for at, count in vector["spends"]}, delta=vector["delta"])
        assert decimal_text(found.pure) == vector["pure"]
        assert found.reports == vector["reports"]
        assert found.approximate == pytest.approx(vector["approximate"], rel=1e-6)
