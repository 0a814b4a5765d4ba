from __future__ import annotations

import subprocess
import sys
import tracemalloc
from dataclasses import replace
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag
from threadpoolctl import threadpool_info

from tacit.device import Device, Person, fit_person, rank_items, read_own_ratings
from tacit.device.blas import one_thread
from tacit.device.equations import SPREADS
from tacit.device.likeness import MOST_LANDMARKS, Landmarks, likeness
from tacit.device.personal import effects_on, scores_of
from tacit.errors import DeviceError, InvalidInputError, ModelError, TableError
from tacit.privacy.item_model import Beliefs, ItemModel, ItemPattern
from tacit.privacy.scale import RatingScale
from tacit.privacy.vocabulary import Vocabulary

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.privacy.policy import Policy

STARS = RatingScale.parse("1:5:1")


def make_items(
    items: int = 30, rank: int = 2, traits: int = 5, places: int = 2, *, seed: int = 0, **changes: Any
) -> ItemModel:
    rng = np.random.default_rng(seed)

    def noise(*shape: int) -> Any:
        return (0.4 * rng.normal(size=shape)).astype(np.float32)

    beliefs = Beliefs(0.9, 0.2, noise(rank) ** 2 + 0.1, noise(items) ** 2, noise(items, rank) ** 2)
    pattern = ItemPattern(
        noise(items, traits), noise(traits) ** 2 + 0.1, noise(items, places), noise(items) ** 2 + 0.1, noise(places)
    )
    words = Vocabulary.of([f"film {k}" for k in range(items)])
    made = ItemModel(STARS, words, 3.4, noise(items), noise(items, rank), beliefs, pattern)
    return replace(made, **changes)


def make_ratings(items: int = 30, count: int = 12, *, seed: int = 1) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.choice(items, count, replace=False), rng.integers(1, 6, count).astype(np.float64)


def alike(one: Any, other: Any) -> float:
    """Return how alike two items are by their embedded rows."""
    if not len(one):
        return 0.5**8
    return float(((1 + one @ other / np.sqrt(one @ one) / np.sqrt(other @ other)) / 2) ** 8)


def oracle(
    model: ItemModel, rated: Any, ratings: Any, spreads: Any = SPREADS, landmarks: int = MOST_LANDMARKS
) -> tuple[Any, Any, Any]:
    """Condition the joint Gaussian of coordinates and ratings in the space of ratings, where the package never is.

    What is unsure of the factors of rated items narrows the prior of the person's. How much rated items pull their
    neighbours has the inverse of the likeness among them as its covariance, so that the scores have likeness as theirs.
    """
    beliefs, pattern = model.beliefs, model.pattern
    assert beliefs is not None
    assert pattern is not None
    places = len(pattern.place_scale)
    place = sum(pattern.shares[k].astype(float) * pattern.traits[k, 2 : 2 + places].astype(float) for k in rated)
    place = pattern.place_scale * len(rated) ** -0.25 * place
    residual = ratings - model.mean - model.offsets[rated].astype(float) - pattern.responses[rated] @ place
    embedded, weights = pattern.traits[:, 2:].astype(float), pattern.shares.astype(float) ** -2.5
    width = np.average(embedded**2, axis=0, weights=weights) @ pattern.trait_variances[2:].astype(float)
    near = np.sort(rated)[:landmarks]
    likenesses = [[alike(embedded[one], embedded[other]) for other in near] for one in rated]
    among = [[alike(embedded[one], embedded[other]) for other in near] for one in near]
    pull_prior = width * np.linalg.inv(np.array(among) + 1e-3 * np.eye(len(near)))
    design = np.hstack([np.ones((len(rated), 1)), pattern.traits[rated], likenesses, model.factors[rated]])
    noise = np.diag(beliefs.residual_variance + beliefs.item_offset_variances[rated].astype(float))
    evidence, means = [], []
    for spread in spreads:
        narrowed = sum(beliefs.item_factor_variances[k].astype(float) / noise[n, n] for n, k in enumerate(rated))
        factor_prior = 1 / (1 / beliefs.factor_variances.astype(float) + narrowed)
        own = np.diag(np.r_[beliefs.offset_variance, spread * pattern.trait_variances.astype(float)])
        prior = block_diag(own, spread * pull_prior, np.diag(factor_prior))
        total = design @ prior @ design.T + noise
        inverse = np.linalg.inv(total)
        means.append(prior @ design.T @ inverse @ residual)
        # The Student distribution of ratings whose variances share a scale with an inverse-gamma prior.
        size = residual @ inverse @ residual
        log_density = -0.5 * np.linalg.slogdet(total)[1] - (5 + len(rated) / 2) * np.log(5 + size / 2)
        evidence.append(log_density - 0.5 * np.log(spread) ** 2)
    weights = np.exp(np.array(evidence) - max(evidence))
    weights /= weights.sum()
    return weights @ np.array(means), weights, place


