"""Judging the paper: every claim under every reading."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tacit.evaluation.paper.claims import CLAIMS, Claim
from tacit.evaluation.paper.comparisons import ALL_TUNED, KINDEST, MAIN, MEASURES, PAIRS, Comparison, Found, compare
from tacit.evaluation.paper.experiments import LABELS
from tacit.evaluation.paper.methods import BLP_MOG, ISGD, PGMF, TACIT, TACIT_DEVICE
from tacit.evaluation.paper.other_claims import (
    judge_bits,
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

_RIVALS = (PGMF, ISGD)


def judge(table: FoldTable, noise: Sequence[dict[str, Any]], traffic: Sequence[dict[str, Any]]) -> list[Verdict]:
    """Judge every claim that the results allow to judge."""
    found = [judge_noise(noise), judge_privacy()]
    found += [verdict for claim in CLAIMS if (verdict := _judge(table, claim)) is not None]
    found += [judge_growth(table), judge_bound(table), judge_mixture(table), judge_constant(table)]
    found += [judge_bits(traffic), judge_traffic(traffic)]
    return [verdict for verdict in found if verdict is not None]


def _judge(table: FoldTable, claim: Claim) -> Verdict | None:
    by_pair = {pair: _found(table, claim.comparisons, pair) for pair in PAIRS}
    by_pair[claim.kindest] = by_pair.pop(KINDEST)
    if not by_pair[MAIN]:
        return None
    verdict, condition = _decided(by_pair)
    missing = {one.data for one in claim.comparisons} - {one.comparison.data for one in by_pair[MAIN]}
    if missing:
        left_out = f"without {', '.join(sorted(LABELS[name] for name in missing))}, which was not at hand"
        condition = f"{condition} ({left_out})" if condition else left_out
    readings = tuple((f"If {pair}", _told(found)) for pair, found in by_pair.items() if found)
    measured = ". ".join(one.figures() for one in by_pair[MAIN])
    readings += _also(table, claim)
    ours = with_tacit(table, claim.comparisons)
    return Verdict(claim.text, claim.figure, verdict, condition, measured, claim.why, readings, ours)


def with_tacit(table: FoldTable, comparisons: Sequence[Comparison]) -> str:
    """Tell how channel-mf, on reports of bounded Laplace, compares with the rivals of the paper's method, all tuned."""
    told = []
    for ours in (TACIT, TACIT_DEVICE):
        against = [replace(one, first=ours) for one in comparisons if one.first == BLP_MOG and one.second in _RIVALS]
        found = _found(table, against, ALL_TUNED)
        if found:
            told.append(f"{ours.label}: {_told(found)}. " + ". ".join(one.figures() for one in found))
    return ". ".join(told)


def _also(table: FoldTable, claim: Claim) -> tuple[tuple[str, str], ...]:
    """Tell how a claim would turn out by other measures, every method at its best rank."""
    return tuple(
        (f"By {MEASURES[measure]}, at best ranks", _told(found))
        for measure in claim.also
        if (found := _found(table, [replace(one, measure=measure) for one in claim.comparisons], MAIN))
    )


def _found(table: FoldTable, comparisons: Sequence[Comparison], pair: str) -> list[Found]:
    return [found for one in comparisons if (found := compare(table, one, pair)) is not None]


def _decided(by_pair: dict[str, list[Found]]) -> tuple[str, str]:
    """Decide by the main reading; where it gives nothing, by whatever another gives."""
    if all(one.holds for one in by_pair[MAIN]):
        return HOLDS, ""
    for pair, found in by_pair.items():
        if found and all(one.holds for one in found):
            return ONLY_IF, pair
    for pair in (MAIN, *by_pair):
        parts = [f"{where} ({LABELS[one.comparison.data]})" for one in by_pair[pair] if (where := one.where("better"))]
        if parts:
            return ONLY_IF, "; ".join(parts) + ("" if pair == MAIN else f", and {pair}")
    return NOT, ""


def _told(found: Sequence[Found]) -> str:
    parts = []
    for one in found:
        told = [f"{outcome} at {where}" for outcome in ("better", "even", "worse") if (where := one.where(outcome))]
        parts.append(f"{LABELS[one.comparison.data]}: {', '.join(told)}")
    return "; ".join(parts)
