"""The demonstration: one synthetic world through every mechanism, what each gives away, and what is learned."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.device import Device, rank_items
from tacit.evaluation.devices import OwnRatings, device_answers
from tacit.evaluation.world import World, make_world
from tacit.learning import ChannelMfOptions, MogMfOptions, ReportMatrix, fit
from tacit.learning.prior import fit_prior
from tacit.privacy.accounting import Totals, total_loss
from tacit.privacy.audit import audit_policy
from tacit.privacy.calibration import posterior
from tacit.privacy.compact import encode_compact
from tacit.privacy.mechanisms import MECHANISMS
from tacit.privacy.policy import Policy
from tacit.privacy.prior import Prior
from tacit.privacy.report import MOST_REPORTS, Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tacit.learning import Model
    from tacit.privacy.item_model import ItemModel
    from tacit.privacy.scale import RatingScale

_AUDIT_SAMPLES = 10**6
_HELD_OUT = 0.1
_RECOMMENDED = 3


@dataclass(frozen=True, eq=False)
class DemoRow:
    """One mechanism's way with the world: what it proves, costs and reveals."""

    mechanism: str
    exact_loss: float
    audited: float
    bits: int
    bytes_per_person: float
    guess_right: float
    noise_deviation: float
    estimated_mean: float
    held_out_error: float
    provider_error: float
    device_error: float
    recommended: tuple[int, ...]
    busiest: Totals
    values: NDArray[np.float64]
    symbol_counts: NDArray[np.int64]


@dataclass(frozen=True)
class OneRating:
    """A single rating followed through a real device.

    `ratio` says how much likelier the report is under the rating that favours it
    most than under the one that favours it least.
    """

    title: str
    rating: float
    report: Report
    stands_for: float
    ratio: float


@dataclass(frozen=True, eq=False)
class Demo:
    """Everything the demonstration shows."""

    world: World
    epsilon: str
    guess_right_without: float
    silent_device_error: float
    """The error of devices where reports are not read: own ratings, and who rated what, are left."""
    rows: tuple[DemoRow, ...]
    example: OneRating

    @property
    def constant_error(self) -> float:
        """The error of the best constant, which is the true mean."""
        return float(self.world.ratings.std())

    @property
    def true_mean(self) -> float:
        """The mean of the true ratings, which no provider sees."""
        return float(self.world.ratings.mean())


def run_demo(scale: RatingScale, epsilon: str, *, seed: int, progress: Callable[[str], None]) -> Demo:
    """Perturb the embedded world with every mechanism and look at it as an honest but curious provider."""
    progress("inventing a world of people and films")
    world = make_world(scale, seed=seed)
    histogram = Prior.of(scale, world.histogram())
    split, rows = _Split.of(world), []
    for mechanism in MECHANISMS:
        progress(f"perturbing, auditing and learning: {mechanism}")
        rows.append(_run_mechanism(mechanism, epsilon, split, histogram))
    policy = Policy.make("bounded-laplace", scale, epsilon)
    silent = _silent_device_error(split, policy)
    example = _follow_one_rating(world, policy)
    return Demo(world, epsilon, float(histogram.probabilities.max()), silent, tuple(rows), example)


