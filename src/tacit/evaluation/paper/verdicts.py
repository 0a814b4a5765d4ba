"""Judging the paper: every claim under every reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.evaluation.paper.claims import CLAIMS, Claim
from tacit.evaluation.paper.comparisons import KINDEST, MAIN, PAIRS, Comparison, Found, compare
from tacit.evaluation.paper.experiments import LABELS
from tacit.evaluation.paper.other_claims import (
    judge_bound,
    judge_constant,
    judge_growth,
    judge_mixture,
    judge_noise,
    judge_privacy,
    judge_traffic,
)
from tacit.evaluation.paper.verdict import HOLDS, NOT, ONLY_IF, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.evaluation.paper.records import FoldTable


def judge(table: FoldTable, noise: Sequence[dict[str, Any]], traffic: Sequence[dict[str, Any]]) -> list[Verdict]:
    """Judge every claim that the results allow to judge."""
    found = [judge_noise(noise), judge_privacy()]
    found += [verdict for claim in CLAIMS if (verdict := _judge(table, claim)) is not None]
    found += [judge_growth(table), judge_bound(table), judge_mixture(table), judge_constant(table)]
    return [verdict for verdict in [*found, judge_traffic(traffic)] if verdict is not None]


def _judge(table: FoldTable, claim: Claim) -> Verdict | None:
    by_pair = {pair: _found(table, claim.comparisons, pair) for pair in PAIRS}
    main = by_pair[MAIN]
    if not main:
        return None
    by_pair[claim.kindest] = by_pair.pop(KINDEST)
    verdict, condition = _decided(by_pair)
    readings = tuple((pair, _told(found)) for pair, found in by_pair.items() if found)
    measured = ". ".join(one.figures() for one in main)
    return Verdict(claim.text, claim.figure, verdict, condition, measured, claim.why, readings)


def _found(table: FoldTable, comparisons: Sequence[Comparison], pair: str) -> list[Found]:
    return [found for one in comparisons if (found := compare(table, one, pair)) is not None]


def _decided(by_pair: dict[str, list[Found]]) -> tuple[str, str]:
    main = by_pair[MAIN]
    if all(one.holds for one in main):
        return HOLDS, ""
    for pair, found in by_pair.items():
        if found and all(one.holds for one in found):
            return ONLY_IF, pair
    parts = [f"{where} ({LABELS[one.comparison.data]})" for one in main if (where := one.where("better"))]
    return (ONLY_IF, "; ".join(parts)) if parts else (NOT, "")


def _told(found: Sequence[Found]) -> str:
    parts = []
    for one in found:
        told = [f"{outcome} at {where}" for outcome in ("better", "even", "worse") if (where := one.where(outcome))]
        parts.append(f"{LABELS[one.comparison.data]}: {', '.join(told)}")
    return "; ".join(parts)
