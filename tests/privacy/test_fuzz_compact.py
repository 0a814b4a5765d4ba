"""Whatever bytes come in, a batch is read as the one that was written, or refused on purpose."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from tacit.errors import ReportError
from tacit.privacy.compact import decode_compact, encode_compact, policy_of_compact
from tacit.privacy.policy import Policy
from tacit.privacy.report import Report, encode_json
from tacit.privacy.scale import RatingScale
from tacit.provider.service.intake import COMPACT, JSON, batch_of
from tacit.provider.service.problems import CODES, Problem

STARS = RatingScale.parse("1:5:1")
POLICIES = [Policy.make(name, STARS, "1") for name in ("bounded-laplace", "duchi", "randomized-response")]
KNOWN = {policy.id: policy for policy in POLICIES}
KEYED = {policy.id: (key, policy) for key, policy in enumerate(POLICIES, 1)}
TOKEN_HASH = b"h" * 32

numbers = st.integers(0, 2**64).map(str)
texts = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
items = (numbers | texts).filter(lambda item: item.isprintable() and len(item.encode()) <= 200)


@st.composite
def batches(draw: Any) -> tuple[Policy, list[Report]]:
    policy = draw(st.sampled_from(POLICIES))
    symbols = st.integers(0, policy.channel.weights.symbols - 1)
    report = st.builds(Report, st.just(policy.id), items, symbols, st.sampled_from([0, 0, 0, 1, 127, 128, 2**31 - 1]))
    return policy, draw(st.lists(report, min_size=1, max_size=12))


def mutated(draw: Any, content: bytes) -> bytes:
    """Change some of the bytes, leave some out, repeat some, or put others in."""
    for _ in range(draw(st.integers(1, 4))):
        first = draw(st.integers(0, len(content)))
        last = draw(st.integers(first, min(len(content), first + 40)))
        middle = draw(st.sampled_from([b"", b"\0", b"\xff", b"\x80", content[first:last] * 2]) | st.binary(max_size=8))
        content = content[:first] + middle + content[last:]
    return content


@st.composite
def mutations(draw: Any) -> tuple[bytes, str]:
    """Bytes that are nearly a batch, and the kind of content they are said to be."""
    policy, reports = draw(batches())
    if draw(st.booleans()):
        return mutated(draw, encode_compact(reports, policy)), COMPACT
    return mutated(draw, encode_json(reports)), JSON


def headed(policy: Policy, rest: bytes) -> bytes:
    return b"tcr\x01" + bytes.fromhex(policy.id) + rest


def check_compact(content: bytes) -> None:
    """Read bytes as a compact batch: refused as a `ReportError`, or written again as they were."""
    try:
        reports = decode_compact(content, KNOWN)
    except ReportError as error:
        assert "\n" not in str(error)  # noqa: PT017 - any message will do that is one line
        return
    assert policy_of_compact(content) == reports[0].policy
    assert encode_compact(reports, KNOWN[reports[0].policy]) == content


def check_intake(content: bytes, kind: str) -> None:
    """Read bytes as the service does: refused as a problem, or what was said is what is kept."""
    try:
        batch = batch_of(content, kind, TOKEN_HASH, KEYED)
    except Problem as problem:
        assert problem.code in CODES  # noqa: PT017 - which one depends on the bytes
        assert "\n" not in problem.detail  # noqa: PT017
        problem.detail.encode()
        return
    policy = POLICIES[batch.policy - 1]
    assert (batch.token_hash, batch.symbols) == (TOKEN_HASH, policy.channel.weights.symbols)
    assert 1 <= len(batch.said) <= 1000
    if kind == COMPACT:
        assert encode_compact([Report(policy.id, o.item, o.symbol, o.revision) for o in batch.said], policy) == content
    else:
        rows = [{"item": one.item, "symbol": one.symbol, "revision": one.revision} for one in batch.said]
        assert json.loads(content) == {"format": "tacit-reports/1", "policy": policy.id, "reports": rows}


@given(st.binary(max_size=300), st.sampled_from(POLICIES), st.sampled_from([JSON, COMPACT, "", "text/plain"]))
@example(b"\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", POLICIES[0], COMPACT)  # a number that is too long
@example(b"\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f", POLICIES[0], COMPACT)  # an item of 2**63 - 1 bytes
@example(b"\x01\xe8\x07" + bytes(1000), POLICIES[1], COMPACT)
def test_noise_is_refused_on_purpose(noise: bytes, policy: Policy, kind: str) -> None:
    for content in (noise, headed(policy, noise)):
        check_compact(content)
        check_intake(content, kind)


@given(mutations())
def test_what_is_nearly_a_batch_is_refused_or_means_what_it_says(mutation: tuple[bytes, str]) -> None:
    content, kind = mutation
    check_intake(content, kind)
    check_compact(content)


@given(batches(), batches())
def test_two_batches_are_not_one(one: tuple[Policy, list[Report]], other: tuple[Policy, list[Report]]) -> None:
    first, second = (encode_compact(reports, policy) for policy, reports in (one, other))
    for content in (first + second, first + b"\0", b"\0" + first, first[:36] + second):
        check_compact(content)
        check_intake(content, COMPACT)


@given(batches(), st.sampled_from(POLICIES))
def test_a_batch_under_another_policys_name_is_never_read_as_longer(
    batch: tuple[Policy, list[Report]], other: Policy
) -> None:
    policy, reports = batch
    assume(other != policy)
    content = encode_compact(reports, policy)
    check_compact(headed(other, content[36:]))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@given(st.data())
def test_json_of_any_shape_is_refused_on_purpose(data: st.DataObject) -> None:
    policy, reports = data.draw(batches())
    document: Any = json.loads(encode_json(reports))
    if data.draw(st.booleans()):
        document[data.draw(st.sampled_from(["format", "policy", "reports", "x"]))] = data.draw(json_values)
    else:
        document["reports"][0][data.draw(st.sampled_from(["item", "symbol", "revision", "x"]))] = data.draw(json_values)
    check_intake(json.dumps(document).encode(), JSON)
    assert policy.id in KNOWN