def coordinates(person: Person) -> Any:
    return np.concatenate([[person.offset], person.trait_weights, person.pulls, person.factors])


@pytest.mark.parametrize("count", [1, 5, 30])
@pytest.mark.parametrize("shape", [(2, 5, 2), (0, 4, 2), (3, 2, 0), (0, 2, 0), (8, 20, 16)])
def test_a_person_is_the_posterior_mean(count: int, shape: tuple[int, int, int]) -> None:
    model = make_items(30, *shape)
    rated, ratings = make_ratings(count=count)
    person = fit_person(model, rated, ratings)
    expected, weights, place = oracle(model, rated, ratings)
    np.testing.assert_allclose(coordinates(person), expected, rtol=1e-4, atol=1e-4)  # likeness is in single precision
    np.testing.assert_allclose(person.spread_weights, weights, rtol=1e-5)
    np.testing.assert_allclose(person.place, place, rtol=1e-6)
    assert (len(person.trait_weights), len(person.factors), len(person.place)) == (shape[1], shape[0], shape[2])


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_what_the_coordinates_say(seed: int) -> None:
    model = make_items(seed=seed)
    assert model.pattern is not None
    rated, ratings = make_ratings(seed=seed)
    person, embedded = fit_person(model, rated, ratings), model.pattern.traits[:, 2:].astype(float)
    for item, found in enumerate(scores_of(model, person)):
        pulled = sum(
            alike(embedded[item], embedded[other]) * pull
            for other, pull in zip(person.rated, person.pulls, strict=True)
        )
        linear = model.pattern.traits[item] @ person.trait_weights + model.factors[item] @ person.factors
        known = model.mean + model.offsets[item] + model.pattern.responses[item] @ person.place
        assert found == pytest.approx(known + person.offset + linear + pulled, abs=1e-5)


def test_of_many_ratings_those_of_popular_items_speak_of_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.device.equations.MOST_LANDMARKS", 5)
    model = make_items()
    rated, ratings = make_ratings()
    person = fit_person(model, rated, ratings)
    expected, weights, _ = oracle(model, rated, ratings, landmarks=5)
    assert len(person.pulls) == 5
    np.testing.assert_allclose(coordinates(person), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(person.spread_weights, weights, rtol=1e-5)


def test_a_rating_speaks_most_of_items_rated_by_the_same_people() -> None:
    """Three items are told from the others by likeness alone, and one of them is like the rated one."""
    model = make_items(items=3, rank=0, traits=5, places=0)
    assert model.pattern is not None
    embedded = np.array([[1, 0, 0], [0.9, 0.1, 0], [0, 1, 0]], np.float32)
    traits = np.hstack([np.zeros((3, 2), np.float32), embedded])
    model = replace(model, offsets=np.zeros(3, np.float32), pattern=replace(model.pattern, traits=traits))
    for rating, sign in ((5.0, 1), (1.0, -1)):
        person = fit_person(model, np.array([0]), np.array([rating]))
        by_likeness = replace(person, offset=0.0, trait_weights=0 * person.trait_weights)
        moved = sign * (scores_of(model, by_likeness) - model.mean)
        assert moved[0] > moved[1] > 10 * abs(moved[2])
        assert moved[0] > 0.05


def test_neighbours_that_single_precision_could_not_factor_are_ranked_by() -> None:
    """Rounded to one side, likeness among many nearly equal items can have an eigenvalue below -0.001."""
    step = np.sqrt(0.5 * 2.0**-24)
    traits = np.full((80, 512), step, np.float32)
    traits[1::2] = step * 127 / 125
    traits[:, :2], traits[:, 2] = 0, 1
    one = np.ones(80, np.float32)
    pattern = ItemPattern(traits, np.ones(512, np.float32), np.zeros((80, 0), np.float32), one, one[:0].copy())
    model = make_items(80, 0, pattern=pattern)
    person = fit_person(model, np.arange(80), np.tile([1.0, 5.0], 40))
    assert np.isfinite(scores_of(model, person)).all()


def test_memory_stays_far_below_the_likeness_of_all_items() -> None:
    model = make_items(60_000, 0, 3, 0)
    rated, ratings = make_ratings(60_000, 300)
    person = fit_person(model, rated, ratings)
    tracemalloc.start()
    try:
        scores_of(model, person)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 60_000 * MOST_LANDMARKS * 4 / 4


@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(1, 6))
def test_landmark_columns_have_likeness_as_their_products(seed: int, count: int, width: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(count, width))
    rows[-1] = rows[0]  # the same people rated both
    directions = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    found = likeness(directions, directions)
    assert ((found >= 0) & (found <= 1 + 1e-5)).all()
    landmarks = Landmarks.of(directions)
    columns = landmarks.columns(directions)
    np.testing.assert_allclose(columns @ columns.T, found, atol=5e-3)
    weights = np.random.default_rng(seed).normal(size=count)
    np.testing.assert_allclose(columns @ weights, found @ landmarks.pulls(weights), atol=1e-3)


