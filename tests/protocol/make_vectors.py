"""Writes the test vectors in protocol/vectors: run `python tests/protocol/make_vectors.py` after a format change.

Draws are computed here with plain Python integers, independently of the package.
"""

from __future__ import annotations

import hashlib
import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import rfc8785

from tacit.privacy.compact import encode_compact
from tacit.privacy.policy import Policy
from tacit.privacy.report import Report, encode_json
from tacit.privacy.scale import RatingScale

VECTORS = Path(__file__).parents[2] / "protocol" / "vectors"
TOTAL = 2**64


def reference_symbol(policy: dict[str, Any], rating: str, word: int) -> int:
    scale = policy["scale"]
    rank = round((float(rating) - float(scale["low"])) / float(scale["step"]))
    row = [int(weight) for weight in policy["channel"]["weights"][rank]]
    return sum(total <= word for total in list(accumulate(row))[:-1])


def sealed(body: dict[str, Any]) -> dict[str, Any]:
    body = {name: value for name, value in body.items() if name != "id"}
    return body | {"id": hashlib.sha256(rfc8785.dumps(body)).hexdigest()}


def hand_made() -> dict[str, Any]:
    """A table whose cumulative sums use all 64 bits, unlike those tacit builds."""
    third = TOTAL // 3
    rows = [[third + 5, third - 7, TOTAL - 2 * third + 2], [third - 1001, third + 900, TOTAL - 2 * third + 101]]
    return sealed(
        {
            "format": "tacit-policy/1",
            "scale": {"low": "0", "high": "1", "step": "1"},
            "mechanism": "hand-made",
            "epsilon": "0.001",
            "channel": {"symbols": ["-0.5", "0", "1.25"], "weights": [[str(w) for w in row] for row in rows]},
        }
    )


def policies() -> list[dict[str, Any]]:
    made = [
        ("bounded-laplace", "1:5:1", "1"),
        ("tailored", "0.5:5:0.5", "3"),
        ("duchi", "-10:10:0.25", "0.5"),
        ("piecewise", "1:10:1", "2"),
    ]
    documents = [json.loads(Policy.make(m, RatingScale.parse(s), e).to_json()) for m, s, e in made]
    return [*documents, hand_made()]


