"""`channel-mf` against the exact posterior of its linear part, and where there is little to learn from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tacit.errors import ModelError
from tacit.evaluation.world import WorldShape, make_world
from tacit.learning import ChannelMfOptions, Model, ReportMatrix, fit
from tacit.learning.calibrated import calibrated
from tacit.learning.checkpoint import FILE
from tacit.learning.deconvolution import fit_prior
from tacit.learning.local_engine import LocalEngine
from tacit.learning.pattern import embed_pattern, no_pattern
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

STARS = RatingScale.parse("1:5:1")
SMALL = WorldShape(150, 100, 3500)
LINEAR = ChannelMfOptions(rank=0, tune=False, tolerance=0.0, iterations=150)


def fitted(matrix: ReportMatrix, options: ChannelMfOptions, seed: int = 3, **conduct: Any) -> Model:
    return fit(matrix, options, np.random.default_rng(seed), seed=seed, **conduct)


def perturbed(users: Any, items: Any, ranks: Any, epsilons: list[str], seed: int = 0, **catalogue: Any) -> ReportMatrix:
    """Reports, dealt out to the policies at random."""
    rng = np.random.default_rng(seed)
    turn = rng.integers(0, len(epsilons), len(users))
    parts = []
    for number, epsilon in enumerate(epsilons):
        policy, own = Policy.make("bounded-laplace", STARS, epsilon), turn == number
        words = rng.integers(0, 2**64, int(own.sum()), dtype=np.uint64)
        parts.append((users[own], items[own], policy.channel.draw(ranks[own], words), policy))
    return ReportMatrix.of_parts([part for part in parts if len(part[0])], **catalogue)


def scores(model: Model) -> NDArray[Any]:
    products = model.user_factors.astype(np.float64) @ model.item_factors.T
    return np.asarray(products + np.add.outer(model.offsets.users, model.offsets.items) + model.offsets.mean)


# The linear part against its exact posterior.


def prior_of_scores(matrix: ReportMatrix, options: ChannelMfOptions, scale: float, seed: int = 3) -> NDArray[Any]:
    """Write the joint prior covariance of all scores, less the centre, from the model's description."""
    pattern = no_pattern(matrix)
    if options.pattern:
        pattern = embed_pattern(LocalEngine(matrix, 1), options.dimensions, np.random.default_rng(seed))
    people, things = matrix.shape
    users, items = (codes.ravel() for codes in np.indices((people, things)))
    user_places, item_places = pattern.users[:, :16].astype(np.float64), pattern.items[:, :16].astype(np.float64)
    full = pattern.items.astype(np.float64)
    same_user, same_item = np.equal.outer(users, users), np.equal.outer(items, items)
    like_item, like_user = (item_places @ item_places.T)[np.ix_(items, items)], user_places @ user_places.T
    like_user = like_user[np.ix_(users, users)]
    covariance = 0.15 * same_user + 0.1 * same_item + 0.1 + 0.15 * same_user * like_item + 0.1 * same_item * like_user
    if pattern.dimensions:
        responses = 0.05 * (full @ full.T)[np.ix_(items, items)]  # to people's places, and alike for items alike
        covariance += responses * like_user + responses
        for rows, codes, shares in (
            (pattern.item_popularity, items, (0.05, 0.05 / 3)),
            (pattern.user_popularity, users, (0.03, 0.01)),
        ):
            covariance += ((rows * shares) @ rows.T)[np.ix_(codes, codes)]
        own = pattern.users.astype(np.float64)
        covariance += 0.03 * (own @ own.T)[np.ix_(users, users)]
    return np.asarray(scale * covariance)


def exact_scores(matrix: ReportMatrix, options: ChannelMfOptions) -> NDArray[Any]:
    """Condition the joint prior on all reports at once."""
    found = calibrated(matrix)
    said, noise = matrix.by_user.values.astype(np.float64), np.zeros(matrix.reports)
    if found.values is not None:
        said, noise = found.values[matrix.by_user.values], found.noise_variances[matrix.by_user.values]
    prior = prior_of_scores(matrix, options, found.rating_variance)
    users = np.repeat(np.arange(matrix.shape[0]), matrix.by_user.counts())
    seen = users * matrix.shape[1] + matrix.by_user.columns
    reports = prior[np.ix_(seen, seen)] + np.diag(noise + 0.6 * found.rating_variance)
    return np.asarray(3.4 + prior[:, seen] @ np.linalg.solve(reports, said - 3.4)).reshape(matrix.shape)


