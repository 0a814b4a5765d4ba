"""Every model does what every model must."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tacit.errors import EngineError, FileError, InvalidInputError, ModelError
from tacit.evaluation.world import WorldShape, make_world
from tacit.learning import (
    MODELS,
    MfAlsOptions,
    MfSgdOptions,
    Model,
    MogMfOptions,
    Options,
    ReportMatrix,
    SvdOptions,
    fit,
    read_reports,
)
from tacit.learning.checkpoint import FILE
from tacit.learning.factors import FactorPair
from tacit.learning.local_engine import LocalEngine
from tacit.learning.memory import memory_needed
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.tables import write_columns

if TYPE_CHECKING:
    from tacit.learning import Iteration

STARS = RatingScale.parse("1:5:1")
QUICK = {
    "mog-mf": {"iterations": 15},
    "channel-mf": {"iterations": 15},
    "mf-als": {"iterations": 15},
    "mf-sgd": {"epochs": 10},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "channel-mf": {"pattern": False},
    "mf-als": {"offsets": True},
    "mf-sgd": {"offsets": True},
}

CASES = [
    pytest.param(name, {**QUICK.get(name, {}), **extra}, id="-".join([name, *map(str, extra.values())]))
    for name in MODELS
    for extra in [{}, *(VARIANTS[known] for known in VARIANTS if known == name)]
]
every_model = pytest.mark.parametrize(("name", "extra"), CASES)
ITERATIVE = [case for case in CASES if case.values[0] in QUICK]
every_iterative_model = pytest.mark.parametrize(("name", "extra"), ITERATIVE)


def options_of(name: str, extra: dict[str, Any]) -> Options:
    return MODELS[name](**extra)


def small(name: str, extra: dict[str, Any]) -> Options:
    """The same model with one factor, for data that allow no more."""
    options = options_of(name, extra)
    return replace(options, rank=1) if hasattr(options, "rank") else options


def reports(seed: int = 0, people: int = 60, things: int = 40) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((people, things)) < 0.3)
    likes = 3 + rng.standard_normal(people)[users] * 0.4 + rng.standard_normal(things)[items] * 0.5
    return users, items, np.clip(np.round(likes + 0.5 * rng.standard_normal(len(users))), 1, 5)


@pytest.fixture(scope="module")
def matrix() -> ReportMatrix:
    return ReportMatrix.of_values(*reports(), STARS)


def fitted(matrix: ReportMatrix, options: Options, seed: int = 3, **conduct: Any) -> Model:
    return fit(matrix, options, np.random.default_rng(seed), seed=seed, **conduct)


@every_model
def test_shapes_ids_and_predictions_fit_the_reports(matrix: ReportMatrix, name: str, extra: dict[str, Any]) -> None:
    model = fitted(matrix, options_of(name, extra))
    assert model.name == name
    assert (len(model.users), len(model.items)) == matrix.shape
    users, items, values = reports()
    predicted = model.predict(users, items)
    assert not predicted.fallback.any()
    assert ((predicted.ratings >= 1) & (predicted.ratings <= 5)).all()
    constant = np.sqrt(np.mean((values - values.mean()) ** 2))
    error = np.sqrt(np.mean((values - predicted.ratings) ** 2))
    assert error <= constant * (1.001 if name == "global-mean" else 0.95)


@every_model
def test_ids_may_be_text(name: str, extra: dict[str, Any]) -> None:
    users, items, values = reports()
    numbered = fitted(ReportMatrix.of_values(users, items, values, STARS), options_of(name, extra))
    texts = [f"u{user:03d}" for user in users], [f"i{item:03d}" for item in items]
    named = fitted(ReportMatrix.of_values(*texts, values, STARS), options_of(name, extra))
    np.testing.assert_array_equal(named.predict(*texts).ratings, numbered.predict(users, items).ratings)


@every_model
def test_a_seed_gives_one_model_whatever_the_threads_and_the_order(name: str, extra: dict[str, Any]) -> None:
    users, items, values = reports(1, 300, 200)
    shuffled = np.random.default_rng(0).permutation(len(users))
    first = fitted(ReportMatrix.of_values(users, items, values, STARS), options_of(name, extra), threads=1)
    turned = ReportMatrix.of_values(users[shuffled], items[shuffled], values[shuffled], STARS)
    second = fitted(turned, options_of(name, extra), threads=3)
    assert (first.user_factors == second.user_factors).all()
    assert (first.item_factors == second.item_factors).all()
    assert (first.offsets.items == second.offsets.items).all()
    assert first.trace.objective == second.trace.objective
    assert first.provenance.data_checksum == second.provenance.data_checksum


@every_model
def test_a_model_survives_being_saved(matrix: ReportMatrix, name: str, extra: dict[str, Any], tmp_path: Path) -> None:
    model = fitted(matrix, options_of(name, extra))
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    users, items, _ = reports()
    np.testing.assert_array_equal(loaded.predict(users, items).ratings, model.predict(users, items).ratings)
    assert loaded.recommend(5, 4).items == model.recommend(5, 4).items
    assert loaded.trace == model.trace
    assert loaded.provenance == model.provenance
    assert loaded.options == model.options == options_of(name, extra).to_document()


@every_model
def test_the_unknown_gets_a_defined_answer(matrix: ReportMatrix, name: str, extra: dict[str, Any]) -> None:
    model = fitted(matrix, options_of(name, extra))
    predicted = model.predict([0, "nobody", 0, "nobody"], [0, 0, "nothing", "nothing"])
    assert predicted.fallback.tolist() == [False, True, True, True]
    assert np.isfinite(predicted.ratings).all()
    assert predicted.ratings[3] == pytest.approx(matrix.mean, abs=0.1 if name == "channel-mf" else 0.05)
    recommended = model.recommend("nobody", 5)
    assert recommended.fallback
    assert len(recommended.items) == 5


@every_model
def test_recommendations_leave_out_what_was_rated(matrix: ReportMatrix, name: str, extra: dict[str, Any]) -> None:
    users, items, _ = reports()
    model = fitted(matrix, options_of(name, extra))
    rated = set(items[users == 7].tolist())
    found = model.recommend(7, 100)
    assert not rated & set(found.items)
    assert len(found.items) == len(set(items.tolist()) - rated)
    assert list(found.ratings) == sorted(found.ratings, reverse=True)
    everything = model.recommend(7, 100, exclude_rated=False)
    assert rated < set(everything.items)


@every_model
def test_a_new_user_is_folded_in(matrix: ReportMatrix, name: str, extra: dict[str, Any]) -> None:
    users, items, values = reports()
    model = fitted(matrix, options_of(name, extra))
    own = users == 2
    profile = model.fold_in(items[own], values[own])
    folded, known = model.predict_for(profile, items[own]).ratings, model.predict(users[own], items[own]).ratings
    assert np.isfinite(folded).all()
    # Somebody with the reports of a user is predicted about as that user is.
    assert np.sqrt(np.mean((folded - known) ** 2)) < 0.5
    assert not set(model.recommend_for(profile, 5).items) & set(items[own].tolist())


@every_model
@pytest.mark.parametrize("value", [1.0, 3.0, 5.0])
def test_one_report_is_enough(name: str, extra: dict[str, Any], value: float) -> None:
    options = small(name, extra | ({"regularisation": 1e-4} if name == "mf-als" else {}))
    model = fitted(ReportMatrix.of_values(["a"], ["x"], [value], STARS), options)
    close = 0.3 if name == "channel-mf" else 0.1  # its priors hold back what one report says
    assert model.predict(["a"], ["x"]).ratings[0] == pytest.approx(value, abs=close)


@every_model
def test_one_user_is_enough(name: str, extra: dict[str, Any]) -> None:
    model = fitted(ReportMatrix.of_values([1] * 5, range(5), [1, 2, 3, 4, 5], STARS), small(name, extra))
    assert np.isfinite(model.predict([1] * 5, range(5)).ratings).all()


@every_model
def test_constant_ratings_are_predicted_everywhere(name: str, extra: dict[str, Any]) -> None:
    users, items, _ = reports()
    constant = ReportMatrix.of_values(users, items, np.full(len(users), 4.0), STARS)
    model = fitted(constant, options_of(name, extra))
    everywhere = model.predict(np.repeat(np.unique(users), 3), np.tile(np.unique(items)[:3], len(np.unique(users))))
    close = {"mf-als": 0.8, "mf-sgd": 0.6, "channel-mf": 0.05}.get(name, 2e-3)
    np.testing.assert_allclose(everywhere.ratings, 4.0, atol=close)


@every_model
def test_a_user_with_every_item_and_an_item_nobody_rated(name: str, extra: dict[str, Any]) -> None:
    users, items, values = reports()
    users, items = np.append(users, [99] * 40), np.append(items, range(40))
    values = np.append(values, np.resize([1, 3, 5], 40))
    first = np.unique(users * 1000 + items, return_index=True)[1]
    catalogue: dict[str, Any] = {"catalogue_items": [*range(40), 777], "catalogue_users": [*range(60), 99, 555]}
    matrix = ReportMatrix.of_values(users[first], items[first], values[first], STARS, **catalogue)
    model = fitted(matrix, options_of(name, extra))
    assert model.recommend(99, 10).items == []
    predicted = model.predict([99, 99, 555, 555], [0, 777, 0, 777])
    assert predicted.fallback.tolist() == [False, True, True, True]
    assert np.isfinite(predicted.ratings).all()
    assert 777 not in model.recommend(3, 100).items


@every_model
def test_reports_under_two_policies_are_learned_from(name: str, extra: dict[str, Any], tmp_path: Path) -> None:
    world = make_world(STARS)
    policies = [Policy.make("bounded-laplace", STARS, epsilon) for epsilon in ("3", "1")]
    words = np.random.default_rng(0).integers(0, 2**64, len(world.users), dtype=np.uint64, endpoint=False)
    files = []
    for number, policy in enumerate(policies):
        part = world.users % 2 == number
        symbols = policy.channel.draw(STARS.ranks_of(world.ratings[part]), words[part])
        columns = {"user": world.users[part], "item": world.items[part], "symbol": symbols}
        files.append(tmp_path / f"{number}.parquet")
        write_columns(files[-1], columns, {"tacit.policy": policy.id})
    model = fitted(read_reports(files, policies), options_of(name, extra))
    assert set(model.provenance.policies) == {policy.id for policy in policies}
    error = np.sqrt(np.mean((model.predict(world.users, world.items).ratings - world.ratings) ** 2))
    assert error < 1.3


def test_isgd_is_clamped_laplace_and_gradient_steps() -> None:
    world = make_world(STARS)
    policy = Policy.make("clamped-laplace", STARS, "3")
    words = np.random.default_rng(0).integers(0, 2**64, len(world.users), dtype=np.uint64, endpoint=False)
    matrix = ReportMatrix.of_symbols(
        world.users, world.items, policy.channel.draw(STARS.ranks_of(world.ratings), words), policy
    )
    model = fitted(matrix, MfSgdOptions())
    error = np.sqrt(np.mean((model.predict(world.users, world.items).ratings - world.ratings) ** 2))
    assert error < 0.97 * np.std(world.ratings)


@every_iterative_model
def test_an_interrupt_keeps_what_is_there_and_a_checkpoint_goes_on_to_the_same_end(
    matrix: ReportMatrix, name: str, extra: dict[str, Any], tmp_path: Path
) -> None:
    options = replace(options_of(name, extra), **({} if name == "mf-sgd" else {"tolerance": 0.0}))
    whole = fitted(matrix, options)

    def interrupt(iteration: Iteration) -> None:
        seen.append(iteration)
        if len(seen) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    seen: list[Iteration] = []
    before = signal.getsignal(signal.SIGINT)
    part = fitted(matrix, options, watch=interrupt, checkpoint=tmp_path)
    assert signal.getsignal(signal.SIGINT) is before
    assert part.trace.stopped == "interrupted"
    assert len(part.trace.iterations) == 4
    assert part.trace.objective == whole.trace.iterations[3].objective
    again = fitted(matrix, options, checkpoint=tmp_path, threads=3)
    assert again.trace.stopped == whole.trace.stopped == "iterations"
    assert (again.user_factors == whole.user_factors).all()
    assert (again.item_factors == whole.item_factors).all()
    assert (again.noise.variances == whole.noise.variances).all()
    assert [i.objective for i in again.trace.iterations] == [i.objective for i in whole.trace.iterations]
    # What is finished is not begun again.
    finished = fitted(matrix, options, checkpoint=tmp_path, watch=seen.append)
    assert len(seen) == 4
    assert (finished.user_factors == whole.user_factors).all()


def test_a_keyboard_interrupt_from_the_watcher_stops_a_fit_in_any_thread(matrix: ReportMatrix) -> None:
    def refuse(_: Iteration) -> None:
        raise KeyboardInterrupt

    found: list[Model] = []
    worker = threading.Thread(target=lambda: found.append(fitted(matrix, MogMfOptions(), watch=refuse)))
    worker.start()
    worker.join()
    assert found[0].trace.stopped == "interrupted"
    assert len(found[0].trace.iterations) == 1


def test_a_checkpoint_of_another_fit_is_refused_at_once(
    matrix: ReportMatrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted(matrix, MogMfOptions(iterations=3), checkpoint=tmp_path)
    longer = fitted(matrix, MogMfOptions(iterations=5, tolerance=0.0001), checkpoint=tmp_path)
    assert len(longer.trace.iterations) == 5
    monkeypatch.delattr(LocalEngine, "sweeper")
    for other in ({"options": MogMfOptions(rank=2)}, {"options": MogMfOptions(), "seed": 4}):
        with pytest.raises(ModelError, match="another fit"):
            fitted(matrix, **other, checkpoint=tmp_path)


@pytest.mark.parametrize("damage", ["nonsense", "cut", "document", "shape", "kind", "mixture", "pipe"])
def test_a_damaged_checkpoint_is_refused_in_one_line(matrix: ReportMatrix, damage: str, tmp_path: Path) -> None:
    fitted(matrix, MogMfOptions(iterations=3), checkpoint=tmp_path)
    path = tmp_path / FILE
    with np.load(path) as file:
        arrays = dict(file)
    changes = {
        "document": {"document": np.frombuffer(b"[1, 2]", dtype=np.uint8)},
        "shape": {"users": arrays["users"][:-1]},
        "kind": {"items": arrays["items"].astype(np.float64)},
        "mixture": {"variances": np.full(4, np.nan)},
    }
    if damage in changes:
        np.savez(path, **{**arrays, **changes[damage]})
    elif damage == "pipe":
        path.unlink()
        os.mkfifo(path)
    else:
        path.write_bytes(b"nonsense" if damage == "nonsense" else path.read_bytes()[:-100])
    with pytest.raises(ModelError, match="not a readable checkpoint"):
        fitted(matrix, MogMfOptions(iterations=3), checkpoint=tmp_path)


def test_a_checkpoint_is_not_blamed_for_an_engine_that_fails(
    matrix: ReportMatrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(pair: FactorPair) -> FactorPair:
        if pair.rank:  # else they are offsets, which are found before
            raise EngineError("the cluster is gone")
        return pair

    fitted(matrix, MogMfOptions(iterations=3), checkpoint=tmp_path)
    monkeypatch.setattr(FactorPair, "home", fail)
    with pytest.raises(EngineError, match="the cluster is gone"):
        fitted(matrix, MogMfOptions(iterations=3), checkpoint=tmp_path)


def test_a_checkpoint_that_cannot_be_written_later_costs_nothing(matrix: ReportMatrix, tmp_path: Path) -> None:
    folder = tmp_path / "kept"

    def remove(_: Iteration) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    model = fitted(matrix, MogMfOptions(iterations=3), checkpoint=folder, watch=remove)
    assert len(model.trace.iterations) == 3
    assert any("not kept" in note for note in model.trace.notes)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot make"):
        fitted(matrix, MogMfOptions(), checkpoint=tmp_path / "file")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no folder that nobody can write to")
def test_a_folder_that_cannot_be_written_to_is_refused_at_once(
    matrix: ReportMatrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(LocalEngine, "sweeper")
    with pytest.raises(FileError, match="cannot make /proc/self, or write to it: "):
        fitted(matrix, MogMfOptions(), checkpoint="/proc/self")


def test_a_start_from_the_svd_is_one(matrix: ReportMatrix) -> None:
    svd = fitted(matrix, SvdOptions(rank=2))
    for options in (MogMfOptions(rank=2, start="svd"), MfAlsOptions(rank=2, start="svd", regularisation=0.0)):
        started, random = fitted(matrix, options), fitted(matrix, replace(options, start="random"))
        assert started.trace.iterations[0].change < random.trace.iterations[0].change
    filled = svd.user_factors @ svd.item_factors.T
    assert np.linalg.matrix_rank(filled) == 2


@pytest.mark.parametrize("options", [SvdOptions(), MogMfOptions(start="svd"), MfAlsOptions(start="svd")])
def test_reports_of_nothing_but_zero_are_fitted(options: Options) -> None:
    users, items, values = reports()
    model = fitted(ReportMatrix.of_values(users, items, 0 * values, RatingScale.parse("-1:1:1")), options)
    assert (model.predict(users, items).ratings == 0).all()


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"seed": "x"}, {"seed": np.int64(3)}, {"threads": 0}, {"threads": -1}])
def test_a_seed_or_number_of_threads_that_is_none_is_refused(matrix: ReportMatrix, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"seed is|threads is"):
        fit(matrix, MogMfOptions(), np.random.default_rng(0), **wrong)


def test_rare_items_can_be_left_out_of_the_public_part(matrix: ReportMatrix) -> None:
    model = fitted(matrix, MogMfOptions())
    counts = matrix.by_item.counts()
    public = model.item_model(least_reports=18)
    assert len(public.items) == (counts >= 18).sum() < len(model.item_model().items)
    with pytest.raises(ModelError, match="no item has 1000 reports"):
        model.item_model(least_reports=1000)


@pytest.mark.parametrize("fill", ["item", "global"])
def test_the_svd_is_that_of_the_filled_matrix(fill: str) -> None:
    users, items, values = reports()
    dense = np.full((60, 40), np.nan)
    dense[users, items] = values
    means = np.nanmean(dense, axis=0) if fill == "item" else np.full(40, values.mean())
    left, singular, right = np.linalg.svd(np.where(np.isnan(dense), means, dense))
    expected = (left[:, :3] * singular[:3]) @ right[:3]
    model = fitted(ReportMatrix.of_values(users, items, values, STARS), SvdOptions(rank=3, fill=fill))
    found = (model.user_factors @ model.item_factors.T)[
        np.ix_(model.users.find(range(60)), model.items.find(range(40)))
    ]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_offsets_solve_their_ridge_regression(matrix: ReportMatrix) -> None:
    users, items, values = reports()
    design = np.zeros((len(users), 100))
    design[np.arange(len(users)), users] = 1
    design[np.arange(len(users)), 60 + items] = 1
    design = np.column_stack([design, np.ones(len(users))])  # the mean, which no ridge holds back
    ridge = np.diag([5.0] * 100 + [0.0])
    expected = np.linalg.solve(design.T @ design + ridge, design.T @ values)
    model = fitted(matrix, MODELS["offsets"]())
    np.testing.assert_allclose(model.offsets.users[model.users.find(range(60))], expected[:60], atol=1e-3)
    np.testing.assert_allclose(model.offsets.items[model.items.find(range(40))], expected[60:100], atol=1e-3)
    assert model.offsets.mean == pytest.approx(expected[100], abs=1e-3)


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        ("mog-mf", {"rank": 0}, r"mog-mf: rank is 0; give a whole number from 1 to 256"),
        ("mog-mf", {"rank": 2.5}, r"rank is 2\.5"),
        ("mog-mf", {"rank": True}, r"rank is True"),
        ("mog-mf", {"components": 17}, r"from 1 to 16"),
        ("mog-mf", {"regularisation": float("nan")}, r"regularisation is nan"),
        ("mog-mf", {"start": "middle"}, r"choose one of random, svd"),
        ("channel-mf", {"rank": -1}, r"rank is -1; give a whole number from 0 to 224"),
        ("channel-mf", {"pattern": "off"}, r"choose one of False, True"),
        ("channel-mf", {"dimensions": 0}, r"from 1 to 128"),
        ("mf-als", {"offsets": "yes"}, r"choose one of False, True"),
        ("mf-als", {"offsets": True, "start": "svd"}, r"only random goes with offsets"),
        ("mf-sgd", {"step": -1}, r"step is -1"),
        ("svd", {"fill": "zero"}, r"choose one of item, global"),
        ("offsets", {"regularisation": -1}, r"regularisation is -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        options_of(name, wrong)


def test_a_fit_that_diverges_says_so(matrix: ReportMatrix) -> None:
    seen: list[Iteration] = []
    with pytest.raises(ModelError, match="shorter step"), np.errstate(all="ignore"):
        fitted(matrix, MfSgdOptions(regularisation=1e6, epochs=50), watch=seen.append)
    assert len(seen) < 50


@pytest.mark.parametrize("mechanism", ["piecewise", "duchi", "hybrid"])
def test_gradient_steps_stand_reports_of_any_size(mechanism: str) -> None:
    scale = RatingScale.parse("-10:10:0.5")
    policy = Policy.make(mechanism, scale, "0.01")
    users, items, values = reports()
    words = np.random.default_rng(0).integers(0, 2**64, len(users), dtype=np.uint64, endpoint=False)
    symbols = policy.channel.draw(scale.ranks_of(values), words)
    model = fitted(ReportMatrix.of_symbols(users, items, symbols, policy), MfSgdOptions())
    assert np.isfinite(model.user_factors).all()


def test_an_svd_of_more_than_all_is_refused(matrix: ReportMatrix) -> None:
    with pytest.raises(ModelError, match="rank is 41, too much for an SVD; 60 users and 40 items allow 40"):
        fitted(matrix, SvdOptions(rank=41))


@every_model
@pytest.mark.parametrize("coded", [True, False])
def test_memory_is_estimated(name: str, extra: dict[str, Any], coded: bool) -> None:
    world = make_world(STARS, shape=WorldShape(6000, 4000, 400_000))
    if coded:
        symbols = (world.ratings - 1).astype(np.uint8)
        policy = Policy.make("randomized-response", STARS, "1")
        large = ReportMatrix.of_symbols(world.users, world.items, symbols, policy)
    else:
        large = ReportMatrix.of_values(world.users, world.items, world.ratings, STARS)
    options = options_of(name, extra | ({"iterations": 2} if "iterations" in extra else {}))
    fitted(large, options)  # so that importing libraries is not counted
    tracemalloc.start()
    try:
        fitted(large, options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # NumPy's arrays are traced, the kernels' scratch is not; an estimate within a factor of two is one.
    assert 0.5 <= memory_needed(large, options) / (large.nbytes + peak) <= 2