def test_without_uncertainty_and_pattern_it_is_plain_ridge() -> None:
    none = np.zeros((30, 2), np.float32)
    beliefs = Beliefs(0.9, 0.2, np.array([0.3, 0.4], np.float32), none[:, 0].copy(), none)
    model = make_items(beliefs=beliefs, pattern=None)
    rated, ratings = make_ratings()
    design = np.column_stack([np.ones(len(rated)), model.factors[rated]]).astype(float)
    target = ratings - 3.4 - model.offsets[rated]
    ridge = 0.9 / np.r_[0.2, beliefs.factor_variances.astype(float)]
    expected = np.linalg.solve(design.T @ design + np.diag(ridge), design.T @ target)
    person = fit_person(model, rated, ratings)
    np.testing.assert_allclose(coordinates(person), expected, rtol=1e-6)
    assert person.spread_weights.tolist() == [1]


@pytest.mark.parametrize("level", [0.0, 3.0])
def test_without_beliefs_there_is_a_default_prior(level: float) -> None:
    factors = make_items().factors.copy()
    factors[:, 1] = 0
    model = ItemModel(STARS, Vocabulary.of(range(30)), level, np.zeros(30, np.float32), factors)
    rated, ratings = make_ratings()
    person = fit_person(model, rated, ratings)
    size = 2 * np.median(factors[:, 0].astype(float) ** 2)
    among_ratings = 0.15 * (0.3 * 4) ** 2
    variances = [among_ratings, among_ratings / size] if level else [25 / size]
    design = np.column_stack([np.ones(len(rated)), factors[rated, 0]])[:, 0 if level else 1 :].astype(float)
    ridge = (0.24 * 4) ** 2 / np.array(variances)
    expected = np.linalg.solve(design.T @ design + np.diag(ridge), design.T @ (ratings - level))
    np.testing.assert_allclose(person.factors, [expected[-1], 0], rtol=1e-6)
    np.testing.assert_allclose(person.offset, expected[0] if level else 0, rtol=1e-6)
    assert (person.offset == 0) == (level == 0)
    effects = effects_on(person, 3)
    np.testing.assert_allclose(effects.sum(), scores_of(model, person)[3] - level, rtol=1e-4)


