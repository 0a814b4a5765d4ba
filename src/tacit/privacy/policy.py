"""The policy: scale, channel and identity, published by the provider and verified by every device."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidInputError, PolicyError
from tacit.files import read_bytes, write_bytes
from tacit.privacy.canonical import canonical_json, read_json
from tacit.privacy.channel import Channel
from tacit.privacy.exact import decimal_text, parse_canonical_decimal, parse_epsilon
from tacit.privacy.mechanisms import TAILORED, build_channel
from tacit.privacy.prior import Prior
from tacit.privacy.scale import RatingScale
from tacit.privacy.weights import MOST_ENTRIES, MOST_SYMBOLS, WeightTable

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = "tacit-policy/1"
LARGEST_DOCUMENT = 8 * 2**20

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_WEIGHT = re.compile(r"[1-9][0-9]{0,19}")
_FIELDS = {"format", "id", "scale", "mechanism", "epsilon", "channel"}


@dataclass(frozen=True)
class PolicyClaim:
    """What a policy document says, well formed and under its right id, its privacy not yet judged."""

    mechanism: str
    scale: RatingScale
    epsilon: Decimal
    values: tuple[Decimal, ...]
    weights: WeightTable
    prior: tuple[Decimal, ...] | None = None

    def body(self) -> dict[str, Any]:
        """Return the document without its id."""
        body: dict[str, Any] = {
            "format": FORMAT,
            "scale": {part: decimal_text(getattr(self.scale, part)) for part in ("low", "high", "step")},
            "mechanism": self.mechanism,
            "epsilon": decimal_text(self.epsilon),
            "channel": {
                "symbols": [decimal_text(value) for value in self.values],
                "weights": [[str(weight) for weight in row] for row in self.weights.rows],
            },
        }
        if self.prior is not None:
            body["prior"] = [decimal_text(weight) for weight in self.prior]
        return body

    @cached_property
    def id(self) -> str:
        """The hash of the document: a changed table is another policy."""
        return hashlib.sha256(canonical_json(self.body())).hexdigest()


@dataclass(frozen=True)
class Policy:
    """A policy whose privacy claim was proven from its integers.

    >>> policy = Policy.make("bounded-laplace", RatingScale.parse("1:5:1"), "1")
    >>> Policy.from_json(policy.to_json()) == policy
    True
    """

    claim: PolicyClaim
    channel: Channel

    @classmethod
    def make(
        cls, mechanism: str, scale: RatingScale, epsilon: str | float | Decimal, prior: Prior | None = None
    ) -> Policy:
        """Build the policy of a mechanism; only `tailored` uses, and records, a prior."""
        belief = None if mechanism != TAILORED else prior if prior is not None else Prior.generic(scale)
        channel = build_channel(mechanism, scale, epsilon, belief)
        recorded = None if belief is None else tuple(Decimal(f"{p:.12g}") for p in belief.probabilities)
        claim = PolicyClaim(mechanism, scale, channel.epsilon, channel.values, channel.weights, recorded)
        return cls(claim, channel)

    @classmethod
    def judge(cls, claim: PolicyClaim) -> Policy:
        """Prove the claim from the integers alone, or refuse it."""
        return cls(claim, Channel(claim.scale, claim.epsilon, claim.values, claim.weights))

    @classmethod
    def from_json(cls, document: str | bytes) -> Policy:
        """Read and verify a document; this is all a device trusts."""
        return cls.judge(read_claim(document))

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read and verify a policy file."""
        return cls.from_json(read_bytes(path, limit=LARGEST_DOCUMENT))

    def to_json(self) -> bytes:
        """Write the document, in canonical form."""
        return canonical_json(self.claim.body() | {"id": self.id})

    def save(self, path: str | Path) -> None:
        """Write the policy file."""
        write_bytes(path, self.to_json() + b"\n")

    @property
    def id(self) -> str:
        """The policy's identity, the same for everyone who obeys it."""
        return self.claim.id

    @property
    def mechanism(self) -> str:
        """The name of the mechanism, a label only."""
        return self.claim.mechanism

    @property
    def scale(self) -> RatingScale:
        """The rating scale."""
        return self.claim.scale

    @property
    def epsilon(self) -> Decimal:
        """The privacy loss one report may cost."""
        return self.claim.epsilon


def read_claim(document: str | bytes) -> PolicyClaim:
    """Read a policy document strictly: shape, sizes and id, but not yet its privacy."""
    try:
        return _claim_of(_parse(document))
    except PolicyError:
        raise
    except InvalidInputError as error:
        raise PolicyError(f"the policy is not usable: {error}") from error


def _parse(document: str | bytes) -> dict[str, Any]:
    if len(document) > LARGEST_DOCUMENT:
        raise PolicyError(f"a policy of {len(document)} bytes is over the limit of {LARGEST_DOCUMENT}; refuse it")
    try:
        parsed = read_json(document)
    except ValueError as error:
        raise PolicyError(f"the policy cannot be read ({error}); fetch it again") from error
    if not isinstance(parsed, dict) or parsed.get("format") != FORMAT:
        raise PolicyError(f"the document is not of the format {FORMAT}; fetch a policy, or update tacit")
    return parsed


def _claim_of(document: dict[str, Any]) -> PolicyClaim:
    expected = _FIELDS | ({"prior"} if document.get("mechanism") == TAILORED else set())
    _check_fields("policy", document, expected)
    _check_fields("scale", document["scale"], {"low", "high", "step"})
    _check_fields("channel", document["channel"], {"symbols", "weights"})
    if not isinstance(document["mechanism"], str) or not _NAME.fullmatch(document["mechanism"]):
        raise PolicyError("the mechanism's name must be at most 64 of a-z, 0-9 and '-'")
    scale = RatingScale.of(*(parse_canonical_decimal(document["scale"][part]) for part in ("low", "high", "step")))
    claim = PolicyClaim(
        document["mechanism"],
        scale,
        parse_epsilon(parse_canonical_decimal(document["epsilon"])),
        _decimals("symbols", document["channel"]["symbols"], MOST_SYMBOLS),
        _weight_table(document["channel"]["weights"]),
        _decimals("prior", document["prior"], scale.size) if "prior" in document else None,
    )
    if claim.id != document["id"]:
        raise PolicyError(f"the policy's content hashes to {claim.id}, not to its id; it was changed, fetch it again")
    return claim


def _check_fields(what: str, found: object, expected: set[str]) -> None:
    if not isinstance(found, dict) or set(found) != expected:
        raise PolicyError(f"the {what} must have exactly the fields {', '.join(sorted(expected))}")


def _decimals(what: str, found: object, most: int) -> tuple[Decimal, ...]:
    if not isinstance(found, list) or not 1 <= len(found) <= most:
        raise PolicyError(f"{what} must be a list of 1 to {most} decimal strings")
    return tuple(parse_canonical_decimal(entry) for entry in found)


def _weight_table(found: object) -> WeightTable:
    if not isinstance(found, list) or not all(isinstance(row, list) for row in found):
        raise PolicyError("weights must be a list of rows")
    if sum(len(row) for row in found) > MOST_ENTRIES:
        raise PolicyError(f"the table has more than {MOST_ENTRIES} weights; refuse it")
    return WeightTable(tuple(tuple(_weight(entry) for entry in row) for row in found))


def _weight(entry: object) -> int:
    if not isinstance(entry, str) or not _WEIGHT.fullmatch(entry):
        raise PolicyError(f"weight {str(entry)[:24]!r} is not the decimal string of a positive integer below 10^20")
    return int(entry)