def small_matrix(
    shape: tuple[int, int], epsilons: list[str] | None, seed: int = 0, share: float = 0.6, **catalogue: Any
) -> ReportMatrix:
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random(shape) < share)
    ranks = rng.integers(0, 5, len(users)).astype(np.uint16)
    if epsilons is None:
        return ReportMatrix.of_values(users, items, ranks + 1.0, STARS, **catalogue)
    return perturbed(users, items, ranks, epsilons, seed, **catalogue)


@pytest.mark.parametrize("epsilons", [None, ["3"], ["0.5", "4"], ["0.05"]], ids=str)
@pytest.mark.parametrize("changes", [{}, {"dimensions": 2}, {"pattern": False}], ids=str)
def test_without_factors_scores_are_the_exact_posterior_means(
    epsilons: list[str] | None, changes: dict[str, Any]
) -> None:
    options = replace(LINEAR, **changes)
    for seed in range(2):
        matrix = small_matrix((6, 8), epsilons, seed)
        np.testing.assert_allclose(scores(fitted(matrix, options)), exact_scores(matrix, options), atol=2e-3)


def test_more_dimensions_than_places_move_offsets_alone() -> None:
    matrix = small_matrix((26, 24), ["3"], 1, 0.5)
    model = fitted(matrix, LINEAR)
    assert model.channel is not None
    assert model.channel.places == 16
    assert model.channel.pattern is not None
    assert model.channel.pattern.traits.shape == (24, 24)
    np.testing.assert_allclose(scores(model), exact_scores(matrix, LINEAR), atol=3e-3)


def test_those_without_reports_have_the_posterior_mean_too() -> None:
    catalogue: dict[str, Any] = {"catalogue_users": range(9), "catalogue_items": range(10)}
    matrix = small_matrix((7, 8), ["3"], 2, **catalogue)
    np.testing.assert_allclose(scores(fitted(matrix, LINEAR)), exact_scores(matrix, LINEAR), atol=2e-3)


@pytest.mark.parametrize("pattern", [True, False])
def test_without_reports_nothing_is_said(pattern: bool) -> None:
    options = ChannelMfOptions(reports=False, pattern=pattern)
    for epsilons in (None, ["3"]):
        model = fitted(small_matrix((12, 15), epsilons), options)
        np.testing.assert_allclose(scores(model), 3.4, atol=1e-3)
        assert model.channel is not None
        assert model.item_model().rank == 0


# Little to learn from.


def full(*shape: int) -> tuple[NDArray[Any], NDArray[Any]]:
    users, items = np.indices(shape).reshape(2, -1)
    return users, items


@pytest.mark.parametrize("mechanism", ["bounded-laplace", "randomized-response", "duchi"])
@pytest.mark.parametrize("epsilon", ["0.001", "1", "20"])
@pytest.mark.parametrize("rank", [0, 8])
def test_tiny_matrices_are_fitted(mechanism: str, epsilon: str, rank: int, tmp_path: Path) -> None:
    policy, rng = Policy.make(mechanism, STARS, epsilon), np.random.default_rng(1)
    for shape in ((1, 1), (2, 3), (1, 5), (5, 1), (3, 3), (4, 5)):
        users, items = full(*shape)
        for kept in (np.ones(len(users), dtype=bool), (users + items) % 3 != 1):
            symbols = rng.integers(0, policy.channel.weights.symbols, int(kept.sum()))
            matrix = ReportMatrix.of_symbols(users[kept], items[kept], symbols, policy)
            model = fitted(matrix, ChannelMfOptions(rank=rank), threads=1)
            assert np.isfinite(scores(model)).all()
            model.item_model().as_published()
            if rank == 0:
                model.save(tmp_path / "model")
                np.testing.assert_array_equal(scores(Model.load(tmp_path / "model")), scores(model))
            folded = model.fold_in(model.items.ids[:1], model.channel.readings[0].symbol_values[:1])  # type: ignore[union-attr]
            assert np.isfinite(model.predict_for(folded, model.items.ids).ratings).all()


@pytest.mark.parametrize("count", [3, 9, 12])
def test_equal_counts_and_a_newcomer_are_fitted(count: int) -> None:
    users = np.repeat(np.arange(2 * count + 3), count)
    items = (users + np.tile(np.arange(count), 2 * count + 3)) % (2 * count + 3)
    values = np.random.default_rng(0).integers(1, 6, len(users))
    catalogue: dict[str, Any] = {"catalogue_users": [*range(2 * count + 3), 99], "catalogue_items": [*range(30), 777]}
    model = fitted(ReportMatrix.of_values(users, items, values, STARS, **catalogue), ChannelMfOptions())
    predicted = model.predict([0, 99, 99], [777, 777, 0]).ratings
    assert ((predicted > 2) & (predicted < 4)).all()


