"""Where a prior comes from: a file, a stated shape, or earlier reports; never true ratings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import PriorError, RatingError, TableError
from tacit.privacy.policy import Policy
from tacit.privacy.prior import GENERIC_DEVIATION, GENERIC_MEAN, Prior
from tacit.privacy.report import POLICY_DOCUMENT_KEY
from tacit.tables import is_parquet, read_columns, read_metadata

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tacit.privacy.channel import Channel
    from tacit.privacy.scale import RatingScale

# How far, in standard deviations of a weak belief, a fitted bell may stray from
# the generic one: its mean by 0.3 of the width, its spread by a factor of two.
_MEAN_BELIEF = 0.3
_LOG_SPREAD_BELIEF = np.log(2.0)


def load_prior(source: str, scale: RatingScale) -> Prior:
    """Read a prior: `uniform`, `generic`, a CSV file of rating and weight, or a Parquet file of reports."""
    if source == "uniform":
        return Prior.uniform(scale)
    if source == "generic":
        return Prior.generic(scale)
    return prior_from_reports(source, scale) if is_parquet(source) else prior_from_histogram(source, scale)


def prior_from_histogram(path: str | Path, scale: RatingScale) -> Prior:
    """Read a CSV file with the columns rating and weight; a rating that is absent has weight 0."""
    rating, weight = read_columns(path, ["rating", "weight"])
    weights = weight.numbers()
    try:
        ranks = scale.ranks_of(rating.numbers())
    except RatingError as error:
        raise TableError(f"{path}: {error}") from error
    if len(set(ranks.tolist())) < len(ranks):
        raise TableError(f"{path} names a rating twice; give each rating one weight")
    by_rank = np.zeros(scale.size)
    by_rank[ranks] = weights
    return Prior.of(scale, by_rank)


def prior_from_reports(path: str | Path, scale: RatingScale) -> Prior:
    """Estimate the rating histogram from reports and the policy their file carries."""
    document = read_metadata(path, POLICY_DOCUMENT_KEY)
    if document is None:
        raise PriorError(f"{path} does not carry its policy; use reports written by tacit perturb")
    policy = Policy.from_json(document)
    if policy.scale != scale:
        raise PriorError(f"the reports in {path} are on scale {policy.scale}, not {scale}; use reports on that scale")
    symbols = read_columns(path, ["symbol"])[0].whole_numbers()
    known = policy.channel.weights.symbols
    if symbols.min() < 0 or symbols.max() >= known:
        raise PriorError(
            f"{path} holds a symbol outside the policy's 0 to {known - 1}; are the reports from elsewhere?"
        )
    return fit_prior(policy.channel, np.bincount(symbols, minlength=known))


def fit_prior(channel: Channel, symbol_counts: NDArray[np.int64]) -> Prior:
    """Fit a bell-shaped rating histogram to reports, through their channel.

    Reports under a small epsilon, or of one bit, cannot fix a free histogram, so
    its shape is a bell on the scale with two parameters, and a weak belief keeps
    them near the generic prior where the reports say nothing.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 - a slow import that only fitting needs

    def surprise(parameters: NDArray[np.float64]) -> float:
        expected = _bell(channel.scale, parameters).probabilities @ channel.likelihood
        belief = ((parameters[0] - GENERIC_MEAN) / _MEAN_BELIEF) ** 2
        belief += ((parameters[1] - np.log(GENERIC_DEVIATION)) / _LOG_SPREAD_BELIEF) ** 2
        return float(0.5 * belief - symbol_counts @ np.log(expected))

    start = np.array([GENERIC_MEAN, np.log(GENERIC_DEVIATION)])
    return _bell(channel.scale, minimize(surprise, start, method="Nelder-Mead").x)


def _bell(scale: RatingScale, parameters: NDArray[np.float64]) -> Prior:
    mean, log_spread = np.clip(parameters, [-1.0, np.log(0.05)], [2.0, np.log(5.0)])
    return Prior.bell(scale, float(mean), float(np.exp(log_spread)))
