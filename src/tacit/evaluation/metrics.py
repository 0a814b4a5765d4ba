"""How good predictions of held-out ratings are: their errors, and the top lists they lead to.

`docs/evaluation-metrics.md` defines every number and computes an example by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import InvalidInputError
from tacit.evaluation.top_lists import (
    LENGTH,
    ListQuality,
    best_by_products,
    counts_among_all,
    counts_among_held_out,
    discounted_gains,
    pairs_per_user,
    places_as_given,
    places_by,
)
from tacit.learning.kernels import checked_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.matrix import Rows
    from tacit.privacy.scale import RatingScale

    Doubles = NDArray[np.float64]
    Floats = NDArray[np.float32]

# So many floats of users and of items are copied out at a time to multiply pairs.
_FLOATS_AT_ONCE = 1 << 20
_LARGEST_SCORE = float(np.finfo(np.float32).max) / 2


@dataclass(frozen=True, slots=True)
class Metrics:
    """Errors and list qualities on one fold of held-out ratings.

    Lists have at most 10 items. Plain names take them from the user's held-out items predicted to be liked;
    `..._everything` from the held-out items whatever the prediction, the floor to compare with; `..._all` from all
    items that the user did not rate in training.
    """

    rmse: float
    mae: float
    ndcg: float
    f_score: float
    precision: float
    recall: float
    f_score_everything: float
    precision_everything: float
    recall_everything: float
    f_score_all: float
    precision_all: float
    recall_all: float
    users: int
    """Those with a relevant held-out item: F-scores, precisions and recalls are averages over them."""


@dataclass(frozen=True, eq=False, slots=True)
class HeldOut:
    """The held-out ratings of one fold, in order of user and item (codes from 0 in id order)."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    ratings: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Refuse a fold that is empty or not in order: places in lists are counted along it."""
        lengths = {len(self.users), len(self.items), len(self.ratings)}
        if len(lengths) > 1 or 0 in lengths:
            raise InvalidInputError(f"columns of {sorted(lengths)} held-out ratings; give as many of each, at least 1")
        steps = np.diff(self.users)
        if not np.all((steps > 0) | ((steps == 0) & (np.diff(self.items) > 0))):
            raise InvalidInputError("held-out ratings are not in order; sort them by user and item, each pair once")


@dataclass(frozen=True, eq=False, slots=True)
class Answers:
    """What is judged: the predicted ratings of held-out pairs, in their order, and a list for every user of these."""

    predicted: NDArray[np.float32]
    lists: NDArray[np.int32]
    """(users, 10) items that the user did not rate in training, best first, -1 after the last."""


