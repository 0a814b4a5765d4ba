from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import FileError, PolicyError, TacitError
from tacit.privacy.canonical import canonical_json
from tacit.privacy.mechanisms import MECHANISMS
from tacit.privacy.policy import LARGEST_DOCUMENT, Policy
from tacit.privacy.prior import Prior
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from pathlib import Path

STARS = RatingScale.parse("1:5:1")
SMALL = Policy.make("duchi", STARS, "1").to_json()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_policy_survives_the_round_trip_and_its_id_is_the_rfc_8785_hash(mechanism: str) -> None:
    policy = Policy.make(mechanism, RatingScale.parse("0.5:5:0.5"), "0.5")
    assert Policy.from_json(policy.to_json()) == policy
    document = json.loads(policy.to_json())
    identity = document.pop("id")
    assert hashlib.sha256(rfc8785.dumps(document)).hexdigest() == identity
    assert ("prior" in document) == (mechanism == "tailored")


names = st.text(st.characters(max_codepoint=127), max_size=8)
texts = st.text(st.characters(exclude_categories=["Cs"]))
documents = st.dictionaries(names, st.recursive(texts, lambda inner: st.lists(inner) | st.dictionaries(names, inner)))


@given(documents)
def test_canonical_json_is_rfc_8785_for_text_under_ascii_names(document: dict[str, object]) -> None:
    assert canonical_json(document) == rfc8785.dumps(document)


def test_tailored_records_the_prior_it_was_given() -> None:
    given_prior = Policy.make("tailored", STARS, "1", Prior.of(STARS, [1, 2, 3, 4, 10]))
    generic = Policy.make("tailored", STARS, "1")
    assert given_prior.id != generic.id
    assert given_prior.claim.prior is not None
    assert [float(p) for p in given_prior.claim.prior] == pytest.approx([0.05, 0.1, 0.15, 0.2, 0.5])


@given(st.integers(0, len(SMALL) - 1), st.integers(0, 255))
def test_no_changed_byte_gets_through(position: int, byte: int) -> None:
    changed = bytearray(SMALL)
    if changed[position] == byte:
        return
    changed[position] = byte
    with pytest.raises(TacitError):
        Policy.from_json(bytes(changed))


@pytest.mark.parametrize("length", range(0, len(SMALL), 37))
def test_no_truncated_policy_gets_through(length: int) -> None:
    with pytest.raises(PolicyError):
        Policy.from_json(SMALL[:length])


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"{}", "format"),
        (b"null", "format"),
        (b'{"format":"tacit-policy/1","format":"tacit-policy/1"}', "twice"),
        (b"\xff\xfe", "not UTF-8"),
        (SMALL.decode().encode("utf-16"), "not UTF-8"),
        (b"\xef\xbb\xbf" + SMALL, "complete JSON"),
        (b" " * (LARGEST_DOCUMENT + 1), "over the limit"),
        (SMALL.replace(b'"epsilon":"1"', b'"epsilon":1'), "plain decimal"),
        (SMALL.replace(b'"epsilon":"1"', b'"epsilon":"%s"' % (b"9" * 5000)), "plain decimal"),
        (SMALL.replace(b'"mechanism":"duchi"', b'"mechanism":["duchi"]'), "name"),
        (SMALL.replace(b'"mechanism":"duchi"', b'"mechanism":"tailored"'), "fields"),
        (SMALL.replace(b'"scale":{', b'"scale":{"x":"1",'), "scale must have"),
    ],
)
def test_hostile_documents_are_refused_with_the_reason(document: bytes, complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        Policy.from_json(document)


def test_a_table_of_absurd_size_is_refused_before_it_is_built() -> None:
    document = json.loads(SMALL)
    document["channel"]["weights"] = [["1"] * 100_000] * 5
    with pytest.raises(PolicyError, match="more than 262144 weights"):
        Policy.from_json(json.dumps(document))


def test_policies_are_saved_and_loaded(tmp_path: Path, policy: Policy) -> None:
    policy.save(tmp_path / "policy.json")
    assert Policy.load(tmp_path / "policy.json") == policy
    assert [path.name for path in tmp_path.iterdir()] == ["policy.json"]
    with pytest.raises(FileError, match="check the path"):
        Policy.load(tmp_path / "absent.json")
    with pytest.raises(FileError, match="cannot write"):
        policy.save(tmp_path / "absent" / "policy.json")
