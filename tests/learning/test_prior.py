from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.errors import PolicyError, PriorError, TableError
from tacit.learning.prior import fit_prior, load_prior
from tacit.privacy.mechanisms import MECHANISMS, build_channel
from tacit.privacy.prior import Prior
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.privacy.policy import Policy

STARS = RatingScale.parse("1:5:1")


@pytest.mark.parametrize("epsilon", [0.5, 2])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_bell_is_recovered_through_any_channel(mechanism: str, epsilon: float) -> None:
    truth = Prior.bell(STARS, 0.75, 0.25)
    channel = build_channel(mechanism, STARS, epsilon)
    expected = np.round(10**7 * (truth.probabilities @ channel.likelihood)).astype(np.int64)
    found = fit_prior(channel, expected)
    assert found.mean == pytest.approx(truth.mean, abs=0.08)
    assert found.mean != pytest.approx(Prior.generic(STARS).mean, abs=0.2)


def test_few_reports_leave_the_generic_prior_nearly_as_it_is() -> None:
    channel = build_channel("bounded-laplace", STARS, "0.1")
    found = fit_prior(channel, np.bincount([0, 3, 60], minlength=64))
    assert found.mean == pytest.approx(Prior.generic(STARS).mean, abs=0.1)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("rating,weight\n1,1\n1,2\n", "twice"),
        ("rating,weight\n1,-1\n", "not negative"),
        ("rating,weight\n1,0\n", "not all zero"),
        ("rating,weight\n0,1\n", "outside"),
        ("stars,weight\n1,1\n", "no column 'rating'"),
        ("rating,weight\n1,many\n", "'many'"),
    ],
)
def test_bad_histograms_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "prior.csv").write_text(text, encoding="utf-8")
    with pytest.raises((PriorError, TableError), match=complaint):
        load_prior(str(tmp_path / "prior.csv"), STARS)


def test_reports_must_carry_their_policy_and_fit_it(tmp_path: Path, policy: Policy) -> None:
    path = tmp_path / "reports.parquet"
    table = pa.table({"user": [1], "item": [1], "symbol": [64]})
    pq.write_table(table, path)
    with pytest.raises(PriorError, match="does not carry its policy"):
        load_prior(str(path), STARS)
    pq.write_table(table.replace_schema_metadata({"tacit.policy.document": policy.to_json()}), path)
    with pytest.raises(PriorError, match="outside the policy's 0 to 63"):
        load_prior(str(path), STARS)
    pq.write_table(table.replace_schema_metadata({"tacit.policy.document": b"\xff\xfe"}), path)
    with pytest.raises(PolicyError, match="cannot be read"):
        load_prior(str(path), STARS)
    fractional = pa.table({"symbol": [0.7]}).replace_schema_metadata({"tacit.policy.document": policy.to_json()})
    pq.write_table(fractional, path)
    with pytest.raises(TableError, match="not whole numbers"):
        load_prior(str(path), STARS)
    with pytest.raises(PriorError, match="on scale 1:5:1, not 1:10:1"):
        load_prior(str(path), RatingScale.parse("1:10:1"))
