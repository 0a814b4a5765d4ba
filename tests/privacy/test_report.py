from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import ReportError
from tacit.privacy.compact import decode_compact, encode_compact
from tacit.privacy.policy import Policy
from tacit.privacy.report import Report, decode_json, encode_json
from tacit.privacy.scale import RatingScale

STARS = RatingScale.parse("1:5:1")
POLICIES = [Policy.make(name, STARS, "1") for name in ("bounded-laplace", "duchi", "randomized-response")]
KNOWN = {policy.id: policy for policy in POLICIES}

items = st.integers(0, 2**64).map(str) | st.text(
    st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=40
).filter(lambda text: text.isprintable() and len(text.encode()) <= 200)


@st.composite
def batches(draw: Any) -> tuple[Policy, list[Report]]:
    policy = draw(st.sampled_from(POLICIES))
    symbols = st.integers(0, policy.channel.weights.symbols - 1)
    report = st.builds(Report, st.just(policy.id), items, symbols, st.sampled_from([0, 0, 1, 300, 2**31 - 1]))
    return policy, draw(st.lists(report, min_size=1, max_size=30))


@given(batches())
def test_both_forms_carry_any_batch_unchanged(batch: tuple[Policy, list[Report]]) -> None:
    policy, reports = batch
    assert decode_compact(encode_compact(reports, policy), KNOWN) == reports
    assert decode_json(encode_json(reports), KNOWN) == reports


@given(batches(), st.integers(0, 10_000), st.integers(0, 255), st.booleans())
def test_a_compact_batch_has_one_encoding_and_nothing_else_gets_through(
    batch: tuple[Policy, list[Report]], position: int, byte: int, cut: bool
) -> None:
    policy, reports = batch
    encoded = encode_compact(reports, policy)
    position %= len(encoded)
    changed = encoded[:position] if cut else encoded[:position] + bytes([byte]) + encoded[position + 1 :]
    try:
        decoded = decode_compact(changed, KNOWN)
    except ReportError:
        return
    assert encode_compact(decoded, KNOWN[decoded[0].policy]) == changed


@given(st.binary(max_size=200))
def test_noise_is_never_a_batch(noise: bytes) -> None:
    header = b"tcr\x01" + bytes.fromhex(POLICIES[0].id)
    for content in (noise, header + noise):
        try:
            decode_compact(content, KNOWN)
        except ReportError:
            continue
        assert content.startswith(header)
    with pytest.raises(ReportError):
        decode_json(noise, KNOWN)


@given(batches(), st.integers(0, 2**32))
def test_the_length_of_a_batch_says_nothing_of_its_symbols(batch: tuple[Policy, list[Report]], seed: int) -> None:
    policy, reports = batch
    symbols = policy.channel.weights.symbols
    others = [Report(r.policy, r.item, (r.symbol + seed) % symbols, r.revision) for r in reports]
    assert len(encode_compact(others, policy)) == len(encode_compact(reports, policy))


def test_a_rating_costs_two_or_three_bytes() -> None:
    laplace, one_bit, _ = POLICIES
    for policy, most in ((laplace, 2.75), (one_bit, 2.15)):
        reports = [Report(policy.id, str(item), item % 2) for item in range(200, 1200)]
        assert (len(encode_compact(reports, policy)) - 39) / 1000 <= most


@pytest.mark.parametrize(
    "report",
    [
        ("x", "1", 0, 0),
        (POLICIES[0].id, "", 0, 0),
        (POLICIES[0].id, "a\nb", 0, 0),
        (POLICIES[0].id, "é" * 101, 0, 0),
        (POLICIES[0].id, "1", -1, 0),
        (POLICIES[0].id, "1", 2**16, 0),
        (POLICIES[0].id, "1", 0, -1),
        (POLICIES[0].id, "1", 1.5, 0),
        (POLICIES[0].id, "1", True, 0),
        (POLICIES[0].id, "\ud800", 0, 0),
    ],
)
def test_impossible_reports_are_refused(report: tuple[str, str, int, int]) -> None:
    with pytest.raises(ReportError):
        Report(*report)


def test_batches_are_of_one_policy_and_a_bounded_size() -> None:
    laplace, one_bit, _ = POLICIES
    with pytest.raises(ReportError, match="one policy"):
        encode_json([Report(laplace.id, "1", 0), Report(one_bit.id, "1", 0)])
    with pytest.raises(ReportError, match="1 to 1000"):
        encode_json([])
    with pytest.raises(ReportError, match="1 to 1000"):
        encode_compact([Report(laplace.id, str(item), 0) for item in range(1001)], laplace)
    with pytest.raises(ReportError, match="not below the policy's 2 symbols"):
        encode_compact([Report(one_bit.id, "1", 2)], one_bit)


GOOD = {"format": "tacit-reports/1", "policy": POLICIES[1].id, "reports": [{"item": "1", "symbol": 1, "revision": 0}]}


@pytest.mark.parametrize(
    "changed",
    [
        {"format": "tacit-reports/2"},
        {"policy": "0" * 64},
        {"policy": 5},
        {"reports": []},
        {"reports": {}},
        {"rating": 5},
        {"reports": [{"item": "1", "symbol": 2, "revision": 0}]},
        {"reports": [{"item": "1", "symbol": True, "revision": 0}]},
        {"reports": [{"item": "1", "symbol": 1.0, "revision": 0}]},
        {"reports": [{"item": 1, "symbol": 1, "revision": 0}]},
        {"reports": [{"item": "1", "symbol": 1, "revision": 0, "rating": 4}]},
        {"reports": [{"item": "1", "symbol": 1}]},
        {"reports": [[]]},
    ],
)
def test_json_batches_are_read_strictly(changed: dict[str, Any]) -> None:
    assert decode_json(json.dumps(GOOD).encode(), KNOWN)
    with pytest.raises(ReportError):
        decode_json(json.dumps(GOOD | changed).encode(), KNOWN)


@pytest.mark.parametrize(
    "batch",
    [
        b"[" * 100_000,
        b" " * (2**19 + 1),
        b"",
        b"7",
        json.dumps(GOOD).encode("utf-16"),
        json.dumps(GOOD).replace("{", '{"policy":"", ', 1).encode(),
        b'{"symbol":' + b"9" * 5000 + b"}",
    ],
)
def test_hostile_json_is_refused(batch: bytes) -> None:
    with pytest.raises(ReportError):
        decode_json(batch, KNOWN)