def words(policy: dict[str, Any], rank: int) -> list[int]:
    """Both ends, both sides of a few thresholds, and words from a hash."""
    sums = list(accumulate(int(weight) for weight in policy["channel"]["weights"][rank]))[:-1]
    edges = [sums[0], sums[len(sums) // 2], sums[-1]]
    near = [edge + offset for edge in edges for offset in (-1, 0, 1)]
    hashed = hashlib.sha512(f"{policy['id']} {rank}".encode()).digest()
    anywhere = [int.from_bytes(hashed[start : start + 8]) for start in range(0, 64, 8)]
    return [0, TOTAL - 1, *near, *anywhere]


def draws(policy: dict[str, Any]) -> list[dict[str, Any]]:
    scale = RatingScale.of(**policy["scale"])
    ranks = sorted({0, scale.size - 1, *range(0, scale.size, max(1, scale.size // 5))})
    return [
        {
            "rating": f"{scale.ratings[rank]:g}",
            "word": str(word),
            "symbol": reference_symbol(policy, f"{scale.ratings[rank]:g}", word),
        }
        for rank in ranks
        for word in words(policy, rank)
    ]


def refused_policies() -> list[dict[str, Any]]:
    """Documents that no device may obey, each with what is wrong."""
    good = hand_made()
    rows = [[int(w) for w in row] for row in good["channel"]["weights"]]

    def with_rows(changed: list[list[int]], **other: Any) -> dict[str, Any]:
        channel = good["channel"] | {"weights": [[str(w) for w in row] for row in changed]}
        return sealed(good | {"channel": channel} | other)

    (a, b, c), second = rows
    cases = {
        "another table under the same id": good | {"channel": with_rows([[a + 1, b - 1, c], second])["channel"]},
        "a row that sums to 2^64 + 1": with_rows([[a + 1, b, c], second]),
        "a weight of zero": with_rows([[a + b, 0, c], second]),
        "a negative weight": with_rows([[a + b + 5, -5, c], second]),
        "a ratio above e^epsilon": with_rows([[a - 2**60, b + 2**60, c], second]),
        "a row that reveals": with_rows([[1, 1, TOTAL - 2], second]),
        "a row too few": with_rows([[a, b, c]]),
        "a ragged table": with_rows([[a, b + c], second]),
        "an epsilon above 20": sealed(good | {"epsilon": "21"}),
        "an epsilon of zero": sealed(good | {"epsilon": "0"}),
        "an epsilon that is not in canonical form": sealed(good | {"epsilon": "0.0010"}),
        "an epsilon with an exponent": sealed(good | {"epsilon": "1e-3"}),
        "a field too many": sealed(good | {"note": "hello"}),
        "a field too few": sealed({name: value for name, value in good.items() if name != "mechanism"}),
        "an unknown format": sealed(good | {"format": "tacit-policy/2"}),
        "a step that does not divide the width": sealed(good | {"scale": {"low": "0", "high": "1", "step": "0.7"}}),
        "an empty scale": sealed(good | {"scale": {"low": "1", "high": "0", "step": "1"}}),
        "a mechanism name with a line break": sealed(good | {"mechanism": "a\nb"}),
        "an id in capitals": good | {"id": good["id"].upper()},
    }
    return [{"why": why, "document": json.dumps(document)} for why, document in cases.items()]


def batches() -> list[dict[str, Any]]:
    laplace = Policy.make("bounded-laplace", RatingScale.parse("1:5:1"), "1")
    one_bit = Policy.make("duchi", RatingScale.parse("1:5:1"), "1")
    cases = [
        (laplace, [Report(laplace.id, "1", 0)]),
        (laplace, [Report(laplace.id, str(item), item % 64) for item in (0, 127, 128, 1682, 168790, 2**63 - 1)]),
        (laplace, [Report(laplace.id, "7", 63), Report(laplace.id, "7", 1, 1), Report(laplace.id, "8", 2, 300)]),
        (one_bit, [Report(one_bit.id, str(item), item % 2) for item in range(1, 20)]),
        (one_bit, [Report(one_bit.id, item, 1) for item in ("film-1", "007", "Amélie", "9" * 30)]),
    ]
    return [
        {
            "policy": json.loads(policy.to_json()),
            "reports": [{"item": r.item, "symbol": r.symbol, "revision": r.revision} for r in reports],
            "compact": encode_compact(reports, policy).hex(),
            "json": encode_json(reports).decode(),
        }
        for policy, reports in cases
    ]


def refused_batches() -> list[dict[str, Any]]:
    policy = Policy.make("duchi", RatingScale.parse("1:5:1"), "1")
    good = encode_compact([Report(policy.id, str(item), item % 2) for item in (5, 6, 7)], policy)
    head = good[:37]
    cases = {
        "cut off": good[:-1],
        "a byte too many": good + b"\x00",
        "another version": b"tcr\x02" + good[4:],
        "an unknown policy": good[:4] + bytes(32) + good[36:],
        "an unknown flag": good[:36] + b"\x05" + good[37:],
        "no report": head + b"\x00",
        "a count of 1001": head + b"\xe9\x07" + good[38:],
        "a number longer than needed": head + b"\x83\x00" + good[38:],
        "padding that is not zero": good[:-1] + bytes([good[-1] | 1]),
        "revisions announced but all zero": good[:36] + b"\x03" + good[37:-1] + b"\x00\x00\x00" + good[-1:],
        "text items that are all numbers": good[:36] + b"\x00\x03\x015\x016\x017" + good[-1:],
        "an endless number": head + b"\xff" * 12,
        "empty": b"",
    }
    document = json.loads(policy.to_json())
    return [{"why": why, "policy": document, "compact": batch.hex()} for why, batch in cases.items()]


def write(name: str, content: object) -> None:
    (VECTORS / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    write("draws.json", [{"policy": policy, "draws": draws(policy)} for policy in policies()])
    write("refused-policies.json", refused_policies())
    write("batches.json", batches())
    write("refused-batches.json", refused_batches())


if __name__ == "__main__":
    main()
