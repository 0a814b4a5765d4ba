"""What a model is made of, and whether its parts fit together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ModelError
from tacit.learning.kernels import MOST_COMPONENTS
from tacit.learning.matrix import Rows
from tacit.learning.reports import tally
from tacit.privacy.item_model import LARGEST, check_floats, check_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.channel_part import ChannelPart
    from tacit.learning.mixture import NoiseMixture

    Floats = NDArray[np.float32]
    Indices = NDArray[np.int32]

_SUM_OFF = 1e-6
_DAMAGED = "the model is damaged; fit again"


@dataclass(frozen=True, eq=False, slots=True)
class Offsets:
    """A mean, and how far each user and item lies from it."""

    mean: float
    users: Floats
    items: Floats

    def of(self, users: Indices, items: Indices) -> Floats:
        """Return mean plus offsets of pairs; index -1 is somebody or something unknown, at the mean."""
        user, item = np.where(users < 0, 0, self.users[users]), np.where(items < 0, 0, self.items[items])
        return np.asarray(user + item + np.float32(self.mean), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a model was made from and with: ids of policies, checksum of the reports, seed, versions of programs."""

    policies: tuple[str, ...]
    data_checksum: str
    seed: int | None
    versions: dict[str, str]


@dataclass(frozen=True, eq=False, slots=True)
class Profile:
    """One person as a model sees them: factors, offset, and the indices of the items reported on, rising.

    `unknown` counts reports on items that the model does not know.
    """

    factors: Floats
    offset: float
    rated: Indices
    unknown: int = 0

    @property
    def known(self) -> bool:
        """Whether the model learned anything of this person."""
        return len(self.rated) > 0


def structure(starts: NDArray[np.int64], columns: Indices) -> Rows:
    """Return rows without values."""
    return Rows(starts, columns, np.empty(0, dtype=np.uint8))


def check_offsets(what: str, offsets: Offsets, shape: tuple[int, int]) -> None:
    """Refuse offsets of other sizes than the model, or not finite."""
    check_number(f"the mean of {what}", offsets.mean)
    check_floats(f"user {what}", offsets.users, shape[:1])
    check_floats(f"item {what}", offsets.items, shape[1:])


def check_rated(rated: Rows, users: int, items: int) -> None:
    """Refuse rows that do not say, for each user, which items it reported on, in rising order."""
    starts, columns = rated.starts, rated.columns
    if starts.dtype != np.int64 or columns.dtype != np.int32 or starts.shape != (users + 1,) or columns.ndim != 1:
        raise ModelError(f"the lists of rated items are not one for each of {users} users; {_DAMAGED}")
    if starts[0] != 0 or starts[-1] != len(columns) or (starts[1:] < starts[:-1]).any():
        raise ModelError(f"the starts of rated items do not rise from 0 to {len(columns)}; {_DAMAGED}")
    if not len(columns) or columns.min() < 0 or columns.max() >= items:
        raise ModelError(f"there are no rated items, or some are not from 0 to {items - 1}; {_DAMAGED}")
    falls = columns[1:] <= columns[:-1]
    falls[starts[(starts > 0) & (starts < len(columns))] - 1] = False  # from one user to the next it may fall
    if falls.any():
        raise ModelError(f"the rated items of a user do not rise; {_DAMAGED}")
    if not tally(columns, items)[: columns.max()].all():
        raise ModelError(f"items without reports are not behind all others; {_DAMAGED}")


def check_noise(noise: NoiseMixture) -> None:
    """Refuse a mixture that is none."""
    weights, variances = noise.weights, noise.variances
    if weights.shape != variances.shape or weights.ndim != 1 or not 1 <= len(weights) <= MOST_COMPONENTS:
        raise ModelError(f"the noise is not a mixture of 1 to {MOST_COMPONENTS} components; {_DAMAGED}")
    proper = (weights >= 0).all() and abs(weights.sum() - 1) <= _SUM_OFF
    if not (proper and (variances > 0).all() and (variances <= LARGEST**2).all()):
        raise ModelError(f"the noise's weights do not sum to 1, or a variance is not positive; {_DAMAGED}")


def check_ridge(what: str, ridge: float) -> None:
    """Refuse a ridge that is negative or not finite."""
    if not 0 <= ridge <= LARGEST:
        raise ModelError(f"the ridge of {what} is {ridge}, not from 0 to {LARGEST:g}; {_DAMAGED}")


def check_channel(part: ChannelPart, items: int, rank: int) -> None:
    """Refuse beliefs and a pattern of other sizes than the model."""
    learned = part.beliefs.item_factor_variances.shape
    if learned != (items, rank - 2 * part.places) or (part.pattern and len(part.pattern.traits) != items):
        raise ModelError(f"beliefs of shape {learned} do not fit {items} items and rank {rank}; {_DAMAGED}")
