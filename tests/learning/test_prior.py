from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import PolicyError, PriorError, ReportError, TableError
from tacit.learning.prior import fit_prior, load_prior
from tacit.privacy.mechanisms import MECHANISMS, build_channel
from tacit.privacy.policy import Policy
from tacit.privacy.prior import Prior
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tacit.privacy.channel import Channel

STARS = RatingScale.parse("1:5:1")
HALF_STARS = RatingScale.parse("0.5:5:0.5")

# Half stars are rarer than whole ones, as on MovieLens: no bell has this shape.
ZIGZAG = Prior.of(HALF_STARS, [1.4, 2.8, 1.8, 7.5, 5.5, 19.9, 13, 26.6, 8.5, 13])
TWO_PEAKS = Prior.of(STARS, [30, 10, 5, 15, 40])


def expected_counts(channel: Channel, truth: Prior, reports: int) -> NDArray[np.int64]:
    return np.round(reports * (truth.probabilities @ channel.likelihood)).astype(np.int64)


def divergence(truth: Prior, found: Prior) -> float:
    return float(truth.probabilities @ np.log(truth.probabilities / found.probabilities))


@given(st.data())
def test_whatever_was_reported_gives_a_histogram_without_zeros(data: st.DataObject) -> None:
    scale = RatingScale.parse(data.draw(st.sampled_from(["1:2:1", "1:5:1", "0.5:5:0.5", "0:20:1"])))
    names = data.draw(st.lists(st.sampled_from(sorted(MECHANISMS)), min_size=1, max_size=3))
    observations = []
    for name in names:
        channel = build_channel(name, scale, data.draw(st.sampled_from(["0.001", "1", "20"])))
        size = channel.weights.symbols
        counts = data.draw(st.lists(st.integers(0, 10**9), min_size=size, max_size=size))
        observations.append((channel, np.array(counts)))
    found = fit_prior(observations).probabilities
    assert found.min() > 0
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [0.5, 2])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_bell_is_recovered_through_any_channel(mechanism: str, epsilon: float) -> None:
    truth = Prior.bell(STARS, 0.75, 0.25)
    channel = build_channel(mechanism, STARS, epsilon)
    found = fit_prior([(channel, expected_counts(channel, truth, 10**7))])
    assert found.mean == pytest.approx(truth.mean, abs=0.08)
    assert found.mean != pytest.approx(Prior.generic(STARS).mean, abs=0.2)


@pytest.mark.parametrize("truth", [ZIGZAG, TWO_PEAKS], ids=["zigzag", "two peaks"])
@pytest.mark.parametrize("mechanism", ["randomized-response", "bounded-laplace", "piecewise", "square-wave"])
def test_many_informative_reports_reach_any_shape(mechanism: str, truth: Prior) -> None:
    channel = build_channel(mechanism, truth.scale, 20)
    found = fit_prior([(channel, expected_counts(channel, truth, 10**6))])
    assert found.probabilities == pytest.approx(truth.probabilities, abs=0.003)


@pytest.mark.parametrize("mechanism", ["randomized-response", "bounded-laplace"])
def test_at_epsilon_one_the_mean_is_within_a_few_hundredths_of_a_star(mechanism: str) -> None:
    truth = Prior.of(STARS, [6.1, 11.4, 27.1, 34.2, 21.2])  # MovieLens 100K
    channel = build_channel(mechanism, STARS, 1)
    rng = np.random.default_rng(0)
    symbol_probabilities = truth.probabilities @ channel.likelihood
    draws = [rng.multinomial(100_000, symbol_probabilities / symbol_probabilities.sum()) for _ in range(10)]
    errors = [fit_prior([(channel, counts)]).mean - truth.mean for counts in draws]
    assert abs(np.mean(errors)) < 0.03


