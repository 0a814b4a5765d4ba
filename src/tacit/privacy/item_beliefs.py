"""What a provider publishes beside items: its beliefs about people, and what the pattern of reports says of items."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ModelError
from tacit.privacy.array_checks import SMALLEST_VARIANCE, check_floats, check_variance, check_variances, rank_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Indices = NDArray[np.int32] | NDArray[np.int64]

POPULARITY_COLUMNS = 2
"""How many columns of traits come before the embedding."""

SHARE_POWER = -0.4
"""An item's share is its number of reports to this power."""

# Where the embedding speaks against an item, so much of what its popularity alone says is left.
_LEAST_OF_POPULARITY = 0.01

# An embedded row shorter than this has no direction.
_SHORTEST = 1e-30

# A device solves for every coordinate of a person at once; without a limit a published model could fill its memory.
MOST_COLUMNS = 512


@dataclass(frozen=True, eq=False)
class Beliefs:
    """What the provider believes of people, and how sure it is of its items. The arrays are made read-only."""

    residual_variance: float
    """Of a rating around its score."""
    offset_variance: float
    """Prior variance of a person's own offset."""
    factor_variances: Floats
    """(rank,) prior variances of a person's own coordinates on the factors."""
    item_offset_variances: Floats
    """(items,) how uncertain every published offset is."""
    item_factor_variances: Floats
    """(items, rank) the same for factors."""

    def __post_init__(self) -> None:
        """Refuse what is no variance, and parts that do not fit together."""
        shape = self.shape
        check_variance("the residual variance", self.residual_variance)
        check_variance("the variance of offsets", self.offset_variance)
        check_variances("variances of factors", self.factor_variances, shape[1:], least=SMALLEST_VARIANCE)
        check_variances("variances of item offsets", self.item_offset_variances, shape[:1], least=0)
        check_variances("variances of item factors", self.item_factor_variances, shape, least=0)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many items and how many factors they are about."""
        return self.item_factor_variances.shape


@dataclass(frozen=True, eq=False)
class ItemPattern:
    """What it says of items who reported on them; which items were rated is not protected.

    An item's traits are two columns of popularity and an embedding. A person's weights on them are solved on the
    device; a person's place in the embedding follows from which items they rated. The arrays are made read-only.
    """

    traits: Floats
    """(items, T)."""
    trait_variances: Floats
    """(T,) prior variances of a person's weights, what the provider is unsure of included."""
    responses: Floats
    """(items, D), with D up to T - 2: how an item's score responds to the person's place."""
    shares: Floats
    """(items,) what every rated item adds to that place: its number of reports to the power -0.4."""
    place_scale: Floats
    """(D,)."""

    def __post_init__(self) -> None:
        """Refuse parts that do not fit together or are not finite."""
        traits, places = rank_of(self.traits), rank_of(self.responses)
        if not POPULARITY_COLUMNS + places <= traits <= MOST_COLUMNS:
            raise ModelError(
                f"{traits} traits and {places} responses do not fit together; there are two more traits than "
                f"responses at least, and {MOST_COLUMNS} at most"
            )
        items = len(self.traits)
        check_floats("item traits", self.traits, (items, traits))
        check_variances("variances of traits", self.trait_variances, (traits,), least=SMALLEST_VARIANCE)
        check_floats("item responses", self.responses, (items, places))
        check_variances("item shares", self.shares, (items,), least=SMALLEST_VARIANCE)
        check_floats("scales of places", self.place_scale, (places,))

    def place_of(self, rated: Indices) -> NDArray[np.float64]:
        """Return the place of a person who rated the items with these indices: nowhere in particular if none."""
        if not len(rated):
            return np.zeros(len(self.place_scale))
        embedded = self.traits[rated, POPULARITY_COLUMNS : POPULARITY_COLUMNS + len(self.place_scale)]
        place = self.shares[rated].astype(np.float64) @ embedded
        return np.asarray(self.place_scale * len(rated) ** -0.25 * place)

    @cached_property
    def directions(self) -> Floats:
        """Every item's row of the embedding, at length 1; one that is next to nothing stays so."""
        directions = np.array(self._embedded)
        if directions.shape[1]:
            squares = np.einsum("if,if->i", directions, directions, dtype=np.float64)
            directions /= np.maximum(np.sqrt(squares), _SHORTEST)[:, None]
        directions.setflags(write=False)
        return directions

    @cached_property
    def embedded_variance(self) -> float:
        """How much a person's weights on the embedding are believed to move the score of the average report's item."""
        squares = np.einsum("i,if,if->f", self._popularities, self._embedded, self._embedded)
        return float(squares @ self.trait_variances[POPULARITY_COLUMNS:])

    def chances_of(self, rated: Indices) -> NDArray[np.float64]:
        """Estimate for every item how likely a person who rated the items with these indices is to rate it.

        The person's row of the rated-or-not matrix is projected onto popularity and onto the embedding, whose columns
        are orthogonal but for rounding and for items left out. Of a person who rated nothing, the first rating is
        guessed by popularity alone.
        """
        by_popularity = max(len(rated), 1) * self._popularities
        if not self._embedded.shape[1]:
            return np.minimum(by_popularity, 1)
        person = self.shares[rated].astype(np.float64) @ self._embedded[rated]
        weights = np.divide(person, self._sizes, out=np.zeros(len(person)), where=self._sizes > 0)
        chances = by_popularity + np.einsum("if,f->i", self._embedded, weights) / self.shares
        return np.asarray(np.clip(chances, _LEAST_OF_POPULARITY * by_popularity, 1))

    @property
    def _embedded(self) -> Floats:
        return self.traits[:, POPULARITY_COLUMNS:]

    @cached_property
    def _sizes(self) -> NDArray[np.float64]:
        """Every embedded column's sum of squares."""
        return np.asarray(np.einsum("if,if->f", self._embedded, self._embedded, dtype=np.float64))

    @cached_property
    def _popularities(self) -> NDArray[np.float64]:
        """Every item's part of all reports."""
        reports = self.shares.astype(np.float64) ** (1 / SHARE_POWER)
        return np.asarray(reports / reports.sum())