def test_models_without_factors_or_with_empty_ones_are_ranked_by() -> None:
    words, none = Vocabulary.of(range(3)), np.zeros(3, np.float32)
    for model in (
        ItemModel(STARS, words, 3.0, none, np.zeros((3, 0), np.float32)),
        ItemModel(STARS, words, 0.0, none, np.zeros((3, 0), np.float32)),
        ItemModel(STARS, words, 0.0, none, np.zeros((3, 2), np.float32)),
    ):
        person = fit_person(model, np.array([0]), np.array([5.0]))
        assert np.isfinite(coordinates(person)).all()
        assert (person.offset > 0) == (model.mean > 0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_the_order_of_ratings_does_not_matter(seed: int, count: int) -> None:
    model = make_items(seed=seed)
    rated, ratings = make_ratings(count=count, seed=seed)
    order = np.random.default_rng(seed).permutation(count)
    one, other = fit_person(model, rated, ratings), fit_person(model, rated[order], ratings[order])
    assert coordinates(one).tobytes() == coordinates(other).tobytes()
    assert one.rated.tolist() == other.rated.tolist() == sorted(rated)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_effects_add_up_to_what_the_ratings_did(seed: int, count: int) -> None:
    model = make_items(seed=seed)
    rated, ratings = make_ratings(count=count, seed=seed)
    person = fit_person(model, rated, ratings)
    silent = {name: 0 * getattr(person, name) for name in ("offset", "trait_weights", "pulls", "factors")}
    nobody = replace(person, **silent)
    moved = scores_of(model, person) - scores_of(model, nobody)
    for item in (0, 7, int(rated[0])):
        np.testing.assert_allclose(effects_on(person, item).sum(), moved[item], atol=1e-5)


@given(st.integers(0, 2**32 - 1))
def test_a_rating_of_an_uncertain_item_says_less(seed: int) -> None:
    """An uncertain offset makes the rating say less of everything, uncertain factors less of the person's factors."""
    plain = make_items(rank=1, traits=2, places=0, seed=seed)
    assert plain.beliefs is not None
    none = np.zeros(30, np.float32)
    by_offset, by_factor = [], []
    for unsure in (0, 1, 10):
        some = np.full(30, unsure, np.float32)
        for offsets, factors, moved in ((some, none, by_offset), (none, some, by_factor)):
            beliefs = replace(plain.beliefs, item_offset_variances=offsets, item_factor_variances=factors[:, None])
            person = fit_person(replace(plain, beliefs=beliefs, pattern=None), np.array([4]), np.array([5.0]))
            moved.append((abs(person.offset), abs(person.factors[0])))
    assert by_offset[0][0] > by_offset[1][0] > by_offset[2][0]
    assert by_offset[0][1] > by_offset[1][1] > by_offset[2][1]
    assert by_factor[0][1] > by_factor[1][1] > by_factor[2][1]


def test_somebody_who_differs_much_is_believed_to() -> None:
    model = make_items(items=200, traits=3, places=0)
    assert model.pattern is not None
    rated = np.arange(200)
    for size, spread in ((0.01, 0), (12.0, len(SPREADS) - 1)):
        ratings = 3.4 + model.offsets + size * model.pattern.traits[:, 2]
        person = fit_person(model, rated, ratings.astype(np.float64))
        assert np.argmax(person.spread_weights) == spread


@pytest.mark.parametrize(
    ("rated", "ratings", "complaint"),
    [
        ([0, 1], [1.0], "no pairs"),
        ([[0]], [[1.0]], "no pairs"),
        ([3, 3], [1.0, 2.0], "there twice"),
        ([-1], [1.0], "not all among the 30"),
        ([30], [1.0], "not all among the 30"),
        ([3], [np.nan], "not a finite number"),
        ([3], [1e300], "not a finite number"),
    ],
)
def test_what_is_no_history_is_refused(rated: Any, ratings: Any, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        fit_person(make_items(), np.array(rated), np.array(ratings))


def test_a_model_of_extreme_numbers_ends_in_a_ranking_or_one_error() -> None:
    for size, variance in ((1e15, 1e-30), (1e15, 1e15), (1e-40, 1e-30), (1e-40, 1e15)):
        ones, wide = np.full((30, 3), size, np.float32), np.full((30, 3), variance, np.float32)
        pattern = ItemPattern(
            ones, wide[0].copy(), ones[:, :1].copy(), np.maximum(ones[:, 0], 1e-29), ones[0, :1].copy()
        )
        beliefs = Beliefs(variance, variance, wide[0].copy(), wide[:, 0].copy(), wide)
        model = make_items(factors=ones, beliefs=beliefs, pattern=pattern)
        try:
            ranking = rank_items(model, {"film 1": 5, "film 2": 1})
            assert np.isfinite(ranking.scores).all()
            assert all(1 <= found.score <= 5 for found in ranking.recommend(30))
        except ModelError as error:
            assert "ratings" in str(error)  # noqa: PT017 - either way is right


def test_a_ranking_is_by_score_and_says_why() -> None:
    model = make_items()
    own = {"film 3": 5, "film 8": 1, "film 21": 4, "nowhere": 2}
    ranking = rank_items(model, own)
    assert (ranking.unknown, ranking.fallback) == (1, False)
    person = fit_person(model, np.array([3, 8, 21]), np.array([5.0, 1.0, 4.0]))
    np.testing.assert_array_equal(ranking.scores, scores_of(model, person))
    found = ranking.recommend(40)
    assert len(found) == 27
    assert [best.rank for best in found] == list(range(1, 28))
    assert not {best.item for best in found} & set(own)
    scores = [best.score for best in found]
    assert scores == sorted(scores, reverse=True)
    assert all(1 <= score <= 5 for score in scores)
    assert len(ranking.recommend(40, exclude_rated=False)) == 30
    assert ranking.predictions().max() <= 5

    reasons = ranking.explain(found[0].item, 2)
    assert len(reasons) == 2
    assert [abs(reason.effect) for reason in reasons] == sorted((abs(r.effect) for r in reasons), reverse=True)
    assert all(own[str(reason.item)] == reason.rating for reason in reasons)
    everything = ranking.explain("film 0", 99)
    assert sorted(str(reason.item) for reason in everything) == ["film 21", "film 3", "film 8"]
    np.testing.assert_allclose(sum(reason.effect for reason in everything), effects_on(person, 0).sum())
    with pytest.raises(ModelError, match="'nowhere' is unknown"):
        ranking.explain("nowhere")
    with pytest.raises(ModelError, match="a list of 0 items is empty"):
        ranking.recommend(0)


def test_a_list_weighs_what_a_person_would_like_by_what_they_would_rate() -> None:
    model = make_items()
    assert model.pattern is not None
    ranking = rank_items(model, {"film 3": 5, "film 8": 1, "film 21": 4})
    chances = model.pattern.chances_of(np.array([3, 8, 21]))
    expected = 1 + chances * (ranking.predictions() - 1)
    listed, rated = ranking.recommend(30), ranking.recommend(30, by_rating=True)
    assert [found.item for found in listed] != [found.item for found in rated]
    for found in listed:
        index = model.items.index_of(found.item)
        assert index is not None
        assert found.score == pytest.approx(expected[index])
        assert found.rating == ranking.predictions()[index]
    assert [found.score for found in rated] == sorted((found.rating for found in listed), reverse=True)
    assert all(found.score == found.rating for found in rated)

    plain = rank_items(replace(model, pattern=None), {"film 3": 5, "film 8": 1})
    assert plain.recommend(30) == plain.recommend(30, by_rating=True)


def test_predictions_beyond_the_scale_are_listed_in_their_order() -> None:
    offsets = np.array([0, 1, 3, 2, -7, -6], np.float32)
    model = ItemModel(STARS, Vocabulary.of(range(6)), 4.0, offsets, np.zeros((6, 0), np.float32))
    found = rank_items(model, {}).recommend()
    assert [(best.item, best.score) for best in found] == [(2, 5), (3, 5), (1, 5), (0, 4), (5, 1), (4, 1)]


def test_ids_match_by_their_text_and_ties_go_to_the_more_popular() -> None:
    words, none = Vocabulary.of([30, 10, 20]), np.zeros(3, np.float32)
    model = ItemModel(STARS, words, 9.0, none, np.zeros((3, 1), np.float32))
    for own in ({10: 5}, {"10": 5}):
        found = rank_items(model, own).recommend()
        assert [(best.item, best.score) for best in found] == [(30, 5.0), (20, 5.0)]


def test_with_nothing_to_go_by_the_order_is_everybodys() -> None:
    model = make_items()
    for own in ({}, {"nowhere": 3}):
        ranking = rank_items(model, own)
        assert ranking.fallback
        np.testing.assert_allclose(ranking.scores, 3.4 + model.offsets, rtol=1e-6)
        assert ranking.recommend(1, by_rating=True)[0].item == f"film {np.argmax(model.offsets)}"
        assert ranking.explain("film 1") == []


@pytest.mark.parametrize("own", [{"film 1": 9}, {"film 1": 2.5}, {"film 1": float("nan")}, {"": 3}])
def test_ratings_off_the_scale_are_refused(own: Any) -> None:
    with pytest.raises(InvalidInputError):
        rank_items(make_items(), own)


def test_a_device_ranks_by_what_it_remembers(tmp_path: Path, policy: Policy) -> None:
    model = make_items()
    with Device(tmp_path / "ledger", lifetime_epsilon=10) as device:
        assert device.rank_items(model).fallback
        device.consent(policy)
        device.rate("film 3", 5)
        device.rate("film 8", 2)
        device.rate("film 8", 1, change=True)
        device.withdraw()
        before = (tmp_path / "ledger").read_bytes()
        ranking = device.rank_items(model)
        np.testing.assert_array_equal(ranking.scores, rank_items(model, {"film 3": 5, "film 8": 1}).scores)
        assert (tmp_path / "ledger").read_bytes() == before
        with pytest.raises(
            DeviceError, match="learned from ratings on the scale 1:9:1, but this device rates on 1:5:1"
        ):
            device.rank_items(replace(model, scale=RatingScale.parse("1:9:1")))


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_own_ratings_are_read_with_or_without_a_user(tmp_path: Path) -> None:
    for text in ("rating,item\n5,b\n1,7\n", "user,item,rating\nx,b,5\nx,7,1\n"):
        assert read_own_ratings(write(tmp_path / "my.csv", text), STARS) == {"b": 5.0, "7": 1.0}
    assert read_own_ratings(write(tmp_path / "my.csv", "item,rating\n7,3.4\n"), STARS, rounding=True) == {"7": 3.0}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("user,item,rating\nx,b,5\ny,7,1\n", "ratings of 2 users, 'x' and 'y' among them; keep those of one"),
        ("item,rating\nb,5\na,3\nb,4\n", "rows 1 and 3 both rate item 'b'; keep one"),
        ("item,rating\nb,2.5\n", "between two steps"),
        ("item,rating\nb,6\n", "outside the scale"),
        ("item,rating\nb,good\n", "is not a number"),
        ("item,rating\n", "no rows"),
        ("item\nb\n", "no column 'rating'"),
    ],
)
def test_files_that_are_not_one_persons_ratings_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(TableError, match=complaint):
        read_own_ratings(write(tmp_path / "my.csv", text), STARS)


