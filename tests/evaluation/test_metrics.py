"""The metrics are what their definitions say, for every user, and need little memory."""

from __future__ import annotations

import dataclasses
import math
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tacit.errors import InvalidInputError
from tacit.evaluation import metrics as metrics_module
from tacit.evaluation import top_lists
from tacit.evaluation.metrics import Answers, HeldOut, Metrics, Scores, default_threshold, measure
from tacit.learning.kernels import kernel_name
from tacit.learning.matrix import Rows
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from numpy.typing import NDArray

STARS = RatingScale.parse("1:5:1")
UNSEEN, TRAINED, HELD_OUT = range(3)
LIST_NAMES = [
    f"{name}{variant}" for variant in ("", "_everything", "_all") for name in ("f_score", "precision", "recall")
]

AMONG_ALL = [name for name in LIST_NAMES if name.endswith("_all")]


@dataclasses.dataclass(frozen=True)
class Case:
    """A small world as tables of users by items: what happened to each pair, its rating, its score."""

    states: NDArray[np.int64]
    ratings: NDArray[np.float64]
    scores: NDArray[np.float32]

    def measure(
        self, threshold: float = 3.4, scale: RatingScale = STARS, lists: NDArray[np.int32] | None = None
    ) -> Metrics:
        held, trained = np.nonzero(self.states == HELD_OUT), self.states == TRAINED
        starts = np.concatenate([[0], np.cumsum(trained.sum(axis=1))])
        columns = np.nonzero(trained)[1].astype(np.int32)
        held_out = HeldOut(held[0].astype(np.int32), held[1].astype(np.int32), self.ratings[held])
        answers = self.factors().answers(held_out, Rows(starts, columns, columns.copy()))
        if lists is not None:
            answers = dataclasses.replace(answers, lists=lists)
        return measure(answers, held_out, scale, threshold=threshold)

    def factors(self) -> Scores:
        """Any table is a product: that of one unit row for each user with its own columns."""
        return Scores(np.eye(len(self.scores), dtype=np.float32), np.ascontiguousarray(self.scores.T))

    def relevant(self) -> NDArray[np.bool_]:
        return np.asarray((self.states == HELD_OUT) & (self.ratings >= 3.4))

    def of_users(self, users: list[int]) -> Case:
        return Case(self.states[users], self.ratings[users], self.scores[users])


def expected(case: Case, threshold: float = 3.4) -> dict[str, float]:
    """Follow the definitions, one user at a time."""
    errors, shares, lists = [], [], []
    people, catalogue = case.states.shape
    for user in range(people):
        score = {item: float(case.scores[user, item]) for item in range(catalogue)}
        held = [item for item in range(catalogue) if case.states[user, item] == HELD_OUT]
        rating = {item: float(case.ratings[user, item]) for item in held}
        errors += [min(max(score[item], 1.0), 5.0) - rating[item] for item in held]

        best = sorted(held, key=lambda item: (-score[item], item))
        gained, ideal = gain([rating[item] for item in best]), gain(sorted(rating.values(), reverse=True))
        shares += [gained / ideal] if ideal else []

        relevant = {item for item in held if rating[item] >= threshold}
        candidates = [item for item in range(catalogue) if case.states[user, item] != TRAINED]
        chosen = [item for item in best[:10] if score[item] >= float(np.float32(threshold))]
        among_all = sorted(candidates, key=lambda item: (-score[item], item))[:10]
        if relevant:
            lists.append([*quality(chosen, relevant), *quality(held[:10], relevant), *quality(among_all, relevant)])
    averages = [mean(values) for values in zip(*lists, strict=True)] or [0.0] * 9
    return {
        "rmse": math.sqrt(mean([error**2 for error in errors])),
        "mae": mean([abs(error) for error in errors]),
        "ndcg": mean(shares),
        **dict(zip(LIST_NAMES, averages, strict=True)),
        "users": len(lists),
    }


def mean(values: Any) -> float:
    return sum(values) / len(values) if len(values) else 0.0


def gain(ratings: list[float]) -> float:
    return sum((rating - 1) / math.log2(position + 1) for position, rating in enumerate(ratings[:10], start=1))


def quality(recommended: list[int], relevant: set[int]) -> tuple[float, float, float]:
    hits = len(relevant.intersection(recommended))
    if not hits:
        return 0.0, 0.0, 0.0
    precision, recall = hits / len(recommended), hits / len(relevant)
    return 2 * precision * recall / (precision + recall), precision, recall


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 30)))
    states = draw(arrays.arrays(np.int64, shape, elements=st.sampled_from([UNSEEN, TRAINED, HELD_OUT, HELD_OUT])))
    states[-1, -1] = HELD_OUT  # at least one
    ratings = draw(arrays.arrays(np.float64, shape, elements=st.integers(1, 5).map(float)))
    few = st.sampled_from([-1.0, 2.0, 3.25, 3.4, 4.0, 6.0]).map(np.float32)
    return Case(states, ratings, draw(arrays.arrays(np.float32, shape, elements=few)))


