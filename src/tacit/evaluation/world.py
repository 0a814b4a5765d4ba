"""The embedded world: invented people who rate invented films, with the features of real rating data."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tacit.privacy.scale import RatingScale

    Longs = NDArray[np.int64]
    Ints = NDArray[np.int32]
    Floats = NDArray[np.float32]

MOST_FILLED = 0.4  # denser worlds leave no room for a long tail, and drawing without repeats gets slow

# The shape of MovieLens-100K, scaled to any size.
_LEAST_ACTIVITY = 20
_LEAST_SHARE_OF_MEAN = 0.2
_MOST_SHARE_OF_ITEMS = 0.42
_ACTIVITY_SPREAD = 1.15
_POPULARITY_DECAY = 4.4
_POPULARITY_SPREAD = 0.45

# What makes a score: standard deviations in units of the noise. Drawing by expected liking
# narrows some of them; these give about 15, 20 and 15 per cent of the variance of ratings on 1:5:1.
_USER_SPREAD = 0.62
_ITEM_SPREAD = 0.83
_DIMENSIONS = 6
_FACTOR_SPREAD = np.float32(0.67 / _DIMENSIONS**0.5)
_POPULAR_IS_BETTER = 0.5  # correlation of an item's offset and the log of its popularity

# The chance that a person who comes across an item rates it, linear in the expected liking.
_CHANCE_BASE = np.float32(0.33)
_CHANCE_SLOPE = np.float32(0.23)
_CHANCE_LEAST = np.float32(0.03)

# Density of MovieLens ratings along the scale, at six evenly spaced points: linear between
# them, it puts 6.1, 11.4, 27.1, 34.2 and 21.2 per cent on the five ratings of 1:5:1.
_RATING_DENSITY = (0.25, 0.361, 0.776, 1.938, 1.479, 0.641)
_DENSITY_GRID = 10_001

_BLOCK_RATINGS = 1 << 19
_THRESHOLD_SAMPLE = 1 << 20
_FIRST_DRAWS = 4


@dataclass(frozen=True, slots=True)
class WorldShape:
    """How many people, items and ratings a world has."""

    people: int = 1_000
    items: int = 1_700
    ratings: int = 100_000

    def __post_init__(self) -> None:
        """Refuse a world that is empty, too sparse or too dense."""
        if min(self.people, self.items) < 1:
            msg = f"{self.people} people x {self.items} items is an empty world; choose at least 1 of each"
            raise InvalidInputError(msg)
        if self.ratings < self.people:
            msg = f"{self.ratings} ratings are less than one for each of {self.people} people; ask for more ratings"
            raise InvalidInputError(msg)
        most = int(MOST_FILLED * self.people * self.items)
        if self.ratings > most:
            cells = f"{MOST_FILLED:.0%} of {self.people} x {self.items} cells"
            msg = f"{self.ratings} ratings are more than {cells}; ask for at most {most}, or for more people or items"
            raise InvalidInputError(msg)


EMBEDDED = WorldShape()
LIBIMSETI_SHAPE = WorldShape(135_359, 168_791, 17_359_346)


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Ratings of a synthetic world, by person and item; everybody rates, but a rare item may have no rating."""

    scale: RatingScale
    users: NDArray[np.int32]  # the index, from 0, of the person of each rating
    items: NDArray[np.int32]
    ratings: NDArray[np.float32]
    shape: WorldShape
    seed: int

    def histogram(self) -> NDArray[np.int64]:
        """Count the ratings of every rank of the scale."""
        return np.bincount(self.scale.ranks_of(self.ratings), minlength=self.scale.size).astype(np.int64)

    def titles(self) -> list[str]:
        """Invent a different film title for every item; the same ones for every seed."""
        names = _all_titles()
        # A stride that shares no factor with the number of names visits all of them, and keeps like ones apart.
        order = [names[index * _TITLE_STRIDE % len(names)] for index in range(min(self.shape.items, len(names)))]
        rounds = range(1, self.shape.items // len(names) + 2)
        return [name if part == 1 else f"{name} {part}" for part in rounds for name in order][: self.shape.items]


def make_world(scale: RatingScale, *, shape: WorldShape = EMBEDDED, seed: int = 0) -> World:
    """Make the world of a seed: the same arguments give the same ratings, bit for bit."""
    if seed < 0:
        msg = f"seed {seed} is negative; choose 0 or more"
        raise InvalidInputError(msg)
    rng = np.random.default_rng(seed)
    tastes = _draw_tastes(shape, rng)
    counts = _draw_activity(shape, rng)
    users = np.repeat(np.arange(shape.people, dtype=np.int32), counts)
    items = np.empty(shape.ratings, dtype=np.int32)
    scores = np.empty(shape.ratings, dtype=np.float32)
    ends = np.cumsum(counts)
    for first, last in _blocks(ends):
        rows = slice(int(ends[first] - counts[first]), int(ends[last - 1]))
        items[rows] = _choose_items(tastes, first, counts[first:last], rng)
        scores[rows] = tastes.liking(users[rows], items[rows])
    scores += tastes.user_offsets[users] + rng.standard_normal(shape.ratings, dtype=np.float32)
    return World(scale, users, items, _to_ratings(scores, scale, rng), shape, seed)


@dataclass(frozen=True, slots=True)
class _Tastes:
    """What lies behind the ratings: popularity, offsets and factors."""

    popularity_cdf: NDArray[np.float64]
    user_offsets: Floats
    item_offsets: Floats
    user_factors: Floats  # one row for every dimension
    item_factors: Floats

    def liking(self, users: Ints, items: Ints) -> Floats:
        """Return how much better than the person's average each item is expected to be."""
        total = self.item_offsets[items]
        # Not einsum: plain products and sums in a fixed order do not depend on the processor.
        for of_user, of_item in zip(self.user_factors, self.item_factors, strict=True):
            total += of_user[users] * of_item[items]
        return total

    def meet(self, users: Ints, rng: np.random.Generator) -> Longs:
        """Let each person come across an item by popularity; return the keys of those they rate."""
        items = np.searchsorted(self.popularity_cdf, rng.random(len(users)), side="right").astype(np.int32)
        chance = _CHANCE_BASE + _CHANCE_SLOPE * self.liking(users, items)
        rated = rng.random(len(users), dtype=np.float32) < np.maximum(chance, _CHANCE_LEAST)
        keys: Longs = users[rated].astype(np.int64) * len(self.popularity_cdf) + items[rated]
        return keys


def _draw_tastes(shape: WorldShape, rng: np.random.Generator) -> _Tastes:
    """Draw popularity, offsets and factors of a world."""
    place = rng.permutation(shape.items) / shape.items
    log_popularity = _POPULARITY_SPREAD * rng.standard_normal(shape.items) - _POPULARITY_DECAY * place
    cdf = np.cumsum(np.exp(log_popularity))
    fame = (log_popularity - log_popularity.mean()) / log_popularity.std()
    quality = _POPULAR_IS_BETTER * fame + (1 - _POPULAR_IS_BETTER**2) ** 0.5 * rng.standard_normal(shape.items)
    return _Tastes(
        popularity_cdf=cdf / cdf[-1],
        user_offsets=(_USER_SPREAD * rng.standard_normal(shape.people)).astype(np.float32),
        item_offsets=(_ITEM_SPREAD * quality).astype(np.float32),
        user_factors=rng.standard_normal((_DIMENSIONS, shape.people), dtype=np.float32),
        item_factors=rng.standard_normal((_DIMENSIONS, shape.items), dtype=np.float32) * _FACTOR_SPREAD,
    )


def _draw_activity(shape: WorldShape, rng: np.random.Generator) -> Longs:
    """Draw how many ratings each person makes: long-tailed, bounded, and exact in total."""
    mean = shape.ratings / shape.people
    least = max(1, min(_LEAST_ACTIVITY, int(_LEAST_SHARE_OF_MEAN * mean)))
    most = max(int(_MOST_SHARE_OF_ITEMS * shape.items), int(np.ceil(mean)))
    eagerness = np.exp(_ACTIVITY_SPREAD * rng.standard_normal(shape.people))
    low, high = 0.0, most / float(eagerness.min())
    for _ in range(100):  # bisection to the last bit
        middle = (low + high) / 2
        total = np.minimum(least + middle * eagerness, most).sum()
        low, high = (middle, high) if total < shape.ratings else (low, middle)
    # Rounding the running total, not each count, keeps the total exact.
    ends = np.floor(np.cumsum(np.minimum(least + high * eagerness, most)) + 0.5)
    return np.diff(ends, prepend=0).astype(np.int64)


def _blocks(ends: Longs) -> Iterator[tuple[int, int]]:
    """Cut the people into runs with about equally many ratings, to bound the memory in use."""
    cuts = np.searchsorted(ends, np.arange(0, ends[-1], _BLOCK_RATINGS), side="right")
    edges: list[int] = np.unique([*cuts.tolist(), len(ends)]).tolist()
    return pairwise(edges)


def _choose_items(tastes: _Tastes, first: int, counts: Longs, rng: np.random.Generator) -> Longs:
    """Draw the items that the people from `first` on rate, in rounds until each has their count."""
    size = len(tastes.popularity_cdf)
    people = np.arange(first, first + len(counts), dtype=np.int32)
    chosen = np.empty(0, dtype=np.int64)
    missing, draws = counts.copy(), _FIRST_DRAWS
    while missing.any():
        met = tastes.meet(np.repeat(people, draws * missing), rng)
        fresh = _first_new(met, chosen, missing, first * size, size)
        chosen = np.sort(np.concatenate((chosen, fresh)))
        missing = counts - np.bincount(chosen // size - first, minlength=len(counts))
        draws *= 2  # what is left to find gets rarer
    return chosen % size


def _first_new(met: Longs, chosen: Longs, missing: Longs, base: int, size: int) -> Longs:
    """Keep the first keys met by each person that are not chosen yet, as many as are missing."""
    # In the order met: keeping the smallest keys would favour items with a low index.
    fresh = met[np.sort(np.unique(met, return_index=True)[1])]
    fresh = fresh[np.isin(fresh, chosen, invert=True)]
    person = (fresh - base) // size
    starts = np.searchsorted(person, np.arange(len(missing)))
    return fresh[np.arange(len(fresh)) - starts[person] < missing[person]]


def _to_ratings(scores: Floats, scale: RatingScale, rng: np.random.Generator) -> Floats:
    """Put scores on the scale, in order, so that the ratings get the intended histogram."""
    sample = scores if len(scores) <= _THRESHOLD_SAMPLE else rng.choice(scores, _THRESHOLD_SAMPLE)
    thresholds = np.quantile(sample, _rating_cdf(scale.size)[:-1]).astype(np.float32)
    return scale.ratings.astype(np.float32)[np.searchsorted(thresholds, scores, side="right")]


def _rating_cdf(size: int) -> NDArray[np.float64]:
    """Return the share of ratings up to each rank of a scale with that many ranks."""
    grid = np.linspace(0, 1, _DENSITY_GRID)
    density = np.interp(grid, np.linspace(0, 1, len(_RATING_DENSITY)), _RATING_DENSITY)
    below = np.concatenate(([0.0], np.cumsum(density[1:] + density[:-1])))
    shares: NDArray[np.float64] = np.interp(np.arange(1, size + 1) / size, grid, below / below[-1])
    return shares


_NUMBERS = "Two Three Four Five Six Seven Eight Nine Ten Eleven Twelve Forty"
_ADJECTIVES = "Quiet Amber Borrowed Patient Crooked Copper Wandering Salted Tilted Drowsy Untuned Sunken Tin Polite"
_NOUNS = (  # all with a plural in s
    "Harbour Lantern Orchard Mapmaker Almanac Beekeeper Viaduct Clockmaker Meadow Postcard Violinist Ledger Caravan"
    " Glazier Sparrow Teacup Archive Umbrella Locksmith Weathervane Tailor Sextant Causeway Telegram Heron Cellist"
    " Windmill Notebook Gardener Tunnel Raft Barn"
)
_TITLE_STRIDE = 617


def _all_titles() -> list[str]:
    """Write every title the words above can make."""
    nouns = _NOUNS.split()
    plain = [f"The {adjective} {noun}" for adjective, noun in product(_ADJECTIVES.split(), nouns)]
    counted = [f"{number} {noun}s" for number, noun in product(_NUMBERS.split(), nouns)]
    return plain + counted + [f"{noun} of the {other}" for noun, other in product(nouns, nouns) if noun != other]