@pytest.mark.parametrize("value", [1.0, 5.0])
@pytest.mark.parametrize("complete", [True, False])
def test_equal_reports_are_found_at_the_ends_of_the_scale_too(value: float, complete: bool) -> None:
    users, items = full(30, 20)
    kept = slice(None) if complete else np.flatnonzero((users * 7 + items * 3) % 5 < 2)
    values = np.full(len(users[kept]), value)
    model = fitted(ReportMatrix.of_values(users[kept], items[kept], values, STARS), ChannelMfOptions())
    np.testing.assert_allclose(model.predict(users, items).ratings, value, atol=0.25)


# Factors.


def taste_world(seed: int, people: int = 200, things: int = 120) -> tuple[Any, Any, Any]:
    """Two strong tastes that the choice of items does not give away."""
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((people, things)) < 0.3)
    tastes, kinds = rng.standard_normal((people, 2)), rng.standard_normal((things, 2))
    liked = 2 + 0.9 * (tastes[users] * kinds[items]).sum(axis=1) + 0.3 * rng.standard_normal(len(users))
    return users, items, np.clip(np.round(liked), 0, 4).astype(np.uint16)


def test_factors_are_kept_where_reports_support_them_and_dropped_where_not() -> None:
    users, items, ranks = taste_world(1)
    held = np.random.default_rng(0).random(len(users)) < 0.2
    errors, ranks_found = {}, {}
    for rank in (0, 6):
        for epsilon in ("10", "0.1"):
            matrix = perturbed(users[~held], items[~held], ranks[~held], [epsilon])
            model = fitted(matrix, ChannelMfOptions(rank=rank))
            ranks_found[rank, epsilon] = model.item_model().rank
            error = model.predict(users[held], items[held]).ratings - 1 - ranks[held]
            errors[rank, epsilon] = float(np.sqrt(np.mean(error**2)))
    assert errors[6, "10"] < 0.75 * errors[0, "10"]
    assert ranks_found[6, "10"] >= 2
    assert errors[6, "0.1"] == pytest.approx(errors[0, "0.1"], abs=0.005)
    assert ranks_found[0, "10"] == ranks_found[6, "0.1"] == 0


# The constant is a floor.


def paired(differences: list[float]) -> tuple[float, float]:
    """The mean of differences and its standard error."""
    return float(np.mean(differences)), float(np.std(differences, ddof=1) / np.sqrt(len(differences)))


@pytest.mark.parametrize("epsilon", ["0.01", "0.1"])
@pytest.mark.parametrize("mechanism", ["bounded-laplace", "duchi"])
def test_the_best_constant_the_reports_allow_is_a_floor(mechanism: str, epsilon: str) -> None:
    policy, differences = Policy.make(mechanism, STARS, epsilon), []
    for seed in range(6):
        world = make_world(STARS, shape=SMALL, seed=seed)
        rng = np.random.default_rng(seed)
        held = rng.random(len(world.users)) < 0.2
        words = rng.integers(0, 2**64, int((~held).sum()), dtype=np.uint64)
        symbols = policy.channel.draw(STARS.ranks_of(world.ratings[~held]), words)
        matrix = ReportMatrix.of_symbols(world.users[~held], world.items[~held], symbols, policy)
        counts = np.bincount(symbols, minlength=policy.channel.weights.symbols)
        constant = fit_prior([(policy.channel, counts)]).mean
        predicted = fitted(matrix, ChannelMfOptions(rank=2), threads=1).predict(world.users[held], world.items[held])
        found, flat = (np.sqrt(np.mean((guess - world.ratings[held]) ** 2)) for guess in (predicted.ratings, constant))
        differences.append(float(found - flat))
    mean, error = paired(differences)
    assert mean <= 2 * error + 1e-3, differences


# Checkpoints.


@pytest.mark.parametrize("stop", [1, 5, 7])
def test_a_resumed_fit_ends_with_the_same_bits_everywhere(stop: int, tmp_path: Path) -> None:
    """Before and after factors are judged; what is learned beside rows is kept too."""
    world = make_world(STARS, shape=SMALL)
    matrix = perturbed(world.users, world.items, STARS.ranks_of(world.ratings), ["3"])
    options = ChannelMfOptions(rank=3, tolerance=0.0, iterations=10)
    whole = fitted(matrix, options, threads=1)
    fitted(matrix, replace(options, iterations=stop), checkpoint=tmp_path, threads=1)
    again = fitted(matrix, options, checkpoint=tmp_path, threads=2)
    assert len(again.trace.iterations) == 10
    assert_same_bits(whole, again)


