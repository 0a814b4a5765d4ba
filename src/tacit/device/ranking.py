"""Personal ranking: published items in the order of one person's own true ratings; nothing leaves the device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tacit.device.personal import Person, effects_on, fit_person, scores_of
from tacit.device.ratings import by_item
from tacit.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.device.ratings import RatingsByItem
    from tacit.privacy.item_model import ItemModel


@dataclass(frozen=True)
class Suggestion:
    """An item of a list."""

    item: str | int
    score: float
    """What the list is ordered by, on the scale: the rating to expect if an item left unrated counts as the lowest,
    or the predicted rating where that was asked for or no pattern is known."""
    rank: int
    """Its place in the list, from 1 on."""
    rating: float
    """The rating predicted for it, on the scale, if the person gets to rate it."""


@dataclass(frozen=True)
class Reason:
    """One of the person's own ratings, and by how much it moves the predicted rating of another item."""

    item: str | int
    rating: float = field(repr=False)  # nothing that is printed or logged shows a rating,
    effect: float = field(repr=False)  # or what it can be found from


@dataclass(frozen=True, eq=False)
class PersonalRanking:
    """All items of an item model as one person would rate them; made by `rank_items`."""

    items: ItemModel
    person: Person = field(repr=False)
    ratings: NDArray[np.float64] = field(repr=False)
    """The person's ratings of the items they rated, in the order of `person.rated`."""
    unknown: int
    """How many of the person's ratings are of items that the model does not know."""
    scores: NDArray[np.float32] = field(repr=False)
    """Of all items; they may lie beyond the scale."""

    @property
    def fallback(self) -> bool:
        """Whether there was nothing to go by: the order is then that of everybody's ratings."""
        return not len(self.person.rated)

    def predictions(self) -> NDArray[np.float32]:
        """Return the predicted ratings of all items, on the scale."""
        return np.clip(self.scores, np.float32(self.items.scale.low), np.float32(self.items.scale.high))

    def recommend(self, n: int = 10, *, exclude_rated: bool = True, by_rating: bool = False) -> list[Suggestion]:
        """Find the n best items; there may be fewer.

        A list is for choosing from, so that what the person is unlikely ever to rate has no place at its top, however
        high the prediction. `by_rating` orders by prediction alone.
        """
        if n < 1:
            raise ModelError(f"a list of {n} items is empty; ask for at least 1")
        predicted, words = self.predictions(), self.items.items
        listed = predicted.astype(np.float64) if by_rating else list_scores(self.items, self.person, self.scores)
        order = best_first(listed, self.scores, leave_out=self.person.rated if exclude_rated else None)
        best = enumerate(order[:n].tolist(), 1)
        return [Suggestion(words.id_at(at), float(listed[at]), rank, float(predicted[at])) for rank, at in best]

    def explain(self, item: str | int, n: int = 3) -> list[Reason]:
        """Find the n own ratings that move an item's score most, in order of how much.

        The effects of all ratings add up to the score less what it would be if it were known which items the person
        rated, but not how.
        """
        index = self.items.items.index_of(item)
        if index is None:
            raise ModelError(f"item {str(item)[:40]!r} is unknown; give one that the model has")
        effects = effects_on(self.person, index)
        most = np.argsort(-np.abs(effects), kind="stable")[: max(n, 0)]
        name = self.items.items.id_at
        return [Reason(name(int(self.person.rated[k])), float(self.ratings[k]), float(effects[k])) for k in most]


def rank_items(items: ItemModel, ratings: RatingsByItem) -> PersonalRanking:
    """Rank all items by a person's own true ratings.

    Ids match by their text form. Ratings of items that the model does not know are ignored and counted; one that is
    off the scale is refused.

    >>> from tacit.privacy.item_model import ItemModel
    >>> from tacit.privacy.scale import RatingScale
    >>> from tacit.privacy.vocabulary import Vocabulary
    >>> factors = np.array([[1], [-1], [0.9], [-0.9]], dtype=np.float32)
    >>> words = Vocabulary.of(["Harbour", "Rain", "Lighthouse", "Storm"])
    >>> films = ItemModel(RatingScale.parse("1:5:1"), words, 3.0, np.zeros(4, dtype=np.float32), factors)
    >>> ranking = rank_items(films, {"Harbour": 5, "Rain": 1})
    >>> [found.item for found in ranking.recommend()]
    ['Lighthouse', 'Storm']
    >>> ranking.explain("Lighthouse", 1)[0].item
    'Harbour'
    """
    named = by_item(ratings)
    found = items.items.find(list(named))
    ranks = items.scale.ranks_of([float(rating) for rating in named.values()])
    known = np.flatnonzero(found >= 0)
    known = known[np.argsort(found[known])]
    own = items.scale.ratings[ranks[known]]
    person = fit_person(items, found[known], own)
    return PersonalRanking(items, person, own, len(found) - len(known), scores_of(items, person))


def list_scores(items: ItemModel, person: Person, scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the rating to expect of every item, on the scale, if one left unrated counts as the lowest.

    Without a pattern there is nothing to tell from what the person is likely to rate: these are predicted ratings.
    """
    low, high = float(items.scale.low), float(items.scale.high)
    predicted = np.clip(scores.astype(np.float64), low, high)
    return predicted if items.pattern is None else low + items.pattern.chances_of(person.rated) * (predicted - low)


def best_first(
    listed: NDArray[np.float64], scores: NDArray[np.float32], leave_out: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Order items by list score, those of equal ones by score, then by number of reports, as they are stored."""
    order = np.lexsort((-scores, -listed))
    return order if leave_out is None else order[~np.isin(order, leave_out)]
