from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import InvalidInputError, ModelError
from tacit.learning.local_engine import LocalEngine
from tacit.learning.matrix import ReportMatrix, Rows
from tacit.learning.mixture import NoiseMixture, entry_weights
from tacit.learning.model import Model, Offsets, Profile, Provenance
from tacit.learning.trace import FitTrace, Iteration
from tacit.privacy.scale import RatingScale

STARS = RatingScale.parse("1:5:1")
MIXTURE = NoiseMixture(np.array([0.7, 0.3]), np.array([0.25, 4.0]))

# Users a to f and items 10 to 80; f made no report, and 70 and 80 have none.
REPORTS = {
    ("a", 10): 5, ("a", 20): 3, ("a", 30): 4, ("a", 40): 1,
    ("b", 10): 4, ("b", 20): 2, ("b", 50): 5,
    ("c", 10): 1, ("c", 30): 2,
    ("d", 10): 3, ("d", 60): 3,
    ("e", 20): 4,
}  # fmt: skip
USERS, ITEMS = "abcdef", (10, 20, 30, 40, 50, 60, 70, 80)


def report_matrix() -> ReportMatrix:
    users, items = zip(*REPORTS, strict=True)
    values = np.array(list(REPORTS.values()), dtype=np.float32)
    return ReportMatrix.of_values(users, items, values, STARS, catalogue_users=USERS, catalogue_items=ITEMS)


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(0, 0.7, shape).astype(np.float32)


def make_model(rank: int = 2, *, with_offsets: bool = True, noise: NoiseMixture = MIXTURE, **changes: Any) -> Model:
    rng = np.random.default_rng(7)
    matrix = report_matrix()
    n, m = matrix.shape
    own = (normal(rng, n), normal(rng, m)) if with_offsets else (np.zeros(n, np.float32), np.zeros(m, np.float32))
    parts: dict[str, Any] = {
        "name": "mf-als",
        "options": {"rank": rank},
        "scale": STARS,
        "users": matrix.users,
        "items": matrix.items,
        "user_factors": normal(rng, n, rank),
        "item_factors": normal(rng, m, rank),
        "offsets": Offsets(3.0, *own),
        "fallback": Offsets(2.5, normal(rng, n), normal(rng, m)),
        "noise": noise,
        "factor_ridge": 0.1,
        "offset_ridge": 0.3 if with_offsets else None,
        "rated": LocalEngine(matrix, 1).rated(),
        "trace": FitTrace((Iteration(1, 1.0, None, 0.1, 0.01),), "converged"),
        "provenance": Provenance((), matrix.checksum, 7, {"tacit": "0"}),
    }
    return Model(**parts | changes)


def score(model: Model, user: object, item: object) -> float:
    """The score as the documentation has it, in double precision."""
    u, i = model.users.ids.tolist().index(user), model.items.ids.tolist().index(item)
    product = model.user_factors[u].astype(float) @ model.item_factors[i].astype(float)
    return float(model.offsets.mean + model.offsets.users[u] + model.offsets.items[i] + product)


def clipped(number: float) -> float:
    return float(np.clip(number, 1, 5))


def test_a_prediction_is_the_score_on_the_scale() -> None:
    model = make_model()
    pairs = [(user, item) for user in "abcde" for item in ITEMS[:6]]
    found = model.predict([user for user, _ in pairs], [item for _, item in pairs])
    assert found.ratings.dtype == np.float32
    assert not found.fallback.any()
    np.testing.assert_allclose(found.ratings, [clipped(score(model, *pair)) for pair in pairs], rtol=1e-6)
    assert len(found) == len(pairs)
    assert {1.0, 5.0} & set(found.ratings.tolist())  # the ends of the scale are tried too


def test_what_is_unknown_gets_the_mean_and_what_is_known_of_the_other() -> None:
    model = make_model()
    rest = model.fallback
    pairs = [("zoe", 10), ("f", 10), ("a", 99), ("a", 70), ("zoe", 99), ("f", 80), ("a", 10)]
    found = model.predict([user for user, _ in pairs], np.array([item for _, item in pairs]))
    item, user = float(rest.items[0]), float(rest.users[model.users.ids.tolist().index("a")])
    expected = [2.5 + item, 2.5 + item, 2.5 + user, 2.5 + user, 2.5, 2.5, clipped(score(model, "a", 10))]
    np.testing.assert_allclose(found.ratings, np.clip(expected, 1, 5), rtol=1e-6)
    assert found.fallback.tolist() == [True] * 6 + [False]


