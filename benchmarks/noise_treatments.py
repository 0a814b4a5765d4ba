"""Two ways to read reports through a known channel: calibrated values, as `channel-mf` does, and the exact likelihood.

The exact reading takes a rating for a cut-up normal around its score: p(symbol | score) is the sum over ranks of
p(symbol | rank) p(rank | score). It is fitted by Fisher scoring from where the calibrated fit ended: around the score m
of the moment a report counts as the value m + s / i with the weight i, where s is the slope of log p(symbol | m) and i
the information that one report is expected to carry there. The sweeps look values and weights up by symbol, so
scores are put into bins, and a code says both symbol and bin. All else is the machinery of `channel-mf`, unchanged.

Both readings get the same reports of the same folds. The data are looked for in the folder `TACIT_DATA` names, or
beside the project.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from comparison import Comparison
from tacit.evaluation.devices import OwnRatings, device_answers
from tacit.evaluation.fold import scores_of, simulated_reports
from tacit.evaluation.setting import Setting
from tacit.evaluation.splits import folds_of
from tacit.learning import ChannelMfOptions, GlobalMeanOptions, Model, fit
from tacit.learning.channel_mf import RESIDUAL, ChannelFit, fit_channel_mf, solve_items, solve_users
from tacit.learning.channel_part import finished
from tacit.learning.deconvolution import fit_prior
from tacit.learning.local_engine import LocalEngine, LocalPosteriorSweeper
from tacit.learning.loop import Conduct
from tacit.learning.model_parts import Offsets
from tacit.learning.reports import tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tacit.evaluation.metrics import Scores
    from tacit.evaluation.ratings import RatingData
    from tacit.learning.factors import FactorPair
    from tacit.learning.matrix import ReportMatrix, Rows
    from tacit.privacy.prior import Prior

    Doubles = NDArray[np.float64]

SETS = ("ml-100k", "libimseti-top2000")
MECHANISMS = ("bounded-laplace", "randomized-response", "tailored")
EPSILONS = ("0.1", "0.5", "1", "2", "3", "5")
LAWS = ("quantiles", "midpoints", "consistent")
OF_FOLDS, SEED = 10, 0

BINS = 128
MARGIN = 0.25  # bins reach so many widths beyond the scale: scores are not cut off
ITERATIONS = 16
DAMPING = 0.5  # the share of every step that is taken, of all that a step changes; whole steps swing to and fro
LEAST_UNEXPLAINED = 0.3
LEAST_INFORMATION = 0.02  # as a share of the most: far off the scale a report says nothing, and steps have no end


@dataclass(frozen=True, eq=False, slots=True)
class CutNormal:
    """A rating given its score m: the rank whose interval holds a draw from N(m, deviation^2)."""

    cuts: Doubles  # between ranks, rising
    deviation: float
    ratings: Doubles

    @classmethod
    def of(cls, name: str, prior: Prior, explained: float) -> CutNormal:
        """Cut where the histogram of ratings demands it, or midway between ratings.

        The deviation is what `channel-mf` takes for granted or, to be `consistent` with that histogram, what scores
        that vary by `explained` leave of the variance of ratings.
        """
        ratings = np.asarray(prior.scale.ratings, dtype=np.float64)
        between = (ratings[1:] + ratings[:-1]) / 2
        if name != "midpoints":
            between = prior.mean + np.sqrt(prior.variance) * norm.ppf(np.cumsum(prior.probabilities)[:-1])
        variance = RESIDUAL * prior.variance
        if name == "consistent":
            variance = max(prior.variance - explained, LEAST_UNEXPLAINED * prior.variance)
        return cls(np.asarray(between), float(np.sqrt(variance)), ratings)

    def ranks(self, scores: Doubles) -> tuple[Doubles, Doubles]:
        """Return p(rank | score), one row for each score, and its derivative by the score."""
        away = (self.cuts - scores[:, None]) / self.deviation
        none, all_ = np.zeros((len(scores), 1)), np.ones((len(scores), 1))
        below = np.hstack([none, norm.cdf(away), all_])
        density = np.hstack([none, norm.pdf(away) / self.deviation, none])
        return np.diff(below, axis=1), -np.diff(density, axis=1)

    def expected(self, scores: NDArray[Any]) -> Doubles:
        """Return the expected rating."""
        return np.asarray(self.ranks(scores.astype(np.float64))[0] @ self.ratings)


@dataclass(frozen=True, eq=False, slots=True)
class WorkingReports:
    """What every symbol says around every bin of scores: a value, as a deviation from the centre, and its weight."""

    middles: Doubles
    values: NDArray[np.float32]
    weights: NDArray[np.float32]
    centre: float

    @classmethod
    def of(cls, matrix: ReportMatrix, latent: CutNormal, centre: float) -> WorkingReports:
        """Tabulate slope and information; those of a policy's symbols follow from its own channel."""
        low, width = float(matrix.scale.low), float(matrix.scale.width)
        edges = np.linspace(low - MARGIN * width, low + (1 + MARGIN) * width, BINS + 1)
        middles = (edges[1:] + edges[:-1]) / 2
        ranks, slopes = latent.ranks(middles)
        values, weights = [], []
        for policy in matrix.policies:
            likelihood = policy.channel.likelihood
            chance, slope = ranks @ likelihood, slopes @ likelihood
            information = (slope**2 / chance).sum(axis=1)
            information = np.maximum(information, LEAST_INFORMATION * information.max())
            values.append((middles[:, None] + slope / chance / information[:, None]).T - centre)
            weights.append(np.tile(information, (likelihood.shape[1], 1)))
        table, precisions = (np.concatenate(part).astype(np.float32).ravel() for part in (values, weights))
        return cls(middles, table, precisions, centre)

    def codes(self, symbols: Rows, own: NDArray[np.float32], other: NDArray[np.float32]) -> Rows:
        """Encode symbol and bin of every report."""
        scores = self.centre + scores_of_reports(symbols, own, other)
        step = self.middles[1] - self.middles[0]
        bins = np.clip(np.rint((scores - self.middles[0]) / step), 0, BINS - 1)
        return replace(symbols, values=(symbols.values * np.float64(BINS) + bins).astype(np.uint16))


