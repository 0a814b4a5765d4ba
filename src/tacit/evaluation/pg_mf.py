"""PG-MF, the gradient-perturbing baseline (Shin et al., TKDE 2018), between simulated devices and a provider.

The provider holds the item factors; each device keeps its ratings and its own
vector. In each of T rounds the provider broadcasts the factors, each device
refreshes its vector on its own true ratings and answers with one random sign
about one cell of its projected gradient, and the provider steps its factors
against the average.

Its epsilon covers a person's whole profile, the items included, over all
rounds; that of every other mechanism here covers the value of one rating. A
shared epsilon axis must say so.

Three choices are ours, where the publication leaves them open:

- Devices work with ratings centred on the scale's middle and divided by half its
  width: both are public, and gradients stay of the order of the clipping bound 1.
- Factors start at small random values, the first one around 1, so that a device
  can express its own mean from the first round on; that costs no privacy.
- The stabilising factor is the shrinkage 1 / (1 + noise variance) of a cell's
  average: its signal is at most 1 by clipping, and its noise is known to all.

This is a simulation: signs come from a seeded generator and from
floating-point chances, which no real device should use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tacit.errors import EpsilonError, InvalidInputError
from tacit.evaluation.pg_mf_devices import DeviceRatings, Devices, check_codes, middle_and_half_width
from tacit.evaluation.pg_mf_wire import (
    LARGEST_FACTOR,
    MOST_PROJECTED_ROWS,
    MOST_RANK,
    AnswerFormat,
    Broadcast,
    RandomSign,
    Traffic,
    encode_broadcast,
)
from tacit.learning import Options
from tacit.privacy.exact import SMALLEST_EPSILON

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.privacy.scale import RatingScale

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int32]

MOST_ROUNDS = 10_000

# A weaker ridge can drown in rounding when factors are large.
_LEAST_REGULARISATION = 1e-3
_LARGEST = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class PgMfOptions(Options):
    """How PG-MF runs; the defaults were set by hand, once for all data."""

    model: ClassVar[str] = "pg-mf"

    rank: int = 3
    """Factors of every item and user."""
    rounds: int = 10
    """Rounds T; each spends an equal share of epsilon."""
    projected_rows: int = 50
    """Rows q of the public random projection; at most half the number of items is used."""
    step_size: float = 1.0
    """Step against the average gradient in the first round, before the stabilising factor."""
    step_decay: float = 0.5
    """Power of the round's number (from 1) that divides the step."""
    stabilisation: float = 1.0
    """Weight of the noise variance in the stabilising factor 1 / (1 + weight x variance); 0 turns it off."""
    regularisation: float = 2.0
    """Ridge on a device's own vector: about the noise variance of a centred rating over that of a person's mean."""
    start_spread: float = 0.1
    """Standard deviation of the random starting factors."""
    start_level: float = 1.0
    """What the first factor of every item starts at, on average; 0 makes it a random one like the others."""

    def __post_init__(self) -> None:
        """Refuse an option out of its range."""
        limits: dict[str, tuple[float, float]] = {
            "rank": (1, MOST_RANK),
            "rounds": (1, MOST_ROUNDS),
            "projected_rows": (1, MOST_PROJECTED_ROWS),
            "step_size": (0, _LARGEST),
            "step_decay": (0, 10),
            "stabilisation": (0, _LARGEST),
            "regularisation": (_LEAST_REGULARISATION, _LARGEST),
            "start_spread": (0, 100),
            "start_level": (-100, 100),
        }
        for name, (least, most) in limits.items():
            value, whole = getattr(self, name), name in {"rank", "rounds", "projected_rows"}
            if not least <= value <= most or (whole and not isinstance(value, int)):
                kind = "whole number" if whole else "number"
                raise InvalidInputError(f"{name} {value} is out of range; choose a {kind} from {least:g} to {most:g}")


DEFAULT_OPTIONS = PgMfOptions()