def test_one_bit_moves_the_mean_and_leaves_the_rest_of_the_shape_generic() -> None:
    truth = Prior.bell(STARS, 0.7, 0.3)
    channel = build_channel("duchi", STARS, 1)
    found = fit_prior([(channel, expected_counts(channel, truth, 10**6))])
    assert found.mean == pytest.approx(truth.mean, abs=0.01)
    assert np.sqrt(found.variance) == pytest.approx(np.sqrt(Prior.generic(STARS).variance), abs=0.1)
    # A bell has no more than one peak; neither has what was found.
    assert (np.diff(np.sign(np.diff(found.probabilities))) != 0).sum() <= 1


def test_few_reports_leave_the_generic_prior_nearly_as_it_is() -> None:
    channel = build_channel("bounded-laplace", STARS, "0.1")
    found = fit_prior([(channel, np.bincount([0, 3, 60], minlength=64))])
    assert found.mean == pytest.approx(Prior.generic(STARS).mean, abs=0.1)


def test_reports_of_two_policies_tell_more_than_those_of_either() -> None:
    channels = [build_channel(name, STARS, 1) for name in ("tailored", "randomized-response")]
    observations = [(channel, expected_counts(channel, TWO_PEAKS, 20_000)) for channel in channels]
    alone = [divergence(TWO_PEAKS, fit_prior([observation])) for observation in observations]
    assert divergence(TWO_PEAKS, fit_prior(observations)) <= min(alone)


def test_a_policy_given_in_two_halves_is_the_same_as_whole() -> None:
    channel = build_channel("square-wave", STARS, 1)
    counts = expected_counts(channel, TWO_PEAKS, 10**5)
    halves = fit_prior([(channel, counts), (channel, counts)])
    assert halves.probabilities == pytest.approx(fit_prior([(channel, 2 * counts)]).probabilities, abs=1e-4)


def test_no_reports_and_reports_on_two_scales_are_refused() -> None:
    with pytest.raises(PriorError, match="no reports"):
        fit_prior([])
    channels = [build_channel("duchi", scale, 1) for scale in (STARS, HALF_STARS)]
    with pytest.raises(PriorError, match=r"1:5:1 and 0\.5:5:0\.5; use reports on one scale"):
        fit_prior([(channel, np.ones(2, dtype=np.int64)) for channel in channels])


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
    with pytest.raises(ReportError, match="row 1: symbol 64 is not one of 0 to 63"):
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


def test_a_file_may_mix_policies_whose_documents_it_carries(tmp_path: Path) -> None:
    path = tmp_path / "reports.parquet"
    policies = [Policy.make(name, STARS, "2") for name in ("randomized-response", "tailored")]
    rng = np.random.default_rng(0)
    ranks = rng.choice(5, 4000, p=TWO_PEAKS.probabilities).astype(np.uint16)
    symbols = [policy.channel.draw(ranks, rng.integers(0, 2**64, 4000, dtype=np.uint64)) for policy in policies]
    columns = {
        "symbol": np.concatenate(symbols),
        "policy": np.repeat([policy.id for policy in policies], 4000),
    }
    documents = json.dumps([json.loads(policy.to_json()) for policy in policies])
    write(path, columns, documents)
    observed = [
        (policy.channel, np.bincount(said, minlength=policy.channel.weights.symbols))
        for policy, said in zip(policies, symbols, strict=True)
    ]
    assert load_prior(str(path), STARS).probabilities == pytest.approx(fit_prior(observed).probabilities, abs=1e-4)
    write(path, columns, policies[0].to_json())
    with pytest.raises(PriorError, match=f"{policies[1].id[:12]}', which it does not carry; use reports written by"):
        load_prior(str(path), STARS)
    write(path, {"symbol": columns["symbol"]}, documents)
    with pytest.raises(PriorError, match="several policies but has no column 'policy'"):
        load_prior(str(path), STARS)
    write(path, columns, documents[:-1])
    with pytest.raises(PriorError, match="cannot be read"):
        load_prior(str(path), STARS)


def write(path: Path, columns: dict[str, NDArray[np.generic]], documents: str | bytes) -> None:
    pq.write_table(pa.table(columns).replace_schema_metadata({"tacit.policy.document": documents}), path)
