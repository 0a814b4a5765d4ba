"""A fold is honest: what is learned from is perturbed, what is held out is not seen, and every model copes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import InvalidInputError, MechanismError, ModelError, TableError
from tacit.evaluation.fold import FoldResult, run_fold, scores_of, simulated_reports
from tacit.evaluation.metrics import default_threshold
from tacit.evaluation.pg_mf import PgMfOptions
from tacit.evaluation.ratings import RatingData, rating_data, read_rating_data
from tacit.evaluation.setting import DEVICE, STUDIED_MECHANISMS, STUDIED_MODELS, Setting, grid
from tacit.evaluation.splits import folds_of
from tacit.learning import (
    MODELS,
    ChannelMfOptions,
    GlobalMeanOptions,
    MfAlsOptions,
    MogMfOptions,
    OffsetsOptions,
    Options,
    fit,
)
from tacit.privacy.scale import RatingScale
from tacit.tables import column_of, write_columns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

STARS = RatingScale.parse("1:5:1")
SCALES = [STARS, RatingScale.parse("-10:10:0.25"), RatingScale.parse("0:1:1")]
NONE = Setting("none", None, OffsetsOptions(), folds=4)
NOISY = Setting("bounded-laplace", "1", OffsetsOptions(), folds=4)

UNHEARD_OF = ("laplace", "channel-mf")  # unbounded noise has no channel to read reports through

Triples = list[tuple[Any, Any, float]]


def data_of(triples: Triples, scale: RatingScale = STARS, *, rounding: bool = False) -> RatingData:
    users, items, ratings = (np.array(column) for column in zip(*triples, strict=True))
    ids = column_of(users, "user").ids(), column_of(items, "item").ids()
    return rating_data("a test", scale, *ids, ratings.astype(np.float64), sha256="0" * 64, rounding=rounding)


def random_triples(people: int = 20, catalogue: int = 12, seed: int = 3) -> Triples:
    """Make ratings of people who like every second item, odd people the odd ones."""
    rng = np.random.default_rng(seed)
    return [
        (user, item, float(rng.integers(4, 6) if (user + item) % 2 else rng.integers(1, 4)))
        for user in range(people)
        for item in np.sort(rng.choice(catalogue, 7, replace=False)).tolist()
    ]


def write(path: Path, triples: Triples) -> Path:
    lines = [f"{user},{item},{rating:g}" for user, item, rating in triples]
    path.write_text("\n".join(["user,item,rating", *lines, ""]), encoding="utf-8")
    return path


def figures(result: FoldResult) -> dict[str, Any]:
    return result.to_document() | {"fit_seconds": 0}


def fold(data: RatingData, setting: Setting, number: int = 0) -> FoldResult:
    return run_fold(data, setting, number, threshold=default_threshold(data.scale))


def kept_in(data: RatingData, setting: Setting, number: int = 0) -> NDArray[np.bool_]:
    return folds_of(len(data), setting.folds, setting.seed) != number


def setting_of(options: Options, mechanism: str = "bounded-laplace", epsilon: str = "1", folds: int = 4) -> Setting:
    return next(grid([mechanism], [epsilon], [options], folds=folds))


# Splits.


@given(st.integers(2, 500), st.integers(2, 500), st.integers(0, 2**63 - 1))
def test_every_rating_is_held_out_once_in_folds_of_one_size(ratings: int, folds: int, seed: int) -> None:
    if ratings < folds:
        with pytest.raises(InvalidInputError, match=f"{ratings} ratings are too few for {folds} folds; choose fewer"):
            folds_of(ratings, folds, seed)
        return
    held = folds_of(ratings, folds, seed)
    assert len(held) == ratings
    sizes = np.bincount(held, minlength=folds)
    assert len(sizes) == folds
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(held, folds_of(ratings, folds, seed))


def test_another_seed_deals_otherwise() -> None:
    dealt = {folds_of(200, 10, seed).tobytes() for seed in range(50)}
    assert len(dealt) == 50
    alike = np.mean(folds_of(10_000, 10, 0) == folds_of(10_000, 10, 1))
    assert alike == pytest.approx(0.1, abs=0.02)


# Data.


def test_a_compressed_file_is_read_like_a_plain_one(tmp_path: Path) -> None:
    columns = {"user": [7, 10, 7], "item": ["b", "a", "a"], "rating": [1.0, 5.0, 3.0]}
    for name in ("plain.csv", "small.csv.gz"):
        write_columns(tmp_path / name, columns, {})
    plain, small = (read_rating_data(tmp_path / name, STARS) for name in ("plain.csv", "small.csv.gz"))
    assert (tmp_path / "small.csv.gz").read_bytes().startswith(b"\x1f\x8b")
    assert plain.users.distinct.tolist() == small.users.distinct.tolist() == [7, 10]  # numbers, not text
    assert plain.ratings.tolist() == small.ratings.tolist() == [3.0, 1.0, 5.0]


def test_the_order_of_rows_changes_nothing(tmp_path: Path) -> None:
    triples = random_triples()
    shuffled = [triples[row] for row in np.random.default_rng(1).permutation(len(triples))]
    one, other = (
        read_rating_data(write(tmp_path / f"{name}.csv", rows), STARS)
        for name, rows in (("one", triples), ("other", shuffled))
    )
    assert one.sha256 != other.sha256
    for options in (MogMfOptions(rank=2, iterations=5), MfAlsOptions(rank=2, offsets=True), PgMfOptions()):
        for mechanism in ("bounded-laplace", "laplace", "none"):
            setting = setting_of(options, mechanism)
            assert figures(fold(one, setting)) == figures(fold(other, setting))


def test_ids_are_numbers_or_text(tmp_path: Path) -> None:
    numbers = [(10 * user, item - 5, rating) for user, item, rating in random_triples()]
    texts = [(f"u{user:02}", f"a film, the {item:02}th", rating) for user, item, rating in random_triples()]
    named = data_of(texts)
    assert named.users.distinct[2] == "u02"
    assert read_rating_data(write(tmp_path / "numbers.csv", numbers), STARS).users.distinct.tolist() == [
        10 * user for user in range(20)
    ]
    found = [figures(fold(data, NOISY)) for data in (data_of(numbers), named, data_of(random_triples()))]
    assert found[0] == found[1] == found[2]


def test_a_pair_rated_twice_is_refused_with_both_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "twice.csv", [(1, "a", 3.0), (2, "a", 4.0), (1, "b", 5.0), (1, "a", 3.0)])
    with pytest.raises(TableError, match=r"twice.csv rows 1 and 4 both rate item a for user 1; keep one"):
        read_rating_data(path, STARS)


def test_a_rating_off_the_grid_needs_rounding() -> None:
    triples = [(user, item, 3.2) for user in range(4) for item in range(4)]
    with pytest.raises(TableError, match=r"3\.2"):
        data_of(triples)
    with pytest.raises(TableError, match=r"5\.7"):
        data_of([(1, 1, 5.7), (1, 2, 3.0)], rounding=True)
    data = data_of(triples, rounding=True)
    assert set(data.ranks.tolist()) == {2}
    assert set(data.ratings.tolist()) == {3.2}


def test_errors_are_against_the_truth_and_not_what_it_was_rounded_to() -> None:
    exact = [(user, item, float(2 + (user + item) % 3)) for user in range(6) for item in range(6)]
    blurred = [(user, item, rating + 0.25) for user, item, rating in exact]
    data, rounded = data_of(blurred, rounding=True), data_of(exact)
    setting = replace(NOISY, options=GlobalMeanOptions())
    kept = kept_in(data, setting)
    matrix = simulated_reports(data, kept, setting, 0)
    assert matrix.checksum == simulated_reports(rounded, kept, setting, 0).checksum
    found, errors = fold(data, setting).metrics, matrix.mean - data.ratings[~kept]
    assert found.rmse == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-6)
    assert found.mae == pytest.approx(np.mean(np.abs(errors)), rel=1e-6)


# What is perturbed, and what is not.


def ridge_predictions(data: RatingData, kept: NDArray[np.bool_], ridge: float) -> NDArray[np.float64]:
    """Solve for a free mean and offsets with a ridge at once, and predict everything."""
    people, catalogue = data.shape
    design = np.zeros((len(data), 1 + people + catalogue))
    rows = np.arange(len(data))
    design[:, 0] = design[rows, 1 + data.users.codes] = design[rows, 1 + people + data.items.codes] = 1
    penalty = ridge * np.diag([0.0] + [1.0] * (people + catalogue))
    learned = design[kept]
    weights = np.linalg.solve(learned.T @ learned + penalty, learned.T @ data.ratings[kept])
    return np.asarray(np.clip(design @ weights, 1, 5))


def test_errors_without_noise_are_those_computed_by_hand() -> None:
    data = data_of(random_triples())
    for number in range(4):
        kept = kept_in(data, NONE, number)
        found = fold(data, NONE, number)
        errors = (ridge_predictions(data, kept, 5.0) - data.ratings)[~kept]
        assert found.metrics.rmse == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-4)
        assert found.metrics.mae == pytest.approx(np.mean(np.abs(errors)), rel=1e-4)
        assert (found.n_train, found.n_test) == (105, 35)

        flat = fold(data, replace(NONE, options=GlobalMeanOptions()), number).metrics.rmse
        assert flat == pytest.approx(np.sqrt(np.mean((data.ratings[kept].mean() - data.ratings[~kept]) ** 2)))


@pytest.mark.parametrize("mechanism", STUDIED_MECHANISMS)
def test_reports_are_of_the_ratings_kept_and_no_others(mechanism: str) -> None:
    data = data_of(random_triples())
    setting = setting_of(OffsetsOptions(), mechanism)
    kept = kept_in(data, setting, 2)
    matrix = simulated_reports(data, kept, setting, 2)
    users = np.repeat(np.asarray(matrix.users.ids), matrix.by_user.counts())
    items = np.asarray(matrix.items.ids)[matrix.by_user.columns]
    expected = zip(data.users.codes[kept].tolist(), data.items.codes[kept].tolist(), strict=True)
    assert sorted(zip(users.tolist(), items.tolist(), strict=True)) == sorted(expected)

    ratings, ranks = data.ratings.copy(), data.ranks.copy()
    ratings[~kept], ranks[~kept] = 6 - ratings[~kept], 4 - ranks[~kept]
    other = replace(data, ratings=ratings, ranks=ranks)
    assert simulated_reports(other, kept, setting, 2).checksum == matrix.checksum
    true = dict(zip(zip(data.users.codes.tolist(), data.items.codes.tolist(), strict=True), data.ratings, strict=True))
    said = matrix.values_of(matrix.by_user)
    same = np.mean([value == true[pair] for pair, value in zip(zip(users, items, strict=True), said, strict=True)])
    assert same == 1 if mechanism == "none" else same < 1


@pytest.mark.parametrize("mechanism", [*STUDIED_MECHANISMS, "pg-mf"])
def test_held_out_ratings_are_compared_as_they_are(mechanism: str) -> None:
    """A held-out rating that changes moves the error, and no prediction."""
    data = data_of(random_triples())
    setting = setting_of(PgMfOptions() if mechanism == "pg-mf" else MfAlsOptions(rank=2), mechanism)
    kept = kept_in(data, setting)
    one = int(np.flatnonzero(~kept)[0])
    squares = []
    for rating in (1.0, 3.0, 5.0):
        ratings, ranks = data.ratings.copy(), data.ranks.copy()
        ratings[one], ranks[one] = rating, int(rating) - 1
        found = fold(replace(data, ratings=ratings, ranks=ranks), setting)
        squares.append(found.metrics.rmse**2 * found.n_test)
    # (p - 1)^2 - 2 (p - 3)^2 + (p - 5)^2 = 8 whatever the prediction p is.
    assert squares[0] - 2 * squares[1] + squares[2] == pytest.approx(8, abs=1e-6)


def test_models_are_compared_on_the_same_reports() -> None:
    data = data_of(random_triples())
    kept = kept_in(data, NOISY)

    def reports(number: int = 0, **changes: Any) -> str:
        return simulated_reports(data, kept, replace(NOISY, **changes), number).checksum

    for kind in MODELS.values():
        assert reports(options=kind()) == reports()
    changed = [
        reports(1),
        reports(seed=1),
        reports(epsilon="1.5"),
        reports(mechanism="randomized-response"),
        reports(mechanism="laplace"),
        reports(mechanism="none", epsilon=None),
    ]
    assert len({reports(), *changed}) == 7


@pytest.mark.parametrize(
    ("mechanism", "name"),
    [
        (mechanism, name)
        for mechanism in ("bounded-laplace", "laplace", "none")
        for name in MODELS
        if (mechanism, name) != UNHEARD_OF
    ],
)
def test_scores_are_those_of_the_model_for_everybody(mechanism: str, name: str) -> None:
    triples = [(2 * user, 2 * item + 1, rating) for user, item, rating in random_triples()]
    data = data_of(triples)
    chosen = data.ratings >= 2
    unseen_users, unseen_items = data.users.codes == 3, data.items.codes == 0
    kept = chosen & ~unseen_users & ~unseen_items
    setting = setting_of(MODELS[name](), mechanism)
    matrix = simulated_reports(data, kept, setting, 0)
    model = fit(matrix, setting.options, np.random.default_rng(1), seed=1, threads=1)
    shape = data.shape[0] + 2, data.shape[1] + 1  # and some whom nobody has heard of
    scores = scores_of(model, shape)
    users, items = (codes.ravel() for codes in np.indices(shape))
    predicted = model.predict(users, items)
    known = ~np.isin(users, [3, 20, 21]) & ~np.isin(items, [0, 12])
    assert np.array_equal(predicted.fallback, ~known)
    found = np.clip(scores.of_pairs(users.astype(np.int32), items.astype(np.int32)), 1, 5)
    assert found == pytest.approx(predicted.ratings, abs=1e-4)


# Unkind data.

UNKIND: dict[str, Triples] = {
    "two ratings": [(1, 1, 1.0), (2, 2, 5.0)],
    "one user": [(1, item, float(1 + item % 5)) for item in range(6)],
    "one item": [(user, 1, float(1 + user % 5)) for user in range(6)],
    "one value": [(user, item, 4.0) for user in range(4) for item in range(4)],
    "the lowest value": [(user, item, 1.0) for user in range(4) for item in range(4)],
    "everybody once": [(user, user, float(1 + user % 5)) for user in range(8)],
    "a newcomer and a novelty": [*random_triples(4, 7), ("new", 1, 5.0), (1, "new", 1.0)],
}


@pytest.mark.parametrize("name", STUDIED_MODELS)
@pytest.mark.parametrize("case", UNKIND)
def test_unkind_data_give_figures_or_one_clear_line(case: str, name: str) -> None:
    data = data_of([(str(user), str(item), rating) for user, item, rating in UNKIND[case]])
    kind = STUDIED_MODELS[name]
    options = kind(**{"rank": 1} if hasattr(kind, "rank") else {})
    for mechanism in ("bounded-laplace", "none"):
        setting = setting_of(options, mechanism, folds=2)
        for number in range(2):
            check_figures(fold(data, setting, number), data)
    if name == "svd" and min(data.shape) < 3:
        with pytest.raises(ModelError, match=r"^rank is 3, too much for an SVD; .* at most$"):
            fold(data, setting_of(kind(), folds=2))


def check_figures(result: FoldResult, data: RatingData) -> None:
    found = result.to_document()
    assert all(math.isfinite(value) for value in found.values() if value is not None)
    assert all(0 <= found[name] <= 1 + 1e-12 for name in found if name.startswith(("ndcg", "f_", "prec", "recall")))
    assert 0 <= result.metrics.mae <= result.metrics.rmse + 1e-9 <= float(data.scale.width) + 1e-6
    assert result.n_train + result.n_test == len(data)
    assert FoldResult.from_document(found) == result


@st.composite
def tiny_studies(draw: st.DrawFn) -> tuple[RatingData, Setting, int]:
    scale = draw(st.sampled_from(SCALES))
    ranks = draw(
        st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.integers(0, scale.size - 1), min_size=2)
    )
    triples = [(user, item, float(scale.low + rank * scale.step)) for (user, item), rank in ranks.items()]
    folds = draw(st.integers(2, min(4, len(triples))))
    name = draw(st.sampled_from(list(STUDIED_MODELS)))
    kind = STUDIED_MODELS[name]
    options = kind(**{"rank": draw(st.integers(1, 5))} if hasattr(kind, "rank") else {})
    mechanism = draw(st.sampled_from(STUDIED_MECHANISMS).filter(lambda mechanism: (mechanism, name) != UNHEARD_OF))
    setting = setting_of(options, mechanism, draw(st.sampled_from(["0.001", "1", "20"])), folds)
    return data_of(triples, scale), setting, draw(st.integers(0, folds - 1))


@given(tiny_studies())
def test_tiny_data_give_figures_or_one_clear_line(study: tuple[RatingData, Setting, int]) -> None:
    data, setting, number = study
    kept = kept_in(data, setting, number)
    room = min(len(np.unique(codes[kept])) for codes in (data.users.codes, data.items.codes))
    if setting.model == "svd" and (setting.rank or 0) > room:
        with pytest.raises(ModelError, match=f"too much for an SVD; .* allow {room} at most"):
            fold(data, setting, number)
        return
    found = fold(data, setting, number)
    check_figures(found, data)
    assert figures(fold(data, setting, number)) == figures(found)


# Settings.


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mechanism": "gauss"}, "mechanism 'gauss' is not one of bounded-laplace, "),
        ({"mechanism": "pg-mf"}, "mechanism 'pg-mf' is not one of bounded-laplace, "),
        ({"options": PgMfOptions()}, "mechanism 'bounded-laplace' is not one of pg-mf"),
        ({"at": "cloud"}, "offsets predicts at the provider or device, not at 'cloud'"),
        ({"at": DEVICE}, "offsets has no item factors for a device to rank with; choose provider"),
        ({"options": ChannelMfOptions(), "mechanism": "laplace"}, "channel-mf reads reports through their"),
        ({"epsilon": None}, "epsilon None does not go with 'bounded-laplace'"),
        ({"mechanism": "none"}, "epsilon 1 does not go with 'none'"),
        ({"epsilon": "1.0"}, "epsilon '1.0' is not in its plain form"),
        ({"epsilon": "0"}, "epsilon 0 is not a number from"),
        ({"seed": -1}, "seed -1 is negative; choose 0 or more"),
        ({"folds": 1}, "1 folds leave nothing to learn from; choose at least 2"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        replace(NOISY, **changes)
    assert str(refused.value).startswith(said)


def test_a_grid_has_what_goes_together_once() -> None:
    def names(mechanisms: Sequence[str], models: Sequence[Options]) -> list[tuple[str, str | None, str, str]]:
        found = grid(mechanisms, ["0.5", "1"], models, seed=7, folds=3)
        return [(one.mechanism, one.epsilon, one.model, one.at) for one in found]

    assert names(["none", "duchi"], [OffsetsOptions(), PgMfOptions(), GlobalMeanOptions()]) == [
        ("none", None, "offsets", "provider"),
        ("none", None, "global-mean", "provider"),
        ("duchi", "0.5", "offsets", "provider"),
        ("duchi", "0.5", "global-mean", "provider"),
        ("duchi", "1", "offsets", "provider"),
        ("duchi", "1", "global-mean", "provider"),
        ("pg-mf", "0.5", "pg-mf", "device"),
        ("pg-mf", "1", "pg-mf", "device"),
    ]
    with pytest.raises(MechanismError, match="'gauss'"):  # even where no model would use it
        names(["gauss"], [PgMfOptions()])
