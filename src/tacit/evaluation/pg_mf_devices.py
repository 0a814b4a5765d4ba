"""The devices of PG-MF, all at once: they hold true ratings, and say one random sign per round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from tacit.errors import InvalidInputError, RatingError
from tacit.evaluation.pg_mf_wire import Answers, Broadcast, RandomSign, decode_broadcast

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.privacy.scale import RatingScale

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int32]

_OFF_SCALE = 1e-4  # of the half-width: what single precision can do to a rating at an end of the scale


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRatings:
    """The true ratings of all devices, side by side for the simulation; nothing of the provider takes one."""

    scale: RatingScale
    users: Codes  # the index, from 0, of the person of each rating
    items: Codes
    ratings: NDArray[np.float32]
    shape: tuple[int, int]  # people, items: some may have no rating

    def __post_init__(self) -> None:
        """Refuse ratings that do not belong together, or are off the scale."""
        if not len(self.users) == len(self.items) == len(self.ratings) > 0:
            lengths = f"{len(self.users)} users, {len(self.items)} items and {len(self.ratings)} ratings"
            raise InvalidInputError(f"{lengths} do not match; give one of each for at least 1 rating")
        check_codes("user", self.users, self.shape[0])
        check_codes("item", self.items, self.shape[1])
        good = np.abs(self.centred()) <= 1 + _OFF_SCALE
        if not good.all():
            rating = self.ratings[int(np.argmin(good))]
            msg = f"rating {rating:g} is outside {self.scale.low} to {self.scale.high}; correct it or widen the scale"
            raise RatingError(msg)

    def centred(self) -> Floats:
        """Return the ratings less the scale's middle, over half its width: from -1 to 1."""
        middle, half_width = middle_and_half_width(self.scale)
        return (self.ratings.astype(np.float64) - middle) / half_width


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """What a broadcast is to the devices: its factors, their refreshed vectors and what these leave unexplained."""

    size: int
    broadcast: Broadcast
    vectors: Floats
    residuals: Floats

    @property
    def training_rmse(self) -> float:
        """The error on the devices' own centred ratings."""
        return float(np.sqrt(np.mean(self.residuals**2)))


@dataclass(frozen=True, slots=True, eq=False)
class Devices:
    """All devices at once; each user's part depends on that user's ratings and on what the provider said."""

    users: Codes
    items: Codes
    centred: Floats
    rated: csr_array  # people x items, 1 where rated
    values: csr_array  # the centred ratings in the same places
    regularisation: float

    @classmethod
    def holding(cls, ratings: DeviceRatings, regularisation: float) -> Devices:
        """Give every device its ratings."""
        users, items, centred = ratings.users, ratings.items, ratings.centred()
        rated = csr_array((np.ones_like(centred), (users, items)), shape=ratings.shape)
        values = csr_array((centred, (users, items)), shape=ratings.shape)
        return cls(users, items, centred, rated, values, regularisation)

    def hear(self, message: bytes) -> Heard:
        """Read a broadcast and refresh every vector: ridge regression of a person's true ratings on the factors."""
        broadcast = decode_broadcast(message)
        factors = broadcast.item_factors.astype(np.float64)
        rank = factors.shape[1]
        products = (factors[:, :, np.newaxis] * factors[:, np.newaxis, :]).reshape(-1, rank * rank)
        grams = (self.rated @ products).reshape(-1, rank, rank) + self.regularisation * np.eye(rank)
        vectors = np.linalg.solve(grams, (self.values @ factors)[:, :, np.newaxis])[:, :, 0]
        fitted = np.einsum("ij,ij->i", vectors[self.users], factors[self.items])
        return Heard(len(message), broadcast, vectors, self.centred - fitted)

    def answer(self, heard: Heard, sign: RandomSign, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Let every device draw a cell, compute its projected gradient there, and write a random sign of it.

        The gradient is G[j] = -2 (r_j - u.v_j) u for the items rated, so its projection at
        row s and factor k is -2 u_k sum_j Phi[s, j] (r_j - u.v_j): one sum per device.
        """
        answer_format, people = heard.broadcast.answer_format(), len(heard.vectors)
        rows = rng.integers(answer_format.projected_rows, size=people)
        factors = rng.integers(answer_format.rank, size=people)
        weights = heard.broadcast.projection()[rows[self.users], self.items]
        sums = np.bincount(self.users, weights * heard.residuals, minlength=people)
        gradients = -2.0 * heard.vectors[np.arange(people), factors] * sums
        return answer_format.encode(Answers(rows, factors, sign.draw(gradients, rng)))


def middle_and_half_width(scale: RatingScale) -> tuple[float, float]:
    """Return the public numbers by which devices centre ratings."""
    return float(scale.low + scale.high) / 2, float(scale.width) / 2


def check_codes(what: str, codes: Codes, count: int) -> None:
    """Refuse users or items that are not numbered from 0 to below a count."""
    if codes.dtype.kind not in "iu":
        raise InvalidInputError(f"{what} codes are {codes.dtype}, not whole numbers; number them from 0")
    if len(codes) and not (codes.min() >= 0 and codes.max() < count):
        worst = codes.min() if codes.min() < 0 else codes.max()
        raise InvalidInputError(f"{what} {worst} is not one of {count}, numbered from 0; leave it out")
