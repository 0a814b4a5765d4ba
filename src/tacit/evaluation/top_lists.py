"""Lists of the best items: the place of a held-out item in its user's list, and how many on a list were liked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.kernels import padded, top_n
from tacit.learning.matrix import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int32]
    Counts = NDArray[np.int64]
    Doubles = NDArray[np.float64]
    Floats = NDArray[np.float32]

LENGTH = 10
"""How many items a list has at most."""

# What a user rated in training is copied for so many users at a time.
_USERS_AT_ONCE = 8192

_DISCOUNTS = np.append(1 / np.log2(np.arange(2, LENGTH + 2)), 0)


@dataclass(frozen=True, slots=True)
class ListQuality:
    """F-score, precision and recall of lists, each averaged over users."""

    f_score: float
    precision: float
    recall: float


@dataclass(frozen=True, eq=False, slots=True)
class ListCounts:
    """Of some users, one entry each: how many items were recommended, and how many of these are relevant."""

    recommended: Counts
    hits: Counts

    def quality(self, relevant: Counts) -> ListQuality:
        """Average over the users, given how many relevant items each has: at least one. Nobody's average is 0."""
        if not len(relevant):
            return ListQuality(0.0, 0.0, 0.0)
        # The harmonic mean of hits / recommended and hits / relevant, without a case for lists that are empty.
        f_scores = 2 * self.hits / (self.recommended + relevant)
        precisions = self.hits / np.maximum(self.recommended, 1)
        return ListQuality(float(f_scores.mean()), float(precisions.mean()), float((self.hits / relevant).mean()))


def places_as_given(users: Codes) -> Counts:
    """Return the place, from 0, of each pair among those of its user; users rise."""
    starts = np.flatnonzero(np.diff(users, prepend=-1))
    return np.arange(len(users)) - np.repeat(starts, np.diff(starts, append=len(users)))


def places_by(users: Codes, scores: NDArray[Any]) -> Counts:
    """Return the place, from 0, of each pair when its user's pairs are ordered by falling score; ties stay as given."""
    places = np.empty(len(users), dtype=np.int64)
    places[np.lexsort((-scores, users))] = places_as_given(users)
    return places


def discounted_gains(users: Codes, gains: Doubles, places: Counts) -> Doubles:
    """Return every user's sum of gains, each over log2(place + 2), down to the end of the list."""
    return np.bincount(users, gains * _DISCOUNTS[np.minimum(places, LENGTH)]).astype(np.float64, copy=False)


def counts_among_held_out(
    users: Codes, recommended: NDArray[np.bool_], relevant: NDArray[np.bool_], listed: Codes
) -> ListCounts:
    """Count for every listed user, given for each held-out pair whether it is recommended and whether relevant."""
    return ListCounts(pairs_per_user(users, recommended)[listed], pairs_per_user(users, recommended & relevant)[listed])


def pairs_per_user(users: Codes, chosen: NDArray[np.bool_]) -> Counts:
    """Count the chosen pairs of every user, up to the last one who has a pair."""
    return np.bincount(users[chosen], minlength=int(users[-1]) + 1)


def best_by_products(factors: tuple[Floats, Floats], trained: Rows, chosen: Codes, threads: int) -> Codes:
    """Return the lists of some users: of all items they did not train on, those of the largest products of rows.

    Users come some at a time, so that memory does not grow with how much they rated.
    """
    users, items = factors[0], padded(factors[1])
    lists = np.empty((len(chosen), LENGTH), dtype=np.int32)
    for first in range(0, len(chosen), _USERS_AT_ONCE):
        block = slice(first, first + _USERS_AT_ONCE)
        some, coordinates = chosen[block], users.shape[1]
        rated = _rows_at(trained, some)
        lists[block], _ = top_n(padded(users[some]), items, rated, LENGTH, coordinates=coordinates, threads=threads)
    return lists


def counts_among_all(lists: Codes, relevant: tuple[Codes, Codes], listed: Codes) -> ListCounts:
    """Count for every listed user, given the lists of them and the users and items of relevant pairs, in order."""
    there = lists >= 0
    width = 1 + max(int(lists.max(initial=0)), int(relevant[1].max(initial=0)))
    cells = listed[:, None] * np.int64(width) + lists
    hits = there & _is_among(cells, relevant[0] * np.int64(width) + relevant[1])
    return ListCounts(there.sum(axis=1), hits.sum(axis=1))


def _rows_at(rows: Rows, chosen: Codes) -> Rows:
    """Copy the structure of some rows."""
    counts = rows.counts()[chosen]
    starts = np.concatenate([[0], np.cumsum(counts)])
    held = np.arange(starts[-1]) + np.repeat(rows.starts[chosen] - starts[:-1], counts)
    return Rows(starts, rows.columns[held], np.empty(0, dtype=np.uint8))


def _is_among(cells: Counts, rising: Counts) -> NDArray[np.bool_]:
    at = np.minimum(np.searchsorted(rising, cells), len(rising) - 1)
    return np.equal(rising[at], cells)