@dataclass(frozen=True, slots=True, eq=False)
class PgMfRun:
    """A finished run: what the devices hold, how it went and what it sent."""

    scale: RatingScale
    item_factors: NDArray[np.float32]  # as last broadcast
    user_vectors: Floats  # each known to its device only
    training_rmse: tuple[float, ...]  # on the devices' own ratings, after each broadcast; the last one counts
    traffic: Traffic

    def predict(self, users: Codes, items: Codes) -> Floats:
        """Predict ratings as the devices do, on the scale; a person without ratings gets the scale's middle."""
        check_codes("user", users, len(self.user_vectors))
        check_codes("item", items, len(self.item_factors))
        middle, half_width = middle_and_half_width(self.scale)
        centred = np.einsum("ij,ij->i", self.user_vectors[users], self.item_factors[items])
        return np.asarray(np.clip(middle + half_width * centred, float(self.scale.low), float(self.scale.high)))


def run_pg_mf(
    ratings: DeviceRatings, epsilon: float, *, options: PgMfOptions = DEFAULT_OPTIONS, rng: np.random.Generator
) -> PgMfRun:
    """Run the protocol; epsilon covers each person's whole profile over all rounds."""
    if not float(SMALLEST_EPSILON) <= epsilon < math.inf:
        raise EpsilonError(f"epsilon {epsilon} is not a finite number of at least {SMALLEST_EPSILON}; choose one")
    sign = RandomSign(epsilon / options.rounds)
    devices = Devices.holding(ratings, options.regularisation)
    provider = _Provider.starting(ratings.shape, sign, options, rng)
    heard = devices.hear(provider.message())
    trace, to_device, from_device = [heard.training_rmse], [heard.size], []
    for number in range(1, options.rounds + 1):
        answers = devices.answer(heard, sign, rng)
        provider = provider.step(answers, options.step_size / number**options.step_decay)
        heard = devices.hear(provider.message())
        trace.append(heard.training_rmse)
        to_device.append(heard.size)
        from_device.append(answers.shape[1])
    half_width = middle_and_half_width(ratings.scale)[1]
    traffic = Traffic(ratings.shape[0], tuple(to_device), tuple(from_device))
    rmse = tuple(half_width * error for error in trace)
    return PgMfRun(ratings.scale, heard.broadcast.item_factors, heard.vectors, rmse, traffic)


@dataclass(frozen=True, slots=True, eq=False)
class _Provider:
    """The provider between two rounds: it knows how many people there are, and what they answered."""

    factors: Floats
    rows: int
    seed: int
    back_projection: Floats  # the pseudo-inverse of the projection, items x rows
    weight: float  # of one sign in the average, stabilised

    @classmethod
    def starting(
        cls, shape: tuple[int, int], sign: RandomSign, options: PgMfOptions, rng: np.random.Generator
    ) -> _Provider:
        """Draw the starting factors and the public projection."""
        people, items = shape
        # A projection close to square has singular values close to 0, and its inverse blows up the noise.
        rows = min(options.projected_rows, max(1, items // 2))
        factors = options.start_spread * rng.standard_normal((items, options.rank))
        factors[:, 0] += options.start_level
        seed = int(rng.integers(2**63))
        projection = Broadcast(factors.astype(np.float32), rows, seed).projection()
        cells = rows * options.rank
        stabiliser = 1.0 / (1.0 + options.stabilisation * sign.noise_variance(cells, people))
        weight = stabiliser * sign.magnitude(cells) / people
        return cls(factors, rows, seed, np.linalg.pinv(projection.astype(np.float64)), weight)

    def message(self) -> bytes:
        """Write the current broadcast."""
        return encode_broadcast(Broadcast(self.factors.astype(np.float32), self.rows, self.seed))

    def step(self, messages: NDArray[np.uint8], step_size: float) -> _Provider:
        """Average the devices' signs by cell, map the average back to the items, and step against it."""
        rank = self.factors.shape[1]
        answers = AnswerFormat(self.rows, rank).decode(messages)
        signs = np.where(answers.plus, self.weight, -self.weight)
        average = np.bincount(answers.rows * rank + answers.factors, signs, minlength=self.rows * rank)
        gradient = self.back_projection @ average.reshape(self.rows, rank)
        # Without the stabilising factor noise alone can drive factors beyond what devices accept.
        factors = np.clip(self.factors - step_size * gradient, -LARGEST_FACTOR, LARGEST_FACTOR)
        return replace(self, factors=factors)