def _run_mechanism(mechanism: str, epsilon: str, split: _Split, histogram: Prior) -> DemoRow:
    world = split.world
    # The provider builds its policy on the generic prior: it has not seen a rating.
    policy = Policy.make(mechanism, world.scale, epsilon)
    channel = policy.channel
    ranks = world.scale.ranks_of(world.ratings)
    # One stream per mechanism, so that adding one changes nothing for the others.
    rng = np.random.default_rng([world.seed, *mechanism.encode()])
    symbols = channel.draw(ranks, rng.integers(0, 2**64, len(ranks), dtype=np.uint64))
    symbol_counts = np.bincount(symbols, minlength=channel.weights.symbols)
    # A curious provider guesses best if it already knows the true histogram; grant it that.
    best_guess = posterior(channel.likelihood, histogram).argmax(axis=1)
    busiest = int(np.bincount(world.users).max())
    learned = _learn(split, symbols, policy)
    return DemoRow(
        mechanism=mechanism,
        exact_loss=channel.exact_loss,
        audited=audit_policy(policy.claim, samples=_AUDIT_SAMPLES).lower_bound,
        bits=channel.bits,
        bytes_per_person=_bytes_sent(world, policy, symbols) / world.shape.people,
        guess_right=float((best_guess[symbols] == ranks).mean()),
        noise_deviation=channel.calibrate(histogram).noise_deviation,
        estimated_mean=fit_prior([(channel, symbol_counts)]).mean,
        held_out_error=learned.paper,
        provider_error=learned.provider,
        device_error=learned.device,
        recommended=learned.recommended,
        busiest=total_loss({policy: busiest}),
        values=channel.symbol_values,
        symbol_counts=symbol_counts,
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Split:
    """The world, a tenth of it held out."""

    world: World
    held: NDArray[np.bool_]

    @classmethod
    def of(cls, world: World) -> _Split:
        return cls(world, np.random.default_rng(world.seed).random(len(world.users)) < _HELD_OUT)

    def matrix(self, symbols: NDArray[np.uint16], policy: Policy) -> ReportMatrix:
        """Gather the reports to learn from."""
        kept = ~self.held
        return ReportMatrix.of_symbols(self.world.users[kept], self.world.items[kept], symbols[kept], policy)

    @property
    def own(self) -> OwnRatings:
        """What the devices have."""
        world, kept = self.world, ~self.held
        ratings = world.ratings[kept].astype(np.float64)
        return OwnRatings(world.users[kept], world.items[kept], ratings, (world.shape.people, world.shape.items))

    def error(self, predicted: NDArray[Any]) -> float:
        """Compare with the true ratings held out."""
        cut = np.clip(predicted, float(self.world.scale.low), float(self.world.scale.high))
        return float(np.sqrt(np.mean((cut - self.world.ratings[self.held]) ** 2)))

    def provider_error(self, model: Model) -> float:
        return self.error(model.predict(self.world.users[self.held], self.world.items[self.held]).ratings)

    def device_error(self, published: ItemModel) -> float:
        held_out = self.world.users[self.held], self.world.items[self.held]
        return self.error(device_answers(published, self.own, *held_out).predicted)


@dataclass(frozen=True, slots=True)
class _Learned:
    """Errors on true ratings held out: of the paper's model, of ours at the provider, and of ours on the device."""

    paper: float
    provider: float
    device: float
    recommended: tuple[int, ...]
    """By the first person's own device."""


def _learn(split: _Split, symbols: NDArray[np.uint16], policy: Policy) -> _Learned:
    """Learn from nine tenths of the reports, and measure on the true ratings of the last tenth."""
    rng, matrix = np.random.default_rng(split.world.seed), split.matrix(symbols, policy)
    paper, ours = fit(matrix, MogMfOptions(rank=1), rng), fit(matrix, ChannelMfOptions(), rng)
    published, own = ours.item_model().as_published(), split.own
    first = own.users == own.users[0]
    ranking = rank_items(published, dict(zip(own.items[first].tolist(), own.ratings[first].tolist(), strict=True)))
    return _Learned(
        paper=split.provider_error(paper),
        provider=split.provider_error(ours),
        device=split.device_error(published),
        recommended=tuple(int(one.item) for one in ranking.recommend(_RECOMMENDED)),
    )


def _silent_device_error(split: _Split, policy: Policy) -> float:
    """Measure devices where every report is the same and none is heard: who rated what is left."""
    same = np.zeros(len(split.world.users), dtype=np.uint16)
    model = fit(split.matrix(same, policy), ChannelMfOptions(reports=False), np.random.default_rng(split.world.seed))
    return split.device_error(model.item_model().as_published())


def _bytes_sent(world: World, policy: Policy, symbols: NDArray[np.uint16]) -> int:
    """Count the bytes of every person's reports in the compact form."""
    total = 0
    for rows in np.split(np.arange(len(symbols)), np.flatnonzero(np.diff(world.users)) + 1):
        reports = [Report(policy.id, str(world.items[row]), int(symbols[row])) for row in rows]
        batches = (reports[start : start + MOST_REPORTS] for start in range(0, len(reports), MOST_REPORTS))
        total += sum(len(encode_compact(batch, policy)) for batch in batches)
    return total


def _follow_one_rating(world: World, policy: Policy) -> OneRating:
    rating = float(world.ratings[0])
    title = world.titles()[world.items[0]]
    with tempfile.TemporaryDirectory() as folder, Device(Path(folder) / "ledger", lifetime_epsilon=50) as device:
        device.consent(policy)
        report = device.rate(int(world.items[0]), rating)
    likelihood = policy.channel.likelihood[:, report.symbol]
    ratio = float(likelihood.max() / likelihood.min())
    return OneRating(title, rating, report, float(policy.channel.symbol_values[report.symbol]), ratio)