@dataclass(frozen=True, eq=False, slots=True)
class Scores:
    """Scores of every user for every item as products of rows: score(u, i) = users[u] . items[i]."""

    users: NDArray[np.float32]
    items: NDArray[np.float32]

    def of_pairs(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> Floats:
        """Return the scores of pairs, some at a time: their rows are copied out."""
        scores = np.empty(len(users), dtype=np.float32)
        step = max(1, _FLOATS_AT_ONCE // max(1, self.users.shape[1]))
        for start in range(0, len(scores), step):
            block = slice(start, start + step)
            scores[block] = np.einsum("pf,pf->p", self.users[users[block]], self.items[items[block]])
        return scores

    def answers(self, held_out: HeldOut, trained: Rows, threads: int = 1) -> Answers:
        """Predict held-out ratings, and list the items of highest score for all who have some.

        Row u of `trained` has the items that user u rated in training.
        """
        _check_scores(self)
        _check_codes(self, held_out, trained)
        lists = np.full((len(self.users), LENGTH), -1, dtype=np.int32)
        asked = np.unique(held_out.users)
        lists[asked] = best_by_products((self.users, self.items), trained, asked, checked_threads(threads))
        return Answers(self.of_pairs(held_out.users, held_out.items), lists)


def default_threshold(scale: RatingScale) -> float:
    """Return the rating from which on an item counts as liked: six tenths up the scale.

    >>> from tacit.privacy.scale import RatingScale
    >>> default_threshold(RatingScale.parse("1:5:1"))
    3.4
    """
    return float(scale.low + Decimal("0.6") * scale.width)


def measure(answers: Answers, held_out: HeldOut, scale: RatingScale, *, threshold: float) -> Metrics:
    """Compare answers with held-out ratings."""
    _check_answers(answers, held_out)
    _check_threshold(threshold, scale)
    predicted = answers.predicted
    rmse, mae = _errors(predicted, held_out.ratings, scale)
    places = places_by(held_out.users, predicted)
    judged = _Judged.of(held_out, threshold)
    chosen = judged.quality((places < LENGTH) & _reached(predicted, threshold))
    everything = judged.quality(places_as_given(held_out.users) < LENGTH)
    overall = judged.quality_among_all(answers.lists)
    return Metrics(
        rmse=rmse,
        mae=mae,
        ndcg=_ndcg(places, held_out, scale),
        f_score=chosen.f_score,
        precision=chosen.precision,
        recall=chosen.recall,
        f_score_everything=everything.f_score,
        precision_everything=everything.precision,
        recall_everything=everything.recall,
        f_score_all=overall.f_score,
        precision_all=overall.precision,
        recall_all=overall.recall,
        users=len(judged.listed),
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Judged:
    """Held-out pairs, which of them are relevant, the users with a relevant one and how many each of these has."""

    held_out: HeldOut
    relevant: NDArray[np.bool_]
    listed: NDArray[np.int32]
    relevant_of_listed: NDArray[np.int64]

    @classmethod
    def of(cls, held_out: HeldOut, threshold: float) -> _Judged:
        relevant = held_out.ratings >= threshold
        counts = pairs_per_user(held_out.users, relevant)
        listed = np.flatnonzero(counts).astype(np.int32)
        return cls(held_out, relevant, listed, counts[listed])

    def quality(self, recommended: NDArray[np.bool_]) -> ListQuality:
        """Judge lists of held-out items."""
        counts = counts_among_held_out(self.held_out.users, recommended, self.relevant, self.listed)
        return counts.quality(self.relevant_of_listed)

    def quality_among_all(self, lists: NDArray[np.int32]) -> ListQuality:
        """Judge lists of all items but those rated in training."""
        relevant = self.held_out.users[self.relevant], self.held_out.items[self.relevant]
        return counts_among_all(lists[self.listed], relevant, self.listed).quality(self.relevant_of_listed)


def _reached(predicted: Floats, threshold: float) -> NDArray[np.bool_]:
    # Scores are in single precision: one that equals the threshold there has reached it, as 3.8 reaches 3.8.
    return predicted.astype(np.float64) >= float(np.float32(threshold))


def _errors(predicted: Floats, ratings: Doubles, scale: RatingScale) -> tuple[float, float]:
    """Return the root mean square and the mean size of the errors, predictions being cut off at the scale's ends."""
    errors = np.clip(predicted.astype(np.float64), float(scale.low), float(scale.high)) - ratings
    return float(np.sqrt(np.mean(np.square(errors)))), float(np.mean(np.abs(errors)))


def _ndcg(places: NDArray[np.int64], held_out: HeldOut, scale: RatingScale) -> float:
    """Compare every user's discounted gains with those of the best order, and average where there are any."""
    users, gains = held_out.users, held_out.ratings - float(scale.low)
    reached = discounted_gains(users, gains, places)
    ideal = discounted_gains(users, gains, places_by(users, gains))
    some = ideal > 0
    return float(np.mean(reached[some] / ideal[some])) if some.any() else 0.0


def _check_scores(scores: Scores) -> None:
    """Refuse rows whose products could leave single precision: none exceeds the product of the longest rows."""
    if scores.users.shape[1:] != scores.items.shape[1:]:
        shapes = f"{scores.users.shape} and {scores.items.shape}"
        raise InvalidInputError(f"rows of shapes {shapes} have no products; give rows of equal length")
    if not _longest(scores.users) * _longest(scores.items) < _LARGEST_SCORE:
        msg = "scores are not finite; fit again with more regularisation or smaller steps, or leave this model out"
        raise InvalidInputError(msg)


def _longest(rows: Floats) -> float:
    return float(np.sqrt(np.max(np.einsum("rf,rf->r", rows, rows, dtype=np.float64), initial=0.0)))


def _check_codes(scores: Scores, held_out: HeldOut, trained: Rows) -> None:
    people, catalogue = len(scores.users), len(scores.items)
    if len(trained) != people:
        raise InvalidInputError(f"{people} users are scored and {len(trained)} trained on; give a row for each user")
    for name, codes, size in (("user", held_out.users, people), ("item", held_out.items, catalogue)):
        least, most = int(codes.min()), int(codes.max())
        if least < 0 or most >= size:
            wrong = least if least < 0 else most
            raise InvalidInputError(f"held-out {name} {wrong} is not one of {size}; give a row of scores for each")


def _check_answers(answers: Answers, held_out: HeldOut) -> None:
    predicted, lists = answers.predicted, answers.lists
    if predicted.shape != held_out.ratings.shape or not np.isfinite(predicted).all():
        raise InvalidInputError(f"{len(held_out.ratings)} ratings are held out; give a finite prediction for each")
    if lists.ndim != 2 or lists.shape[1] != LENGTH or not held_out.users[-1] < len(lists):  # noqa: PLR2004 - rows, columns
        people = int(held_out.users[-1]) + 1
        raise InvalidInputError(f"lists of shape {lists.shape} are not {people} of {LENGTH}; give one for each user")


def _check_threshold(threshold: float, scale: RatingScale) -> None:
    if not float(scale.low) <= threshold <= float(scale.high):
        raise InvalidInputError(f"threshold {threshold} is not on the scale {scale}; choose one between its ends")
