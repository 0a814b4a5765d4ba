"""Claims that are not about one method against another: laws, bounds, growth and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.evaluation.paper.analysis import LOWER_IS_BETTER, curve, difference
from tacit.evaluation.paper.comparisons import MAIN, MEASURES, Comparison, compare, spread
from tacit.evaluation.paper.experiments import JESTER, LABELS, LIBIMSETI, MOVIELENS, VARIANTS
from tacit.evaluation.paper.methods import BASELINE, BLP_MOG, CONSTANT, ISGD, PGMF, RANKED, Method
from tacit.evaluation.paper.verdict import HOLDS, NOT, ONLY_IF, Verdict
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.evaluation.paper.records import FoldTable

_ALL = (MOVIELENS.place, JESTER.place, LIBIMSETI.place)


def judge_noise(noise: Sequence[dict[str, Any]]) -> Verdict | None:
    """Judge the noise law by chi-squared tests."""
    if not noise:
        return None
    chances = {(row["mechanism"], row["epsilon"]): (row["p_value"], row["p_value_table"]) for row in noise}
    told = "; ".join(f"{name} at epsilon {epsilon}: p = {p[0]:.2f}" for (name, epsilon), p in chances.items())
    beyond = ", ".join(
        f"at epsilon {epsilon} {_outside(noise, epsilon):.0%} of Laplace noise is larger than bounded noise can be"
        for epsilon in dict.fromkeys(str(row["epsilon"]) for row in noise)
    )
    good = all(min(p) > 0.001 for p in chances.values())  # noqa: PLR2004 - one in a thousand
    return Verdict(
        "The derived law of bounded Laplace noise agrees with samples, and differs from Laplace's",
        "noise",
        ONLY_IF if good else NOT,
        "Eqs. 4 and 5 are corrected" if good else "",
        f"chi-squared tests of 100,000 draws against the law, {told}; {beyond}",
        "As printed, the exponents lack the division by b and the factor keeps a b too many; derived again from the "
        "density, the law fits.",
    )


def _outside(noise: Sequence[dict[str, Any]], epsilon: str) -> float:
    """Return how much of Laplace noise lies beyond the largest bounded noise."""
    rows = [row for row in noise if str(row["epsilon"]) == epsilon]
    most = max(row["to"] for row in rows if row["mechanism"] == "bounded-laplace")
    inside = [row for row in rows if row["mechanism"] == "laplace" and -most <= row["from"] and row["to"] <= most]
    return 1 - sum(float(row["derived"]) for row in inside)


def judge_privacy() -> Verdict:
    """Judge the privacy claim by the exact loss of the tables."""
    losses = {
        epsilon: Policy.make("bounded-laplace", RatingScale.parse("1:5:1"), epsilon).channel.exact_loss
        for epsilon in ("0.1", "1", "3")
    }
    told = ", ".join(f"{loss:.4f} at epsilon {epsilon}" for epsilon, loss in losses.items())
    return Verdict(
        "Bounded Laplace with b = width / epsilon keeps epsilon local differential privacy",
        "noise",
        ONLY_IF,
        "drawn from a finite table",
        f"exact loss of the table of integers: {told}",
        "True of real numbers, and tight; drawn with floating-point numbers, low bits of the report exclude ratings "
        "with certainty. tacit draws from integers.",
    )


def judge_growth(table: FoldTable) -> Verdict | None:
    """Judge whether errors fall and F-scores rise from the lowest epsilon to the highest, for every private method."""
    found = [
        _Growth.of(table, data, method, measure)
        for method in (BLP_MOG, ISGD, PGMF)
        for data in _ALL
        for measure in ("rmse", "f_score")
    ]
    known = [one for one in found if one is not None]
    if not known:
        return None
    flat = {one.method for one in known if not one.grows}
    growing = {one.method for one in known} - flat
    told = "; ".join(one.told for one in known)
    return Verdict(
        "Accuracy grows with epsilon, for all private methods",
        "isgd",
        HOLDS if not flat else ONLY_IF if growing else NOT,
        f"{' and '.join(sorted(flat))} is left out" if flat and growing else "",
        told,
        "Less noise, and for bounded noise less bias too. PG-MF's provider learns next to nothing at these epsilons.",
    )


@dataclass(frozen=True, slots=True)
class _Growth:
    """A measure of a method from the lowest epsilon to the highest."""

    method: str
    told: str
    grows: bool

    @classmethod
    def of(cls, table: FoldTable, data: str, method: Method, measure: str) -> _Growth | None:
        points = curve(table, data, method, RANKED, _studied(table, data, method), measure=measure)
        if len(points) < 2:  # noqa: PLR2004 - a beginning and an end
            return None
        first, last = points[0], points[-1]
        change = difference(last, first, measure).outcome(lower_is_better=measure in LOWER_IS_BETTER)
        told = (
            f"{method.label}, {LABELS[data]}, {MEASURES[measure]} {spread(first, measure)} to {spread(last, measure)}"
        )
        return cls(method.label, told, change == "better")


def _studied(table: FoldTable, data: str, method: Method) -> list[str]:
    """Return the epsilons of the comparison with ISGD, or of PG-MF's own."""
    return table.epsilons(data, method.mechanism if method == PGMF else ISGD.mechanism)