def random_case(people: int = 30, catalogue: int = 60, seed: int = 1) -> Case:
    rng = np.random.default_rng(seed)
    shape = people, catalogue
    ratings = rng.integers(1, 6, shape).astype(np.float64)
    return Case(rng.integers(0, 3, shape), ratings, rng.normal(3, 1, shape).astype(np.float32))


def one_user(ratings: list[float], scores: list[float]) -> Case:
    """Everything was held out."""
    return Case(np.full((1, len(ratings)), HELD_OUT), np.array([ratings]), np.array([scores], dtype=np.float32))


@given(cases())
def test_every_number_is_what_its_definition_says(case: Case) -> None:
    assert dataclasses.asdict(case.measure()) == pytest.approx(expected(case), abs=1e-12)


@pytest.mark.parametrize("kernel", ["numpy", ""])
def test_neither_blocks_nor_the_kernel_change_anything(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case()
    whole = case.measure()
    if kernel:
        monkeypatch.setenv("TACIT_KERNEL", kernel)
    monkeypatch.setattr(top_lists, "_USERS_AT_ONCE", 7)
    monkeypatch.setattr(metrics_module, "_FLOATS_AT_ONCE", 100)
    assert case.measure() == whole
    assert dataclasses.asdict(whole) == pytest.approx(expected(case))


def worked_example() -> Case:
    """Build the example of docs/evaluation-metrics.md: Ann, Ben, Cem and Dan, and items a to l."""
    states, ratings = np.full((4, 12), UNSEEN), np.full((4, 12), math.nan)
    scores = np.full((4, 12), 3.2, dtype=np.float32)

    def cell(name: str) -> tuple[int, int]:
        return "ABCD".index(name[0]), "abcdefghijkl".index(name[1])

    for name in ["Ab", "Ba", "Be", "Bf"]:
        states[cell(name)] = TRAINED
    for name, rating, score in [
        ("Aa", 5, 4.5),
        ("Ac", 2, 3.6),
        ("Ad", 4, 3.0),
        ("Bb", 3, 2.8),
        ("Bg", 4, 5.5),
        ("Cc", 2, 3.5),
        ("Dl", 1, 1.0),
    ]:
        states[cell(name)], ratings[cell(name)], scores[cell(name)] = HELD_OUT, rating, score
    return Case(states, ratings, scores)


def test_the_example_computed_by_hand() -> None:
    ann = (4 + 1 / math.log2(3) + 3 / 2) / (4 + 3 / math.log2(3) + 1 / 2)
    assert ann == pytest.approx(0.959, abs=5e-4)
    by_hand = Metrics(
        rmse=math.sqrt(7.1 / 7),
        mae=5.8 / 7,
        ndcg=(ann + 1 + 1) / 3,
        f_score=3 / 4,
        precision=3 / 4,
        recall=3 / 4,
        f_score_everything=11 / 15,
        precision_everything=7 / 12,
        recall_everything=1,
        f_score_all=11 / 60,
        precision_all=19 / 180,
        recall_all=3 / 4,
        users=2,
    )
    assert dataclasses.asdict(worked_example().measure()) == pytest.approx(dataclasses.asdict(by_hand), rel=1e-6)


@given(cases())
def test_a_constant_above_the_threshold_recommends_everything(case: Case) -> None:
    metrics = dataclasses.replace(case, scores=np.full_like(case.scores, 4)).measure()
    assert metrics.f_score == metrics.f_score_everything
    assert metrics.precision == metrics.precision_everything
    assert metrics.recall == metrics.recall_everything


@given(cases())
def test_a_constant_below_the_threshold_recommends_nothing_held_out(case: Case) -> None:
    metrics = dataclasses.replace(case, scores=np.full_like(case.scores, 3)).measure()
    assert (metrics.f_score, metrics.precision, metrics.recall) == (0, 0, 0)


@given(cases())
def test_true_ratings_as_scores_are_perfect(case: Case) -> None:
    metrics = dataclasses.replace(case, scores=case.ratings.astype(np.float32)).measure()
    assert (metrics.rmse, metrics.mae) == (0, 0)
    assert metrics.ndcg in {0, 1}  # 0 where every rating is the lowest
    assert metrics.ndcg == 1 or metrics.users == 0
    assert metrics.precision == (metrics.users > 0)
    assert metrics.f_score >= metrics.f_score_everything


@given(cases(), st.randoms())
def test_the_order_of_users_changes_nothing(case: Case, random: Any) -> None:
    users = list(range(len(case.states)))
    random.shuffle(users)
    before, after = (dataclasses.asdict(each.measure()) for each in (case, case.of_users(users)))
    assert after == pytest.approx(before, abs=1e-12)


@pytest.mark.parametrize("threshold", [3.4, 3.8, 2.2, 1.1])
def test_a_score_equal_to_the_threshold_reaches_it(threshold: float) -> None:
    """Also where single precision lies below: 3.8 is 3.79999995."""
    assert one_user([5.0], [threshold]).measure(threshold).recall == 1
    below = float(np.nextafter(np.float32(threshold), np.float32(0)))
    assert one_user([5.0], [below]).measure(threshold).recall == 0


def test_lists_end_after_ten_items() -> None:
    metrics = one_user([5.0] * 12, [4.0] * 12).measure()
    assert (metrics.precision, metrics.recall) == (1, 10 / 12)
    assert (metrics.precision_all, metrics.recall_all) == (1, 10 / 12)
    assert metrics.ndcg == 1


def test_ties_go_to_the_lower_item() -> None:
    metrics = one_user([5.0] + [1.0] * 10, [4.0] * 11).measure()
    assert metrics.recall == metrics.recall_all == metrics.ndcg == 1
    metrics = one_user([1.0] * 10 + [5.0], [4.0] * 11).measure()
    assert metrics.recall == metrics.recall_all == metrics.ndcg == 0


def test_order_is_by_scores_before_they_are_cut_off() -> None:
    metrics = one_user([2.0, 5.0], [6.0, 7.0]).measure()
    assert metrics.ndcg == 1
    assert metrics.mae == 1.5


def test_nobody_likes_anything() -> None:
    metrics = one_user([1.0, 1.0], [4.0, 4.5]).measure()
    assert metrics.users == 0
    assert metrics.ndcg == 0
    assert all(getattr(metrics, name) == 0 for name in LIST_NAMES)
    assert metrics.mae == 3.25


def test_an_item_nobody_trained_on_is_a_candidate() -> None:
    case = Case(np.array([[TRAINED, UNSEEN, HELD_OUT]]), np.array([[1.0, 1.0, 5.0]]), np.zeros((1, 3), np.float32))
    metrics = case.measure()
    assert (metrics.precision_all, metrics.recall_all) == (0.5, 1)


def test_users_without_held_out_ratings_do_not_count() -> None:
    case = random_case()
    silent = Case(*(np.insert(table, [0, 5, 30], 1, axis=0) for table in dataclasses.astuple(case)))
    assert np.all(silent.states[[0, 6, 32]] == TRAINED)
    assert dataclasses.asdict(silent.measure()) == pytest.approx(dataclasses.asdict(case.measure()))


@pytest.mark.parametrize(
    ("scale", "threshold"),
    [("1:5:1", 3.4), ("0.5:5:0.5", 3.2), ("-10:10:0.05", 2.0), ("1:10:1", 6.4), ("0:0.7:0.1", 0.42)],
)
def test_the_default_threshold_is_six_tenths_up_the_scale(scale: str, threshold: float) -> None:
    assert default_threshold(RatingScale.parse(scale)) == threshold


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 3e38])
def test_scores_that_are_not_finite_are_refused(bad: float) -> None:
    """Also 3e38, which is finite but no longer once multiplied, and also for a pair that was not held out."""
    case = random_case()
    case.scores[0, np.flatnonzero(case.states[0] == UNSEEN)[0]] = bad
    with pytest.raises(InvalidInputError, match=r"^scores are not finite; fit again with .*$"):
        case.measure()