def assert_same_bits(one: Model, other: Model) -> None:
    assert (scores(one) == scores(other)).all()
    assert one.channel is not None
    assert other.channel is not None
    for mine, theirs in ((one.channel.beliefs, other.channel.beliefs), (one.channel.pattern, other.channel.pattern)):
        for name in mine.__dataclass_fields__ if mine is not None else ():
            assert np.array_equal(getattr(mine, name), getattr(theirs, name)), name


@pytest.mark.parametrize("name", ["extra_users_variances", "extra_items_prior_variances", "extra_responses"])
@pytest.mark.parametrize("damage", ["missing", "shape", "kind"])
def test_a_checkpoint_without_its_parts_is_refused(name: str, damage: str, tmp_path: Path) -> None:
    matrix, options = small_matrix((12, 15), ["3"]), ChannelMfOptions(rank=1, iterations=2)
    fitted(matrix, options, checkpoint=tmp_path)
    with np.load(tmp_path / FILE) as file:
        arrays = dict(file)
    changed = {"missing": None, "shape": arrays[name][:-1], "kind": arrays[name].astype(np.float16)}[damage]
    arrays = {key: array for key, array in (arrays | {name: changed}).items() if array is not None}
    np.savez(tmp_path / FILE, **arrays)
    with pytest.raises(ModelError, match="not a readable checkpoint"):
        fitted(matrix, options, checkpoint=tmp_path)


# Folding in.


@pytest.mark.parametrize("changes", [{}, {"pattern": False}, {"rank": 0}], ids=str)
def test_a_user_who_reports_again_is_found_about_where_they_were(changes: dict[str, Any]) -> None:
    world = make_world(STARS, shape=SMALL)
    ranks = STARS.ranks_of(world.ratings)
    matrix = perturbed(world.users, world.items, ranks, ["4"])
    model = fitted(matrix, ChannelMfOptions(**changes))
    known, folded = [], []
    for user in range(20):
        own = slice(*matrix.by_user.starts[user : user + 2])
        items = model.items.ids[matrix.by_user.columns[own]]
        profile = model.fold_in(items, matrix.values_of(matrix.by_user.values[own]))
        known.append(model.predict(np.full(len(model.items), model.users.ids[user]), model.items.ids).ratings)
        folded.append(model.predict_for(profile, model.items.ids).ratings)
    assert np.corrcoef(np.ravel(known), np.ravel(folded))[0, 1] > 0.95
    assert np.sqrt(np.mean((np.array(known) - np.array(folded)) ** 2)) < 0.15


def test_a_profile_of_nothing_is_everybodys() -> None:
    model = fitted(small_matrix((12, 15), ["3"]), ChannelMfOptions())
    profile = model.fold_in([], [])
    assert profile.offset == 0
    expected = np.clip(model.offsets.mean + model.offsets.items, 1, 5)
    np.testing.assert_allclose(model.predict_for(profile, model.items.ids).ratings, expected, rtol=1e-5)


def test_values_are_read_through_the_policy_they_were_reported_under() -> None:
    model = fitted(small_matrix((30, 25), ["0.5", "4"], share=0.7), ChannelMfOptions(rank=0))
    assert model.channel is not None
    by_noise = sorted(model.channel.readings, key=lambda reading: reading.noise_variance)
    items, offsets = model.items.ids[:6], []
    for reading in by_noise:
        top = np.full(6, reading.symbol_values.max())
        offsets.append(model.fold_in(items, top, policy=reading.policy).offset)
    assert offsets[0] > 2 * offsets[1] > 0
    top = np.full(6, by_noise[0].symbol_values.max())
    with pytest.raises(ModelError, match=r"no policy was named; this model was learned through .*, .*: name one"):
        model.fold_in(items, top)
    with pytest.raises(ModelError, match="policy 'abc' is not known"):
        model.fold_in(items, top, policy="abc")
    with pytest.raises(ModelError, match=r"value 77 is no symbol of policy [0-9a-f]{12}; give what"):
        model.fold_in(items, np.full(6, 77.0), policy=by_noise[0].policy)


def test_the_order_of_reports_changes_no_bit_of_a_profile() -> None:
    model = fitted(small_matrix((30, 25), ["2"]), ChannelMfOptions(rank=2))
    assert model.channel is not None
    rng, symbols = np.random.default_rng(0), model.channel.readings[0].symbol_values
    items, values = model.items.ids[:9], rng.choice(symbols, 9)
    turned = rng.permutation(9)
    one, other = model.fold_in(items, values), model.fold_in(items[turned], values[turned])
    assert (one.factors == other.factors).all()
    assert one.offset == other.offset