def judge_bound(table: FoldTable) -> Verdict | None:
    """Judge whether no private method beats the non-private baseline."""
    found = [
        one
        for name in _ALL
        for rival in (BLP_MOG, ISGD)
        if (one := compare(table, Comparison(name, rival, BASELINE, "rmse"), MAIN)) is not None
    ]
    if not found:
        return None
    beaten = any("worse" not in one.outcomes.values() or "better" in one.outcomes.values() for one in found)
    told = {LABELS[one.comparison.data]: spread(one.second[0], "rmse") for one in found}
    tuned = _variant(table, "non-private, with offsets, rank 20", None)
    better = f"; with offsets and regularisation, MovieLens 100K: {tuned:.3f}" if tuned else ""
    return Verdict(
        "The non-private factorisation is a lower bound of the error",
        "isgd",
        NOT if beaten else ONLY_IF,
        "" if beaten else "the objective is the paper's",
        "RMSE of the non-private baseline: " + "; ".join(f"{name} {value}" for name, value in told.items()) + better,
        "It bounds methods that share its objective; offsets and regularisation go below it.",
    )


def _variant(table: FoldTable, name: str, epsilon: str | None) -> float | None:
    mechanism, options, source = VARIANTS[name]
    scale = str(source.scale) if source.scale else (table.scales(source.place) or [""])[0]
    found = table.of(source.place, scale, mechanism, epsilon, options)
    return float(np.mean([row["rmse"] for row in found.values()])) if found else None


def judge_mixture(table: FoldTable) -> Verdict | None:
    """Judge what a mixture gains over one Gaussian."""
    pairs = []
    for epsilon in table.epsilons(MOVIELENS.place, BLP_MOG.mechanism):
        four = _variant(table, "BLP-MoG-MF, rank 1, K = 4", epsilon)
        one = _variant(table, "the same, K = 1 (least squares)", epsilon)
        if four is not None and one is not None:
            pairs.append((epsilon, four, one))
    if not pairs:
        return None
    gain = max(one - four for _, four, one in pairs)
    told = "; ".join(f"epsilon {epsilon}: {four:.4f} against {one:.4f}" for epsilon, four, one in pairs)
    return Verdict(
        "A mixture of Gaussians captures the noise and so improves accuracy",
        "readings",
        HOLDS if gain > 0.005 else NOT,  # noqa: PLR2004 - a difference nobody would notice
        "",
        f"MovieLens 100K, bounded Laplace, rank 1, RMSE with K = 4 against K = 1, {told}",
        "Bounded noise has lighter tails than one Gaussian, so EM makes all variances equal: the mixture is least "
        "squares.",
    )


def judge_constant(table: FoldTable) -> Verdict | None:
    """Judge where the paper's method beats the true mean."""
    found = [
        one for name in _ALL if (one := compare(table, Comparison(name, BLP_MOG, CONSTANT, "rmse"), MAIN)) is not None
    ]
    if not found:
        return None
    parts = [f"{where} ({LABELS[one.comparison.data]})" for one in found if (where := one.where("better"))]
    holds = all(one.holds for one in found)
    told = ". ".join(one.figures() for one in found)
    return Verdict(
        "BLP-MoG-MF retains utility: it says more than one constant for everybody",
        "isgd",
        HOLDS if holds else ONLY_IF if parts else NOT,
        "" if holds or not parts else "; ".join(parts),
        f"against the true mean for everybody: {told}",
        "Below, the bias of bounded noise costs more than the personal part gains.",
    )


def judge_bits(traffic: Sequence[dict[str, Any]]) -> Verdict | None:
    """Judge what a rating costs, by bytes counted."""
    if not traffic:
        return None
    by_name = {row["method"]: row for row in traffic}
    ours, tailored = by_name["BLP-MoG-MF"], by_name["tailored channel"]
    return Verdict(
        "A rating costs one bit, and nothing goes back",
        "communication",
        ONLY_IF,
        "the channel is tailored, and items and policy are not counted",
        f"BLP: {ours['bits_per_rating']} bits a rating, {ours['bytes_per_rating_batched']} bytes with its item in a "
        f"batch, {ours['bytes_one_report_compact']} bytes alone, {ours['bytes_down_per_user']:,} bytes down once for "
        f"the policy. Tailored: {tailored['bits_per_rating']} bit, {tailored['bytes_per_rating_batched']} bytes with "
        f"its item, {tailored['bytes_down_per_user']:,} bytes down",
        "A report must also name its item and its policy, and a device must have read the policy.",
    )


def judge_traffic(traffic: Sequence[dict[str, Any]]) -> Verdict | None:
    """Judge the communication cost against PG-MF's, by bytes counted."""
    if not traffic:
        return None
    by_name = {row["method"]: row for row in traffic}
    ours, theirs = (
        by_name[name]["bytes_up_per_user"] + by_name[name]["bytes_down_per_user"] for name in ("BLP-MoG-MF", "PG-MF")
    )
    rounds = by_name["PG-MF"]
    return Verdict(
        "BLP-MoG-MF costs far less communication than PG-MF, which sends 0.15 MB down in each iteration",
        "communication",
        HOLDS if 2 * ours < theirs else NOT,
        "",
        f"bytes a user, both ways, MovieLens 100K: {ours:,.0f} against {theirs:,.0f}; PG-MF sends "
        f"{rounds['bytes_down_per_iteration']:,} bytes down and {rounds['bytes_up_per_iteration']:.0f} up in each of "
        f"{rounds['iterations']} iterations",
        "PG-MF's factors are 20 kB at rank 3; 0.15 MB would be rank 22 in single precision. ISGD costs what BLP does.",
    )