def scores_of_reports(reports: Rows, own: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the score of every report, less the centre."""
    whose = np.repeat(np.arange(len(reports)), reports.counts())
    return np.asarray(np.einsum("rk,rk->r", own[whose], other[reports.columns]))


def histogram(matrix: ReportMatrix) -> Prior:
    """Deconvolve the histogram of ratings from the reports."""
    sizes = [policy.channel.weights.symbols for policy in matrix.policies]
    counts = np.split(tally(matrix.by_user.values, sum(sizes)), np.cumsum(sizes)[:-1])
    return fit_prior([(policy.channel, count) for policy, count in zip(matrix.policies, counts, strict=True)])


def refit(
    fitting: ChannelFit, pair: FactorPair, matrix: ReportMatrix, latent: CutNormal
) -> tuple[ChannelFit, FactorPair, list[float]]:
    """Go on from a calibrated fit under the exact likelihood; return also how much each iteration changed the users."""
    fitting, pair = deepcopy((fitting, pair))
    working = WorkingReports.of(matrix, latent, fitting.report_values.centre)
    changing: list[NDArray[Any]] = [pair.users, pair.items, fitting.responses]
    for side in (fitting.users, fitting.items):
        changing += [side.centres, side.coefficients, side.variances]
    changes = []
    for _ in range(ITERATIONS):
        before = pair.users.copy()
        with damped(changing):
            reports = working.codes(matrix.by_user, pair.users, pair.items), matrix.by_item
            sweeper = LocalPosteriorSweeper(*reports, working.values, working.weights, threads=1)
            solve_users(replace(fitting, sweeper=sweeper), pair, tune=True)
        with damped(changing):
            reports = matrix.by_user, working.codes(matrix.by_item, pair.items, pair.users)
            sweeper = LocalPosteriorSweeper(*reports, working.values, working.weights, threads=1)
            solve_items(replace(fitting, sweeper=sweeper), pair, tune=True, judged=True)
        changes.append(float(np.linalg.norm(pair.users - before) / np.linalg.norm(before)))
    return fitting, pair, changes


@contextmanager
def damped(arrays: list[NDArray[Any]]) -> Iterator[None]:
    """Let arrays go only part of the way that they are moved."""
    before = [array.copy() for array in arrays]
    yield
    for array, old in zip(arrays, before, strict=True):
        array[:] = old + DAMPING * (array - old)


def model_of(fitting: ChannelFit, pair: FactorPair, matrix: ReportMatrix) -> Model:
    """Finish a fit as `tacit.learning.fit` does."""
    rows, mean, channel = finished(fitting, pair, matrix)
    offsets = Offsets(mean, rows.user_offsets(), rows.item_offsets())
    return replace(
        fit(matrix, GlobalMeanOptions(), np.random.default_rng(0), threads=1),
        name=ChannelMfOptions.model,
        user_factors=rows.users[:, : rows.rank].copy(),
        item_factors=rows.items[:, : rows.rank].copy(),
        offsets=offsets,
        fallback=offsets,
        channel=channel,
    )


@dataclass(frozen=True, eq=False, slots=True)
class Fold:
    """One fold of some data: what is learned from and what is held out."""

    data: RatingData
    held: NDArray[np.bool_]

    def error(self, predicted: NDArray[Any]) -> float:
        """Return the RMSE of predictions of what is held out, cut off at the ends of the scale."""
        scale = self.data.scale
        wrong = (
            np.clip(predicted.astype(np.float64), float(scale.low), float(scale.high)) - self.data.ratings[self.held]
        )
        return float(np.sqrt(np.mean(np.square(wrong))))

    def scored(self, scores: Scores) -> NDArray[np.float32]:
        """Return the scores of what is held out."""
        return scores.of_pairs(self.data.users.codes[self.held], self.data.items.codes[self.held])

    def errors(self, model: Model, latent: dict[str, CutNormal]) -> dict[str, float]:
        """Return RMSE at the provider, of scores and of expected ratings, and on devices."""
        data, kept = self.data, ~self.held
        scores = self.scored(scores_of(model, data.shape))
        own = OwnRatings(data.users.codes[kept], data.items.codes[kept], data.ratings[kept], data.shape)
        published = model.item_model().as_published()
        on_devices = device_answers(published, own, data.users.codes[self.held], data.items.codes[self.held])
        return {
            "provider": self.error(scores),
            **{f"provider, expected, {name}": self.error(law.expected(scores)) for name, law in latent.items()},
            "device": self.error(on_devices.predicted),
        }


def run(data: RatingData, mechanism: str, epsilon: str, fold: int) -> dict[str, Any]:
    """Compare the readings on one fold."""
    setting = Setting(mechanism, epsilon, ChannelMfOptions(), SEED, OF_FOLDS)
    held = folds_of(len(data), OF_FOLDS, SEED) == fold
    here = Fold(data, held)
    matrix = simulated_reports(data, ~held, setting, fold)
    rng = np.random.default_rng([SEED, fold])
    pair, _, fitting = fit_channel_mf(LocalEngine(matrix, 1), ChannelMfOptions(), rng, Conduct())
    prior = histogram(matrix)
    explained = float(scores_of_reports(matrix.by_user, pair.users, pair.items).var())
    laws = {name: CutNormal.of(name, prior, explained) for name in LAWS}
    errors = {"calibrated": here.errors(model_of(fitting, pair, matrix), laws)}
    changes = {}
    for name, law in laws.items():
        refitted, moved, changes[name] = refit(fitting, pair, matrix, law)
        errors[f"exact, {name}"] = here.errors(model_of(refitted, moved, matrix), {name: law})
    return {"errors": errors, "changes": {name: round(each[-1], 5) for name, each in changes.items()}}


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Average over folds; differences are paired with the calibrated reading, negative where that one is worse."""
    errors = [one["errors"] for one in found]
    table: dict[str, Any] = {}
    for reading, place in [(name, place) for name, by_place in errors[0].items() for place in by_place]:
        each = np.array([one[reading][place] for one in errors])
        row: dict[str, Any] = {"rmse": round(float(each.mean()), 5)}
        if reading != "calibrated":
            against = place.split(",")[0]  # expected ratings compare with plain scores, which is what the model gives
            apart = each - np.array([one["calibrated"][against] for one in errors])
            row["difference"] = round(float(apart.mean()), 5)
            row["standard_error"] = round(float(apart.std(ddof=1) / np.sqrt(len(apart))), 5)
        table.setdefault(reading, {})[place] = row
    changes = {name: max(one["changes"][name] for one in found) for name in LAWS}
    return {**table, "largest_last_change": changes}


def main() -> int:
    """Compare, print as it goes, and keep the figures."""
    settings = {
        "of_folds": OF_FOLDS,
        "seed": SEED,
        "bins": BINS,
        "iterations": ITERATIONS,
        "damping": DAMPING,
        "residual_share": RESIDUAL,
        "options": ChannelMfOptions().to_document(),
    }
    compared = Comparison("noise_treatments", run, summary, SETS, MECHANISMS, EPSILONS, 3, settings)
    return compared.main(__doc__)


if __name__ == "__main__":
    sys.exit(main())