def test_ids_match_by_their_text_and_many_pairs_are_answered_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    plain = model.predict(["a", "b", "e"] * 5, [10, 20, 99] * 5)
    monkeypatch.setattr("tacit.learning.predict._PAIRS_AT_ONCE", 4)
    again = model.predict(np.array(["a", "b", "e"] * 5), ["10", "20", "99"] * 5)
    np.testing.assert_array_equal(plain.ratings, again.ratings)
    np.testing.assert_array_equal(plain.fallback, again.fallback)
    assert len(model.predict([], [])) == 0


@pytest.mark.parametrize(
    ("users", "items", "complaint"),
    [
        (["a", "b"], [10], "2 users and 1 items are no pairs"),
        ("a", [10], r"users 'a' is one id, not a list; write \['a'\]"),
        (["a"], 10, "items 10 is one id"),
    ],
)
def test_what_is_no_list_of_pairs_is_refused(users: Any, items: Any, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        make_model().predict(users, items)
    with pytest.raises(InvalidInputError, match="is no id"):
        make_model().predict([1.5], [10])


@pytest.mark.parametrize("rank", [0, 1, 2, 17])
@pytest.mark.parametrize("offsets", [True, False])
@pytest.mark.parametrize("exclude_rated", [True, False])
def test_recommended_are_the_items_of_highest_score(rank: int, offsets: bool, exclude_rated: bool) -> None:
    model = make_model(rank, with_offsets=offsets)
    for user in "abcde":
        rated = {item for owner, item in REPORTS if owner == user} if exclude_rated else set()
        wanted = [item for item in ITEMS[:6] if item not in rated]
        # Python's sort keeps the order of items with the same score: by popularity.
        wanted.sort(key=lambda item: -round(score(model, user, item), 5))
        found = model.recommend(user, 4, exclude_rated=exclude_rated)
        assert found.items == wanted[:4]
        assert not found.fallback
        np.testing.assert_allclose(found.ratings, [clipped(score(model, user, item)) for item in wanted[:4]], rtol=1e-5)
        assert len(found) == len(wanted[:4])


def test_the_order_is_that_of_scores_even_beyond_the_scale() -> None:
    rows = np.array([[40], [30], [20], [10], [50], [60], [0], [0]], dtype=np.float32)
    model = make_model(1, with_offsets=False, user_factors=np.ones((6, 1), np.float32), item_factors=rows)
    found = model.recommend("e", 6, exclude_rated=False)
    assert found.items == [60, 50, 10, 20, 30, 40]
    assert found.ratings.tolist() == [5.0] * 6


@pytest.mark.parametrize("user", ["zoe", "f", 7])
def test_somebody_unknown_gets_what_everybody_rates_best(user: str | int) -> None:
    model = make_model()
    wanted = sorted(ITEMS[:6], key=lambda item: -model.fallback.items[ITEMS.index(item)])
    found = model.recommend(user, 3)
    assert (found.items, found.fallback) == (wanted[:3], True)
    offsets = [float(model.fallback.items[ITEMS.index(item)]) for item in wanted[:3]]
    np.testing.assert_allclose(found.ratings, np.clip(2.5 + np.array(offsets), 1, 5), rtol=1e-6)


def test_a_model_of_the_mean_alone_recommends_by_popularity() -> None:
    zero = np.zeros(6, np.float32), np.zeros(8, np.float32)
    model = make_model(0, with_offsets=False, fallback=Offsets(3.0, *zero))
    assert model.recommend("a").items == [50, 60]
    assert model.recommend("zoe", 3).items == [10, 20, 30]
    assert model.predict(["a"], [10]).ratings.tolist() == [3.0]
    assert model.fold_in([10], [5]).factors.tolist() == []


@pytest.mark.parametrize("block", [1, 2, 4, None, 100])
@pytest.mark.parametrize("exclude_rated", [True, False])
@pytest.mark.parametrize("offsets", [True, False])
def test_everybodys_lists_are_each_ones_own(block: int | None, exclude_rated: bool, offsets: bool) -> None:
    model = make_model(with_offsets=offsets)
    blocks = list(model.recommend_all(4, exclude_rated=exclude_rated, block=block, threads=2))
    assert [part.first for part in blocks] == list(range(0, 6, block or 6))
    items, scores = np.vstack([part.items for part in blocks]), np.vstack([part.scores for part in blocks])
    assert np.concatenate([part.fallback for part in blocks]).tolist() == [False] * 5 + [True]
    assert np.isneginf(scores[items < 0]).all()
    for index, user in enumerate(model.users.ids):
        alone = model.recommend(user, 4, exclude_rated=exclude_rated)
        known = items[index] >= 0
        assert [model.items.id_at(item) for item in items[index][known]] == alone.items
        np.testing.assert_allclose(np.clip(scores[index][known], 1, 5), alone.ratings, rtol=1e-6)


@pytest.mark.parametrize("n", [0, -1, 10_001])
def test_a_list_of_impossible_length_is_refused_at_once(n: int) -> None:
    model = make_model()
    for ask in (
        lambda: model.recommend("a", n),
        lambda: model.recommend("zoe", n),
        lambda: model.recommend_all(n),
        lambda: model.similar(10, n),
        lambda: model.recommend_for(model.profile_of("a"), n),
    ):
        with pytest.raises(ModelError, match="1 to 10000"):
            ask()
    with pytest.raises(ModelError, match="at least 1"):
        model.recommend_all(block=0)
    assert len(model.recommend("e", 10_000)) == 5


def test_similar_items_have_the_same_direction() -> None:
    factors = np.array([[1, 0], [2, 0], [0, 3], [-1, 0], [1, 1], [0, 0], [1, 0], [9, 9]], dtype=np.float32)
    model = make_model(item_factors=factors)
    found = model.similar("10", 4)
    assert [item for item, _ in found] == [20, 50, 30, 60]
    assert [cosine for _, cosine in found] == pytest.approx([1, 0.5**0.5, 0, 0])
    assert [item for item, _ in model.similar(10, 10_000)] == [20, 50, 30, 60, 40]
    assert [cosine for _, cosine in model.similar(60)] == [0] * 5


@pytest.mark.parametrize("item", ["nothing", 70, "70", 99, "010"])
def test_an_item_of_which_nothing_is_known_is_like_nothing(item: str | int) -> None:
    with pytest.raises(ModelError, match="is unknown or has no reports"):
        make_model().similar(item)


def test_without_factors_nothing_is_similar() -> None:
    with pytest.raises(ModelError, match="no factors"):
        make_model(0).similar(10)


def stationary(model: Model, profile: Profile, values: np.ndarray) -> np.ndarray:
    """The gradient of the weighted squares and the ridge, in double precision: zero at a solution."""
    items = model.item_factors[profile.rated].astype(float)
    level = model.offsets.mean + model.offsets.items[profile.rated].astype(float) + profile.offset
    residuals = values - level - items @ profile.factors.astype(float)
    weighted = entry_weights(model.noise, residuals) * residuals
    slope = items.T @ weighted - model.factor_ridge * profile.factors
    own = [] if model.offset_ridge is None else [weighted.sum() - model.offset_ridge * profile.offset]
    return np.concatenate([slope, own])


@pytest.mark.parametrize("noise", [MIXTURE, NoiseMixture.single(), NoiseMixture.single(0.3)])
@pytest.mark.parametrize("offsets", [True, False])
@pytest.mark.parametrize("rank", [1, 2, 5])
def test_folding_in_solves_a_persons_row(noise: NoiseMixture, offsets: bool, rank: int) -> None:
    model = make_model(rank, with_offsets=offsets, noise=noise)
    profile = model.fold_in([60, 10, 99, 30, 70], [1.0, 5.0, 3.0, 4.5, 2.0])
    assert profile.rated.tolist() == [0, 2, 5]
    assert (profile.unknown, profile.known) == (2, True)
    assert np.abs(stationary(model, profile, np.array([5.0, 4.5, 1.0]))).max() < 1e-3
    assert (profile.offset != 0) == offsets
    other_order = model.fold_in(["30", "60", "10"], np.array([4.5, 1, 5]))
    np.testing.assert_array_equal(other_order.factors, profile.factors)


def test_a_mixture_believes_reports_that_agree() -> None:
    """Three say much the same, one is far off: the narrow component keeps the three."""
    model = make_model(0, noise=NoiseMixture(np.array([0.8, 0.2]), np.array([0.25, 9.0])), offset_ridge=0.001)
    values = model.offsets.mean + model.offsets.items[:4] + np.array([1, 1.02, 0.98, -3.0])
    assert model.fold_in(ITEMS[:4], values).offset == pytest.approx(1, abs=0.1)
    plain = replace(model, noise=NoiseMixture.single())
    assert plain.fold_in(ITEMS[:4], values).offset == pytest.approx(0, abs=0.02)


def test_folding_in_without_factors_is_a_damped_mean() -> None:
    model = make_model(0, noise=NoiseMixture.single(), offset_ridge=2.0)
    profile = model.fold_in([10, 20], [5, 4])
    assert profile.offset == pytest.approx((9 - 2 * 3.0 - model.offsets.items[:2].sum()) / (2 + 2), rel=1e-5)


def test_without_a_ridge_folding_in_takes_the_smallest_solution() -> None:
    model = make_model(2, with_offsets=False, noise=NoiseMixture.single(), factor_ridge=0.0)
    profile = model.fold_in([20], [4.0])
    direction = model.item_factors[1].astype(float)
    np.testing.assert_allclose(profile.factors, direction / (direction @ direction), rtol=1e-4)


def test_folding_in_nothing_known_says_nothing() -> None:
    model = make_model()
    profile = model.fold_in([70, "x"], [1, 5])
    assert (profile.known, profile.unknown, profile.offset) == (False, 2, 0.0)
    assert profile.factors.tolist() == [0, 0]
    assert model.recommend_for(profile, 3).items == model.recommend("zoe", 3).items
    found = model.predict_for(profile, [10, 99])
    np.testing.assert_array_equal(found.ratings, model.predict(["zoe", "zoe"], [10, 99]).ratings)
    assert found.fallback.all()
    assert not model.fold_in([], []).known


def test_a_profile_is_ranked_as_a_user_would_be() -> None:
    model = make_model()
    profile = model.profile_of("b")
    assert profile.rated.tolist() == [0, 1, 4]
    assert (
        model.recommend_for(profile, 5).items
        == model.recommend("b", 5).items
        == model.recommend_for(profile, 5, exclude=[50, "10", 20, "unheard of", 10]).items
    )
    everything = model.recommend_for(profile, 10, exclude=[])
    assert everything.items == model.recommend("b", 10, exclude_rated=False).items
    np.testing.assert_allclose(everything.ratings, model.predict_for(profile, everything.items).ratings, rtol=1e-6)
    one_off = model.recommend_for(profile, 10, exclude=[everything.items[0]])
    assert one_off.items == everything.items[1:]


def test_a_profile_rates_the_unknown_at_its_own_level() -> None:
    model = make_model()
    profile = model.profile_of("a")
    found = model.predict_for(profile, [10, 99, "70"])
    assert found.fallback.tolist() == [False, True, True]
    level = clipped(2.5 + profile.offset)
    np.testing.assert_allclose(found.ratings, [clipped(score(model, "a", 10)), level, level], rtol=1e-6)


@pytest.mark.parametrize(
    ("items", "values", "complaint"),
    [
        ([10, 20], [1.0], r"2 items and values of shape \(1,\)"),
        ([10], [[1.0]], r"values of shape \(1, 1\)"),
        ([10], ["five"], "not numbers"),
        ([10], [None], "not numbers"),
        ([10], [float("nan")], "not a finite number"),
        ([10], [1e300], "not a finite number"),
        ([10, "10"], [1, 2], "item '10' is there twice"),
        ("ab", [1, 2], "is one id, not a list"),
    ],
)
def test_what_is_no_history_is_not_folded_in(items: Any, values: Any, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        make_model().fold_in(items, values)


def test_the_public_part_has_the_items_with_reports_and_no_person() -> None:
    model = make_model()
    public = model.item_model()
    assert public.items.ids.tolist() == list(ITEMS[:6])
    profile = model.profile_of("a")
    scores = public.scores(profile.factors, profile.offset)
    np.testing.assert_allclose(scores, [score(model, "a", item) for item in ITEMS[:6]], rtol=1e-5)


def test_a_model_cannot_be_changed() -> None:
    model = make_model()
    for array in (model.user_factors, model.item_factors, model.offsets.users, model.fallback.items):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert (model.rank, model.reports, model.reported_items) == (2, 12, 6)


def rated(starts: list[int], columns: list[int]) -> Rows:
    return Rows(np.array(starts), np.array(columns, dtype=np.int32), np.empty(0, np.uint8))


def floats(*shape: int, fill: float = 1.0) -> Any:
    return np.full(shape, fill, dtype=np.float32)


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "no finite factors": ({"user_factors": floats(6, 2, fill=np.nan)}, "user factors are not all finite"),
    "infinite factors": ({"item_factors": floats(8, 2, fill=np.inf)}, "item factors are not all finite"),
    "factors whose product overflows": ({"item_factors": floats(8, 2, fill=1e20)}, "item factors are not all finite"),
    "factors of two ranks": ({"item_factors": floats(8, 3)}, r"item factors are float32 of shape \(8, 3\)"),
    "factors in a row": ({"user_factors": floats(6)}, r"user factors are float32 of shape \(6,\)"),
    "factors in doubles": ({"user_factors": np.ones((6, 2))}, "user factors are float64"),
    "factors of too few": ({"user_factors": floats(5, 2)}, r"not float32 of shape \(6, 2\)"),
    "too many factors": ({"user_factors": floats(6, 257), "item_factors": floats(8, 257)}, "rank 257 is above"),
    "offsets of too few": ({"offsets": Offsets(3.0, floats(6), floats(6))}, "item offsets are"),
    "no finite offsets": ({"offsets": Offsets(3.0, floats(6, fill=np.nan), floats(8))}, "user offsets are not"),
    "no finite mean": ({"offsets": Offsets(np.nan, floats(6), floats(8))}, "the mean of offsets is nan"),
    "no finite fallback": ({"fallback": Offsets(np.inf, floats(6), floats(8))}, "the mean of fallback offsets is inf"),
    "lists of too few": ({"rated": rated([0, 1], [0])}, "one for each of 6 users"),
    "a late start": ({"rated": rated([1, 1, 1, 1, 1, 1, 1], [0])}, "rise from 0 to 1"),
    "an early end": ({"rated": rated([0, 1, 1, 1, 1, 1, 1], [0, 1])}, "rise from 0 to 2"),
    "falling starts": ({"rated": rated([0, 3, 1, 2, 2, 2, 2], [0, 1])}, "rise from 0"),
    "wrapping starts": ({"rated": rated([0, 2**63 - 1, -(2**63), 1, 1, 1, 1], [0])}, "rise from 0"),
    "no reports at all": ({"rated": rated([0] * 7, [])}, "no rated items"),
    "an item beyond": ({"rated": rated([0, 1, 1, 1, 1, 1, 1], [8])}, "not from 0 to 7"),
    "an item before": ({"rated": rated([0, 1, 1, 1, 1, 1, 1], [-1])}, "not from 0 to 7"),
    "falling items": ({"rated": rated([0, 2, 2, 2, 2, 2, 2], [1, 0])}, "do not rise"),
    "an item twice": ({"rated": rated([0, 1, 3, 3, 3, 3, 3], [0, 0, 0])}, "do not rise"),
    "an unreported item in between": ({"rated": rated([0, 2, 2, 2, 2, 2, 2], [0, 2])}, "behind all others"),
    "no mixture": ({"noise": NoiseMixture(np.ones(0), np.ones(0))}, "1 to 16 components"),
    "a mixture of 17": ({"noise": NoiseMixture(np.full(17, 1 / 17), np.ones(17))}, "1 to 16 components"),
    "a mixture of halves": ({"noise": NoiseMixture(np.array([0.5]), np.ones(1))}, "do not sum to 1"),
    "no variance": ({"noise": NoiseMixture(np.ones(1), np.zeros(1))}, "not positive"),
    "a variance of nan": ({"noise": NoiseMixture(np.ones(1), np.full(1, np.nan))}, "not positive"),
    "a negative ridge": ({"factor_ridge": -1.0}, "ridge of factors is -1.0"),
    "an infinite ridge": ({"offset_ridge": np.inf}, "ridge of offsets is inf"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_parts_that_do_not_fit_make_no_model(case: str) -> None:
    changes, complaint = UNFIT[case]
    with pytest.raises(ModelError, match=complaint) as refused:
        make_model(**changes)
    assert "\n" not in str(refused.value)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30), st.integers(0, 2**32 - 1))
def test_no_answer_is_ever_nan_or_off_the_scale(pairs: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = np.float32(10.0 ** rng.uniform(-3, 14))
    model = make_model(user_factors=normal(rng, 6, 2) * size, item_factors=normal(rng, 8, 2) * size)
    users, items = [str(user) if user > 5 else USERS[user] for user, _ in pairs], [item * 10 for _, item in pairs]
    for found in (
        model.predict(users, items).ratings,
        model.recommend(users[0]).ratings,
        model.predict_for(model.profile_of(users[0]), items).ratings,
    ):
        assert ((found >= 1) & (found <= 5)).all()
