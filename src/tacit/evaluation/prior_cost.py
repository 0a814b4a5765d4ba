"""What a wrong prior costs: noise, never privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.evaluation.curves import Line, Panel, curves_figure
from tacit.evaluation.tailoring import FIRST_MECHANISM, draw_reports, tailored_policy
from tacit.privacy.mechanisms import TAILORED, build_channel
from tacit.privacy.prior import Prior

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.privacy.channel import Channel

FIRST_REPORTS = 10_000

_LEARNED_DRAWS = 10
_BASELINE = "bounded-laplace"
_LABELS = {
    "true": "the true histogram",
    "learned": "learned from reports",
    "generic": "the generic bell",
    "uniform": "uniform",
    "mirrored": "mirrored histogram",
}


@dataclass(frozen=True, slots=True)
class PriorCost:
    """One report of a mechanism tailored to a prior, read by somebody who knows the true histogram."""

    mechanism: str
    prior: str | None
    """What it was tailored to; nothing for a mechanism without a prior."""
    epsilon: float
    exact_loss: float
    noise_variance: float
    noise_variance_sd: float
    """Over repeated first rounds, where the prior was learned."""
    against_true: float
    """The noise variance as a multiple of that under the true histogram."""


def prior_costs(truth: Prior, epsilons: Sequence[str], *, rng: np.random.Generator) -> list[PriorCost]:
    """Compare, at every epsilon, what a policy could be tailored to, and bounded Laplace beside it."""
    return [row for epsilon in epsilons for row in _costs_at(truth, epsilon, rng)]


def prior_cost_figure(rows: Sequence[PriorCost]) -> Any:  # noqa: ANN401 - matplotlib's types stay in figures
    """Draw the noise of one report by what it was tailored to, bounded Laplace beside it, and the loss of all."""
    tailored = [row for row in rows if row.mechanism == TAILORED]
    ends = [row for row in rows if row.prior in {"true", "mirrored", None}]
    noise = "noise variance of one report,\nas a multiple of the least"
    return curves_figure(
        [
            Panel("by what it was tailored to", noise, _lines(tailored)),
            Panel("beside bounded Laplace", noise, _lines(ends), from_zero=True),
            Panel("privacy, whatever the prior", "exact loss of one report", _losses(rows), from_zero=True),
        ],
        3,
    )


def _costs_at(truth: Prior, epsilon: str, rng: np.random.Generator) -> list[PriorCost]:
    scale = truth.scale
    stated = {
        "true": truth,
        "generic": Prior.generic(scale),
        "uniform": Prior.uniform(scale),
        "mirrored": Prior.of(scale, truth.probabilities[::-1]),
    }
    channels = {name: [build_channel(TAILORED, scale, epsilon, prior)] for name, prior in stated.items()}
    channels["learned"] = [_learned_channel(truth, epsilon, rng) for _ in range(_LEARNED_DRAWS)]
    least = channels["true"][0].calibrate(truth).noise_variance
    rows = [_cost(TAILORED, name, channels[name], truth, least) for name in _LABELS]
    return [*rows, _cost(_BASELINE, None, [build_channel(_BASELINE, scale, epsilon)], truth, least)]


def _learned_channel(truth: Prior, epsilon: str, rng: np.random.Generator) -> Channel:
    first = build_channel(FIRST_MECHANISM, truth.scale, epsilon)
    ranks = rng.choice(truth.scale.size, FIRST_REPORTS, p=truth.probabilities).astype(np.uint16)
    return tailored_policy(draw_reports(first, ranks, rng), first).channel


def _cost(mechanism: str, prior: str | None, channels: Sequence[Channel], truth: Prior, least: float) -> PriorCost:
    variances = [channel.calibrate(truth).noise_variance for channel in channels]
    mean = float(np.mean(variances))
    loss = max(channel.exact_loss for channel in channels)
    return PriorCost(mechanism, prior, float(channels[0].epsilon), loss, mean, float(np.std(variances)), mean / least)


def _lines(rows: Sequence[PriorCost]) -> tuple[Line, ...]:
    kinds = dict.fromkeys((row.mechanism, row.prior) for row in rows)
    return tuple(_line([row for row in rows if (row.mechanism, row.prior) == kind]) for kind in kinds)


def _line(rows: Sequence[PriorCost]) -> Line:
    prior = rows[0].prior
    style, label = (_BASELINE, "bounded Laplace") if prior is None else (f"prior-{prior}", _LABELS[prior])
    values = tuple(row.against_true for row in rows)
    spread = tuple(row.noise_variance_sd / row.noise_variance * row.against_true for row in rows)
    return Line(style, label, tuple(row.epsilon for row in rows), values, spread)


def _losses(rows: Sequence[PriorCost]) -> tuple[Line, ...]:
    """Draw one line for all priors: the largest loss any of them has."""
    tailored, epsilons = [row for row in rows if row.prior], tuple(dict.fromkeys(row.epsilon for row in rows))
    worst = tuple(max(row.exact_loss for row in tailored if row.epsilon == epsilon) for epsilon in epsilons)
    beside = tuple(row.exact_loss for row in rows if row.prior is None)
    none = (0.0,) * len(epsilons)
    return (
        Line("prior-true", "tailored, any prior", epsilons, worst, none),
        Line(_BASELINE, "bounded Laplace", epsilons, beside, none),
    )