def test_what_does_not_fit_together_is_refused() -> None:
    one = np.zeros(1, dtype=np.int32)
    nothing_trained = Rows(np.zeros(2, dtype=np.int64), one[:0], one[:0])
    scores, held_out = Scores(np.ones((1, 2), np.float32), np.ones((3, 2), np.float32)), HeldOut(one, one, np.ones(1))

    def refused(match: str, scores: Scores = scores, **changed: Any) -> None:
        with pytest.raises(InvalidInputError, match=match):
            scores.answers(**({"held_out": held_out, "trained": nothing_trained} | changed))

    refused("threads is 0", threads=0)
    refused("held-out item 3 is not one of 3", held_out=HeldOut(one, one + 3, np.ones(1)))
    refused("held-out user -1 is not one of 1", held_out=HeldOut(one - 1, one, np.ones(1)))
    refused("1 users are scored and 0 trained on", trained=nothing_trained.part(0, 0))
    refused("have no products", scores=Scores(scores.users, scores.items[:, :1]))


def test_answers_that_cannot_be_judged_are_refused() -> None:
    one, lists = np.ones(1, dtype=np.int32), np.zeros((2, 10), dtype=np.int32)
    held_out, predicted = HeldOut(one, one, np.ones(1)), np.ones(1, np.float32)

    def refused(match: str, predicted: Any = predicted, lists: Any = lists, threshold: float = 3.0) -> None:
        with pytest.raises(InvalidInputError, match=match):
            measure(Answers(predicted, lists), held_out, STARS, threshold=threshold)

    refused("threshold 5.5 is not on the scale 1:5:1; choose", threshold=5.5)
    refused("threshold nan", threshold=math.nan)
    refused("1 ratings are held out; give a finite prediction", predicted=np.ones(2, np.float32))
    for bad in (math.nan, math.inf):
        refused("give a finite prediction", predicted=np.full(1, bad, np.float32))
    for shape in ((2, 9), (1, 10), (20,)):
        refused("are not 2 of 10; give one for each user", lists=np.zeros(shape, np.int32))