def test_a_device_ranks_without_any_of_learning() -> None:
    code = "import tacit.device, sys; print([name for name in sys.modules if name.startswith('tacit.learning')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_factors_that_a_ridge_has_all_but_removed_are_no_damage() -> None:
    factors = np.full((3, 2), 1e-23, dtype=np.float32)
    items = ItemModel(STARS, Vocabulary.of(["a", "b", "c"]), 3.0, np.zeros(3, dtype=np.float32), factors)
    person = fit_person(items, np.array([0, 1]), np.array([5.0, 4.0]))
    assert np.abs(person.factors @ factors[2]) < 1e-6
    assert person.offset > 0


def test_nothing_printed_tells_a_rating() -> None:
    """With a public model and one rating, an effect would tell which of five it was."""
    ranking = rank_items(make_items(), {"film 3": 5})
    reason = ranking.explain("film 0", 1)[0]
    assert repr(reason) == "Reason(item='film 3')"
    assert "5.0" not in repr(ranking)
    assert repr(ranking.person).startswith("<tacit.device.personal.Person object")


def test_people_solved_for_at_once_leave_the_number_of_threads_as_it_was() -> None:
    def threads() -> list[int]:
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    with one_thread():
        pass  # all libraries are loaded now
    before, inside, together = threads(), [], Barrier(2)

    def lower() -> None:
        together.wait()
        for _ in range(50):
            with one_thread():
                inside.append(threads())

    others = [Thread(target=lower) for _ in range(2)]
    for one in others:
        one.start()
    for one in others:
        one.join()
    assert all(set(found) == {1} for found in inside)
    assert threads() == before
