"""One fold of one setting: perturb what is learned from, fit, and measure on the true ratings held out."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import TacitError
from tacit.evaluation.devices import OwnRatings, device_answers
from tacit.evaluation.metrics import Answers, HeldOut, Metrics, Scores, measure
from tacit.evaluation.pg_mf import PgMfOptions, PgMfRun, run_pg_mf
from tacit.evaluation.pg_mf_devices import DeviceRatings, middle_and_half_width
from tacit.evaluation.setting import PROVIDER, Setting
from tacit.evaluation.splits import folds_of
from tacit.evaluation.tailoring import draw_reports, policy_of, tailored_reports
from tacit.learning import Model, ReportMatrix, fit
from tacit.learning.matrix import Rows
from tacit.privacy.continuous import draw_laplace_noise
from tacit.privacy.mechanisms import TAILORED
from tacit.privacy.noise import NO_NOISE, UNBOUNDED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.evaluation.ratings import RatingData

    Chosen = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FoldResult:
    """What one fold of one setting gave."""

    metrics: Metrics
    n_train: int
    n_test: int
    fit_seconds: float
    iterations: int | None

    def to_document(self) -> dict[str, Any]:
        """Write the result as plain values."""
        document = asdict(self)
        return {**document.pop("metrics"), **document}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> FoldResult:
        """Read what `to_document` wrote."""
        own = {name: document[name] for name in ("n_train", "n_test", "fit_seconds", "iterations")}
        metrics = Metrics(**{name: value for name, value in document.items() if name not in own})
        return cls(metrics, **own)


def run_fold(data: RatingData, setting: Setting, fold: int, *, threshold: float, threads: int = 1) -> FoldResult:
    """Learn from all folds but one, and measure on that one."""
    held = folds_of(len(data), setting.folds, setting.seed) == fold
    held_out = HeldOut(data.users.codes[held], data.items.codes[held], data.ratings[held])
    began = time.perf_counter()
    learned = _learn(data, ~held, setting, fold, threads)
    seconds = time.perf_counter() - began
    iterations = len(learned.trace.iterations) if isinstance(learned, Model) else len(learned.traffic.from_device)
    if isinstance(learned, Model) and setting.at != PROVIDER:
        answers = _answers_of_devices(learned, data, ~held, held_out)
    else:
        scores = scores_of(learned, data.shape) if isinstance(learned, Model) else _scores_of_devices(learned)
        answers = scores.answers(held_out, _trained(data, ~held), threads)
    found = measure(answers, held_out, data.scale, threshold=threshold)
    return FoldResult(found, int((~held).sum()), int(held.sum()), seconds, iterations)


def _learn(data: RatingData, kept: Chosen, setting: Setting, fold: int, threads: int) -> Model | PgMfRun:
    if isinstance(setting.options, PgMfOptions):
        return _run_protocol(data, kept, setting, fold)
    return _fit(data, kept, setting, fold, threads)


def simulated_reports(data: RatingData, kept: Chosen, setting: Setting, fold: int) -> ReportMatrix:
    """Perturb the ratings kept for learning, as their devices would.

    The noise depends on seed, fold, mechanism and epsilon alone, so that models are compared on the same reports.
    """
    rng = _generator(setting, fold, f"{setting.mechanism} {setting.epsilon}")
    users, items, ratings = data.users.codes[kept], data.items.codes[kept], data.ratings[kept]
    if setting.mechanism == NO_NOISE:
        return ReportMatrix.of_values(users, items, ratings, data.scale)
    if setting.mechanism == UNBOUNDED:
        noise = draw_laplace_noise(len(ratings), data.scale, float(setting.epsilon or 0), rng)
        return ReportMatrix.of_values(users, items, ratings + noise, data.scale)
    if setting.mechanism == TAILORED:
        return tailored_reports(users, items, data.ranks[kept], data.scale, str(setting.epsilon), rng=rng)
    policy = policy_of(setting.mechanism, data.scale, str(setting.epsilon))
    return ReportMatrix.of_symbols(users, items, draw_reports(policy.channel, data.ranks[kept], rng), policy)


def _answers_of_devices(model: Model, data: RatingData, kept: Chosen, held_out: HeldOut) -> Answers:
    """Let devices answer from what is published and the true ratings they kept."""
    own = OwnRatings(data.users.codes[kept], data.items.codes[kept], data.ratings[kept], data.shape)
    return device_answers(model.item_model().as_published(), own, held_out.users, held_out.items)


def scores_of(model: Model, shape: tuple[int, int]) -> Scores:
    """Write a model's scores, those it falls back on included, as products of rows; ids are codes from 0."""
    rank, own, other = model.rank, model.offsets, model.fallback
    users = np.zeros((shape[0], rank + 4), dtype=np.float32)
    items = np.zeros((shape[1], rank + 4), dtype=np.float32)
    # Four more coordinates: the item's offset, the user's level for items known and unknown, and what stands in for
    # a model where the user is unknown.
    users[:, rank:] = 0, other.mean, other.mean, 1
    items[:, rank:] = 0, 0, 1, 0
    known_users, known_items = np.asarray(model.users.ids), np.asarray(model.items.ids)
    users[known_users, :rank], items[known_items, :rank] = model.user_factors, model.item_factors
    users[known_users, rank:] = _columns(1, own.mean + own.users, other.mean + other.users, 0)
    items[known_items, rank:] = _columns(own.items, 1, 0, other.items)
    return Scores(users, items)


def _columns(*parts: float | NDArray[Any]) -> NDArray[Any]:
    return np.stack(np.broadcast_arrays(*parts), axis=-1)


def _fit(data: RatingData, kept: Chosen, setting: Setting, fold: int, threads: int) -> Model:
    matrix = simulated_reports(data, kept, setting, fold)
    model = fit(matrix, setting.options, _generator(setting, fold, setting.model), seed=setting.seed, threads=threads)
    if model.trace.stopped == "interrupted":
        raise TacitError("a fit was interrupted; run the same again")
    return model


def _run_protocol(data: RatingData, kept: Chosen, setting: Setting, fold: int) -> PgMfRun:
    if not isinstance(setting.options, PgMfOptions):
        raise TypeError("only PG-MF is a protocol")
    users, items = data.users.codes[kept], data.items.codes[kept]
    ratings = DeviceRatings(data.scale, users, items, data.ratings[kept].astype(np.float32), data.shape)
    rng = _generator(setting, fold, f"{setting.mechanism} {setting.epsilon}")
    return run_pg_mf(ratings, float(setting.epsilon or 0), options=setting.options, rng=rng)


def _scores_of_devices(run: PgMfRun) -> Scores:
    middle, half_width = middle_and_half_width(run.scale)
    level = np.full((len(run.user_vectors), 1), middle)
    users = np.hstack([half_width * run.user_vectors, level]).astype(np.float32)
    return Scores(users, np.hstack([run.item_factors, np.ones((len(run.item_factors), 1), dtype=np.float32)]))


def _trained(data: RatingData, kept: Chosen) -> Rows:
    """Return which items every user rated among those kept; the data are in that order already."""
    counts = np.bincount(data.users.codes[kept], minlength=data.shape[0])
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Rows(starts, data.items.codes[kept], np.empty(0, dtype=np.uint8))


def _generator(setting: Setting, fold: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng([setting.seed, fold, *purpose.encode()])