def test_lists_of_all_items_may_be_given_instead_of_following_scores() -> None:
    rng = np.random.default_rng(3)
    case = Case(
        rng.integers(0, 3, (6, 30)), rng.integers(1, 6, (6, 30)).astype(np.float64), np.zeros((6, 30), np.float32)
    )
    liking = rng.normal(3, 1, (6, 30)).astype(np.float32)
    best = np.argsort(np.where(case.states == TRAINED, np.inf, -liking), axis=1, kind="stable")[:, :10]
    by_liking, by_score = dataclasses.replace(case, scores=liking).measure(), case.measure()
    given = case.measure(lists=best.astype(np.int32))
    for name in AMONG_ALL:
        assert getattr(given, name) == getattr(by_liking, name) != getattr(by_score, name)
    same = dict.fromkeys(AMONG_ALL, 0.0)
    assert dataclasses.replace(given, **same) == dataclasses.replace(by_score, **same)
    short = np.where(np.arange(10) < 4, best, -1).astype(np.int32)
    hits = [len({*row[:4]} & {*np.flatnonzero(liked)}) for row, liked in zip(best, case.relevant(), strict=True)]
    relevant = case.relevant().sum(axis=1)
    some = relevant > 0
    assert case.measure(lists=short).precision_all == pytest.approx(np.mean(np.array(hits)[some] / 4))
    assert case.measure(lists=short).recall_all == pytest.approx(np.mean(np.array(hits)[some] / relevant[some]))


def test_held_out_ratings_must_be_there_and_in_order() -> None:
    def held_out(users: list[int], items: list[int]) -> HeldOut:
        return HeldOut(np.array(users, np.int32), np.array(items, np.int32), np.ones(len(users)))

    held_out([0, 0, 1], [1, 2, 0])
    for users, items in ([0, 0], [1, 1]), ([0, 0], [2, 1]), ([1, 0], [1, 2]):
        with pytest.raises(InvalidInputError, match="not in order; sort them"):
            held_out(users, items)
    for users, items in ([], []), ([0, 1], [1]):
        with pytest.raises(InvalidInputError, match="as many of each, at least 1"):
            held_out(users, items)


def test_memory_stays_far_below_all_pairs_of_users_and_items() -> None:
    people, catalogue, rank = 20_000, 30_000, 16
    listed = people if kernel_name() != "numpy" else 200  # NumPy would take minutes for all of them
    rng = np.random.default_rng(1)
    scores = Scores(*(rng.normal(0, 1, (size, rank)).astype(np.float32) for size in (people, catalogue)))
    held_out = HeldOut(
        np.repeat(np.arange(listed, dtype=np.int32), 5),
        np.sort(rng.integers(0, catalogue // 5, (listed, 5)) * 5 + np.arange(5)).astype(np.int32).ravel(),
        np.tile([1.0, 2, 3, 4, 5], listed),
    )
    trained = Rows(np.arange(people + 1) * 2, np.tile(np.array([1, 9], np.int32), people), np.empty(0, np.uint8))
    tracemalloc.start()
    try:
        metrics = measure(scores.answers(held_out, trained, threads=2), held_out, STARS, threshold=3.4)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert metrics.users == listed
    assert peak < people * catalogue * 4 / 10
