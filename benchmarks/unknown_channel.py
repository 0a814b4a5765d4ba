"""Reports whose channel nobody knows: can a mixture with means that follow the ratings beat one of zero mean?

A report y is read as a draw from N(mu_k, sigma_k^2), k being the rank of the rating behind it; the rating is a cut-up
normal around its score. Readings differ in what they take for granted of the means:

- `plain`: a report is the rating and noise, moved so that the mean report is the generic mean rating.
- `free`: each rank has its own mean and variance, and the histogram of ranks is learned, all by EM.
- `population`: the same, but the histogram is the generic one.
- `affine`: as `population`, with means on a line and equal variances.
- `signal`: means on a line whose slope follows from how much users and items differ: they are taken to make up a
  generic share of the variance of ratings. Its level makes the mean report the generic mean rating, or, under
  `signal, symmetric`, leaves the middle of the scale where it is, once the slope is known well enough.

Each reading gives values and noise, which the machinery of `channel-mf` fits, without the pattern. To be beaten are the
paper's model, its scores moved to the generic level, and that level alone. `known` is `channel-mf` proper, which
knows the channel. The data are looked for in the folder `TACIT_DATA` names, or beside the project.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from comparison import Comparison
from noise_treatments import CutNormal, Fold
from tacit.evaluation.fold import scores_of, simulated_reports
from tacit.evaluation.setting import Setting
from tacit.evaluation.splits import folds_of
from tacit.learning import ChannelMfOptions, MogMfOptions, Options, ReportMatrix, channel_mf, fit
from tacit.learning.calibrated import CalibratedReports, centre_of
from tacit.privacy.calibration import calibrate
from tacit.privacy.prior import GENERIC_DEVIATION, Prior

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tacit.evaluation.ratings import RatingData
    from tacit.learning import Model
    from tacit.learning.matrix import Rows

    Doubles = NDArray[np.float64]

SETS = ("ml-100k", "libimseti-top2000")
MECHANISMS = ("bounded-laplace", "randomized-response")
EPSILONS = ("0.1", "0.5", "1", "2", "3")
OF_FOLDS, SEED = 10, 0

# Shares of the variance of ratings that are users' and items' own, about what `channel-mf` takes for granted.
USERS, ITEMS = 0.15, 0.2
ROUNDS = 5  # of EM, each with a fit
DOUBT = 2.0  # standard errors that are added to what users and items are seen to differ
KNOWN_WELL = 4.0  # standard errors from which on the slope counts as known
NARROWEST = 1e-3  # variance of a component, in squared widths


@dataclass(frozen=True, eq=False, slots=True)
class Reading:
    """What reports stand for on the scale of ratings: a value for each symbol, and the variance of its noise."""

    values: Doubles
    noise_variance: float
    rating_variance: float

    def fitted(self, matrix: ReportMatrix, *, pattern: bool = False) -> Model:
        """Fit what `channel-mf` would, had it read the reports like this."""
        noise = np.full(len(self.values), self.noise_variance)
        read = CalibratedReports(self.values, noise, self.rating_variance, centre_of(matrix.scale))
        with mock.patch.object(channel_mf, "calibrated", return_value=read):
            return fit(matrix, ChannelMfOptions(pattern=pattern), np.random.default_rng(SEED), threads=1)


def owners(rows: Rows) -> NDArray[np.int64]:
    """Return the row of every report."""
    return np.repeat(np.arange(len(rows)), rows.counts())


@dataclass(frozen=True, eq=False, slots=True)
class Components:
    """One Gaussian for each rank, and how frequent the rank is."""

    means: Doubles
    variances: Doubles
    shares: Doubles

    def likelihood(self, symbols: Doubles) -> Doubles:
        """Return p(symbol | rank) on the symbols there are, one row for each rank."""
        away = symbols - self.means[:, None]
        table = np.exp(-0.5 * away**2 / self.variances[:, None]) + 1e-12
        return np.asarray(table / table.sum(axis=1, keepdims=True))

    def reading(self, matrix: ReportMatrix) -> Reading:
        """Calibrate as if the components were the channel."""
        prior = Prior.of(matrix.scale, self.shares)
        found = calibrate(self.likelihood(symbols_of(matrix)), prior)
        return Reading(found.values, found.noise_variance, prior.variance)


def symbols_of(matrix: ReportMatrix) -> Doubles:
    """Return the numbers that symbols stand for."""
    if matrix.symbol_values is None:
        raise TypeError("plain numbers have no symbols")
    return matrix.symbol_values.astype(np.float64)


def expectation_maximisation(matrix: ReportMatrix, *, learn_shares: bool, affine: bool) -> Reading:
    """Learn the components in turn with the scores of a fit that reads reports through them."""
    symbols, generic = symbols_of(matrix), Prior.generic(matrix.scale)
    ratings, width = generic.scale.ratings.astype(np.float64), float(matrix.scale.width)
    shares = generic.probabilities
    components = Components(ratings, np.full(len(ratings), matrix.variance / 2), shares)
    codes = matrix.by_user.values
    for _ in range(ROUNDS):
        prior = Prior.of(matrix.scale, components.shares)
        model = components.reading(matrix).fitted(matrix)
        scores = model.predict(
            np.asarray(matrix.users.ids)[owners(matrix.by_user)], np.asarray(matrix.items.ids)[matrix.by_user.columns]
        ).ratings.astype(np.float64)
        law = CutNormal.of("consistent", prior, float(scores.var()))
        belief = law.ranks(scores)[0] * components.likelihood(symbols)[:, codes].T
        belief /= belief.sum(axis=1, keepdims=True)
        components = updated(belief, symbols[codes], ratings, narrowest=NARROWEST * width**2, affine=affine)
        if not learn_shares:
            components = Components(components.means, components.variances, shares)
    return components.reading(matrix)


def updated(belief: Doubles, reports: Doubles, ratings: Doubles, *, narrowest: float, affine: bool) -> Components:
    """Maximise the expected likelihood over the components."""
    weight = belief.sum(axis=0)
    means = belief.T @ reports / weight
    if affine:
        slope, level = np.polyfit(ratings, means, 1, w=np.sqrt(weight))
        means = level + slope * ratings
    variances = (belief * (reports[:, None] - means) ** 2).sum(axis=0) / weight
    if affine:
        variances = np.full(len(ratings), weight @ variances / weight.sum())
    return Components(means, np.maximum(variances, narrowest), weight / weight.sum())


def differences_between(rows: Rows, matrix: ReportMatrix) -> tuple[float, float]:
    """Return the variance of reports between rows, from products of two reports of one row, and its standard error."""
    away = matrix.values_of(rows).astype(np.float64) - matrix.mean
    counts, whose = rows.counts().astype(np.float64), owners(rows)
    products = np.bincount(whose, away, len(rows)) ** 2 - np.bincount(whose, away**2, len(rows))
    several = counts > 1
    total = counts[several].sum()
    variance = float((products[several] / (counts[several] - 1)).sum() / total)
    error = matrix.variance * np.sqrt(2 * (counts[several] / (counts[several] - 1)).sum()) / total
    return variance, float(error)


def on_a_line(matrix: ReportMatrix, slope: float, level: float) -> Reading:
    """Take reports for ratings on a line plus noise; the mean report stands for the level."""
    variance = generic_variance(matrix)
    values = level + (symbols_of(matrix) - matrix.mean) / slope
    return Reading(values, max(matrix.variance / slope**2 - variance, 0.0), variance)


def generic_variance(matrix: ReportMatrix) -> float:
    """Return what ratings usually vary by."""
    return float((GENERIC_DEVIATION * float(matrix.scale.width)) ** 2)


def plain(matrix: ReportMatrix) -> Reading:
    """Take reports for ratings plus noise, but for their level."""
    return on_a_line(matrix, 1.0, centre_of(matrix.scale))


def by_signal(matrix: ReportMatrix, *, symmetric: bool, share: float = USERS + ITEMS) -> Reading:
    """Find the slope from how much rows differ."""
    (users, user_error), (items, item_error) = (
        differences_between(rows, matrix) for rows in (matrix.by_user, matrix.by_item)
    )
    seen, error = users + items, float(np.hypot(user_error, item_error))
    doubted = max(seen, 0.0) + DOUBT * error
    variance = generic_variance(matrix)
    slope = float(np.sqrt(min(doubted / share, matrix.variance) / variance))
    level, middle = centre_of(matrix.scale), float(matrix.scale.low) + float(matrix.scale.width) / 2
    if symmetric and seen > KNOWN_WELL * error:
        level = middle + (matrix.mean - middle) / slope
    return on_a_line(matrix, slope, level)


READINGS: dict[str, Callable[[ReportMatrix], Reading]] = {
    "plain": plain,
    "free": partial(expectation_maximisation, learn_shares=True, affine=False),
    "population": partial(expectation_maximisation, learn_shares=False, affine=False),
    "affine": partial(expectation_maximisation, learn_shares=False, affine=True),
    "signal": partial(by_signal, symmetric=False),
    "signal, symmetric": partial(by_signal, symmetric=True),
    "signal, symmetric, half the share": partial(by_signal, symmetric=True, share=(USERS + ITEMS) / 2),
    "signal, symmetric, twice the share": partial(by_signal, symmetric=True, share=2 * (USERS + ITEMS)),
}
WITH_PATTERN = "signal, symmetric"
OTHERS: dict[str, Options] = {
    "zero-mean, rank 1": MogMfOptions(rank=1),
    "zero-mean, rank 3": MogMfOptions(rank=3),
    "known": ChannelMfOptions(pattern=False),
    "known, with pattern": ChannelMfOptions(),
}
REFERENCE = "zero-mean, rank 1"


def run(data: RatingData, mechanism: str, epsilon: str, fold: int) -> dict[str, float]:
    """Return the RMSE of every reading on one fold."""
    held = folds_of(len(data), OF_FOLDS, SEED) == fold
    here = Fold(data, held)
    matrix = simulated_reports(data, ~held, Setting(mechanism, epsilon, MogMfOptions(), SEED, OF_FOLDS), fold)
    level = centre_of(data.scale)
    errors = {"generic level": here.error(np.full(int(held.sum()), level))}
    for name, options in OTHERS.items():
        model = fit(matrix, options, np.random.default_rng([SEED, fold]), threads=1)
        scores = here.scored(scores_of(model, data.shape))
        errors[name] = here.error(scores)
        if name == REFERENCE:
            errors[f"{name}, generic level"] = here.error(scores - np.float32(matrix.mean - level))
    for name, read in READINGS.items():
        reading = read(matrix)
        errors[name] = here.error(here.scored(scores_of(reading.fitted(matrix), data.shape)))
        if name == WITH_PATTERN:
            model = reading.fitted(matrix, pattern=True)
            errors[f"{name}, with pattern"] = here.error(here.scored(scores_of(model, data.shape)))
    return errors


def summary(found: list[dict[str, float]]) -> dict[str, Any]:
    """Average over folds; differences are paired with the reference, negative where that one is worse."""
    table = {}
    for name in found[0]:
        each = np.array([one[name] for one in found])
        apart = each - np.array([one[REFERENCE] for one in found])
        error = float(apart.std(ddof=1) / np.sqrt(len(apart)))
        table[name] = {
            "rmse": round(float(each.mean()), 5),
            "difference": round(float(apart.mean()), 5),
            "standard_error": round(error, 5),
        }
    return table


def main() -> int:
    """Compare, print as it goes, and keep the figures."""
    settings = {
        "of_folds": OF_FOLDS,
        "seed": SEED,
        "rounds": ROUNDS,
        "shares": {"users": USERS, "items": ITEMS},
        "doubt": DOUBT,
        "known_well": KNOWN_WELL,
        "options": {name: options.to_document() for name, options in OTHERS.items()},
    }
    compared = Comparison("unknown_channel", run, summary, SETS, MECHANISMS, EPSILONS, 5, settings)
    return compared.main(__doc__)


if __name__ == "__main__":
    sys.exit(main())
