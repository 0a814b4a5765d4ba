"""Writes protocol/vectors/totals.json: totals that no other implementation may undercut.

Run `python tests/protocol/make_totals.py` after a change of the accounting or of a mechanism.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tacit.privacy.accounting import total_loss
from tacit.privacy.exact import decimal_text
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

VECTORS = Path(__file__).parents[2] / "protocol" / "vectors"

MADE = [
    ("bounded-laplace", "1:5:1", "1"),
    ("bounded-laplace", "1:5:1", "0.1"),
    ("clamped-laplace", "1:5:1", "2"),
    ("randomized-response", "1:5:1", "0.5"),
    ("duchi", "1:5:1", "1"),
    ("piecewise", "1:5:1", "3"),
    ("hybrid", "1:5:1", "2"),
    ("square-wave", "1:5:1", "1"),
    ("tailored", "0.5:5:0.5", "3"),
    ("duchi", "1:5:1", "0.001"),
    ("randomized-response", "1:5:1", "20"),
]
COUNTS = (1, 2, 5, 10, 30, 100, 300, 1000)
DELTAS = (1e-6, 1e-9)


def total(policies: list[Policy], spends: list[tuple[int, int]], delta: float) -> dict[str, Any]:
    """Compose reports, given as pairs of a policy's number and a count."""
    found = total_loss({policies[number]: count for number, count in spends}, delta=delta)
    return {
        "spends": spends,
        "delta": delta,
        "reports": found.reports,
        "pure": decimal_text(found.pure),
        "approximate": found.approximate,
    }


def main() -> None:
    """Write the file."""
    policies = [Policy.make(mechanism, RatingScale.parse(scale), epsilon) for mechanism, scale, epsilon in MADE]
    alone = [total(policies, [(number, count)], 1e-6) for number in range(len(policies)) for count in COUNTS]
    strict = [total(policies, [(number, 300)], DELTAS[1]) for number in range(len(policies))]
    mixed = [
        total(policies, spends, delta)
        for spends in ([(0, 40), (1, 400)], [(4, 100), (8, 20)], [(9, 1000), (0, 10)], [(9, 50), (10, 1)])
        for delta in DELTAS
    ]
    content = {
        "policies": [json.loads(policy.to_json()) for policy in policies],
        "totals": [*alone, *strict, *mixed],
    }
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (VECTORS / "totals.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
