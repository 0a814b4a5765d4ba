"""Variances are tuned without a true rating, and well: what a tuner is given, and what it finds."""

from __future__ import annotations

import ast
import importlib
import inspect
from typing import TYPE_CHECKING, Any, get_type_hints

import grimp
import numpy as np
import pytest

from tacit.evaluation.datasets import load_data_set
from tacit.evaluation.fold import run_fold
from tacit.evaluation.setting import Setting
from tacit.evaluation.splits import folds_of
from tacit.evaluation.world import WorldShape, make_world
from tacit.learning import ChannelMfOptions, Options, ReportMatrix, fit
from tacit.learning import channel_mf as module
from tacit.learning.engine import Engine
from tacit.learning.local_engine import LocalEngine
from tacit.learning.loop import Conduct
from tacit.learning.matrix import Rows
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale
from tacit.privacy.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from tacit.evaluation.world import World
    from tacit.learning import Model

STARS = RatingScale.parse("1:5:1")
SMALL = WorldShape(150, 100, 3500)
TUNERS = ["calibrated", "pattern", "hierarchy", "channel_rows", "channel_mf", "channel_part", "fit"]


# What a tuner is given.


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("tacit")


@pytest.mark.parametrize("name", TUNERS)
def test_nothing_that_knows_true_ratings_can_be_reached(imports: grimp.ImportGraph, name: str) -> None:
    reached = imports.find_upstream_modules(f"tacit.learning.{name}")
    assert reached or name == "hierarchy"  # which needs NumPy alone
    strangers = {
        known for known in reached if known.split(".")[1] not in {"learning", "privacy", "errors", "tables", "files"}
    }
    assert strangers == set()


def types_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Resolve a function's annotations, those imported for type checking only included."""
    home = inspect.getmodule(function)
    assert home is not None
    names: dict[str, Any] = {}
    for node in ast.walk(ast.parse(inspect.getsource(home))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {
                alias.name: getattr(importlib.import_module(node.module), alias.name, Any) for alias in node.names
            }
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names.setdefault(node.targets[0].id, np.ndarray)  # an alias of an array
    return get_type_hints(function, localns=names)


def test_a_fit_is_given_reports_and_how_to_learn_and_nothing_else() -> None:
    given = types_of(module.fit_channel_mf)
    given.pop("return")
    assert given == {
        "engine": Engine,
        "options": ChannelMfOptions,
        "rng": np.random.Generator,
        "conduct": Conduct,
    }
    given = types_of(fit)
    assert (given["matrix"], given["options"], given["rng"]) == (ReportMatrix, Options, np.random.Generator)
    assert set(given) - {"matrix", "options", "rng", "return"} == {"seed", "threads", "watch", "checkpoint"}
    # An engine has reports. Reports are who reported which symbol on what; options are numbers and switches.
    holds = {name: field.type for name, field in LocalEngine.__dataclass_fields__.items()}
    assert holds == {"summary": ReportMatrix.__name__, "threads": "int", "name": "str"}
    fields = {name: field.type for name, field in ReportMatrix.__dataclass_fields__.items()}
    assert fields == {
        "scale": RatingScale.__name__,
        "users": Vocabulary.__name__,
        "items": Vocabulary.__name__,
        "by_user": Rows.__name__,
        "by_item": Rows.__name__,
        "symbol_values": "NDArray[np.float32] | None",
        "policies": "tuple[Policy, ...]",
    }
    assert {field.type for field in ChannelMfOptions.__dataclass_fields__.values()} <= {
        "int",
        "bool",
        "float",
        "ClassVar[str]",
    }


def words_for(policy: Policy, ranks: NDArray[Any], symbols: NDArray[Any], seed: int) -> NDArray[np.uint64]:
    """Find random words that make a channel turn ratings into the symbols wanted."""
    rng = np.random.default_rng(seed)
    words = np.zeros(len(ranks), dtype=np.uint64)
    missing = np.arange(len(ranks))
    while len(missing):
        tried = rng.integers(0, 2**64, len(missing), dtype=np.uint64)
        hit = policy.channel.draw(ranks[missing], tried) == symbols[missing]
        words[missing[hit]] = tried[hit]
        missing = missing[~hit]
    return words


def test_other_true_ratings_behind_the_same_reports_change_no_bit() -> None:
    world = make_world(STARS, shape=SMALL)
    policy, rng = Policy.make("randomized-response", STARS, "1"), np.random.default_rng(0)
    truth = STARS.ranks_of(world.ratings)
    symbols = policy.channel.draw(truth, rng.integers(0, 2**64, len(truth), dtype=np.uint64))
    found = []
    for ranks in (truth, (4 - truth).astype(truth.dtype), rng.permutation(truth)):
        again = policy.channel.draw(ranks, words_for(policy, ranks, symbols, 1))
        matrix = ReportMatrix.of_symbols(world.users, world.items, again, policy)
        pair, _, fitting = module.fit_channel_mf(
            LocalEngine(matrix, 1), ChannelMfOptions(rank=2), np.random.default_rng(5), Conduct()
        )
        assert (np.abs(fitting.users.prior_variances[:2] / (0.15 * fitting.scale) - 1) > 0.02).all()  # it was tuned
        found.append({**fitting.extra(), "rows": pair.users, "items": pair.items})
    for other in found[1:]:
        for name, array in other.items():
            assert array.tobytes() == found[0][name].tobytes(), name


# What it finds.


def paired(differences: Sequence[float]) -> tuple[float, float]:
    """The mean of differences and its standard error."""
    return float(np.mean(differences)), float(np.std(differences, ddof=1) / np.sqrt(len(differences)))


def split(world: World, seed: int) -> NDArray[np.bool_]:
    return np.asarray(folds_of(len(world.users), 5, seed) == 0)


def learned(world: World, epsilon: str, options: ChannelMfOptions, seed: int) -> Model:
    held, policy = split(world, seed), Policy.make("bounded-laplace", STARS, epsilon)
    words = np.random.default_rng(seed).integers(0, 2**64, int((~held).sum()), dtype=np.uint64)
    symbols = policy.channel.draw(STARS.ranks_of(world.ratings[~held]), words)
    matrix = ReportMatrix.of_symbols(world.users[~held], world.items[~held], symbols, policy)
    return fit(matrix, options, np.random.default_rng(seed), threads=1)


def error_of(model: Model, world: World, seed: int) -> float:
    held = split(world, seed)
    errors = model.predict(world.users[held], world.items[held]).ratings - world.ratings[held]
    return float(np.sqrt(np.mean(errors**2)))


@pytest.mark.parametrize("epsilon", ["0.1", "0.5"])
def test_below_one_tuning_is_never_worse_than_the_defaults_beyond_chance(epsilon: str) -> None:
    differences = []
    for seed in range(6):
        world = make_world(STARS, shape=SMALL, seed=seed)
        tuned, default = (
            error_of(learned(world, epsilon, ChannelMfOptions(rank=2, tune=tune), seed), world, seed)
            for tune in (True, False)
        )
        differences.append(tuned - default)
    mean, error = paired(differences)
    assert mean <= 2 * error + 1e-4, differences


MULTIPLES = [(offsets, weights) for offsets in (1 / 3, 1.0, 3.0) for weights in (1 / 9, 1 / 3, 1.0)]


def set_defaults(patch: pytest.MonkeyPatch, offsets: float, weights: float) -> None:
    """Multiply the default variances of both sides."""
    for name, value in (("USER_OFFSET", 0.15 * offsets), ("_ITEM_OFFSET", 0.1 * offsets)):
        patch.setattr(module, name, value)
    for name, value in (("_USER_WEIGHTS", 0.15 * weights), ("_ITEM_WEIGHTS", 0.1 * weights)):
        patch.setattr(module, name, value)


@pytest.mark.parametrize("epsilon", ["1", "3"])
def test_from_one_on_tuning_finds_about_what_hindsight_would(epsilon: str) -> None:
    seeds = range(2)
    worlds = [make_world(STARS, shape=WorldShape(300, 150, 10_000), seed=seed) for seed in seeds]
    tuned = [
        error_of(learned(worlds[seed], epsilon, ChannelMfOptions(rank=0), seed), worlds[seed], seed) for seed in seeds
    ]
    grid = []
    for multiples in MULTIPLES:
        with pytest.MonkeyPatch.context() as patch:
            set_defaults(patch, *multiples)
            options = ChannelMfOptions(rank=0, tune=False)
            grid.append([error_of(learned(worlds[seed], epsilon, options, seed), worlds[seed], seed) for seed in seeds])
    best = np.array(grid).mean(axis=1).min()
    assert np.mean(tuned) <= 1.01 * best
    # Hindsight has something to choose from.
    assert np.array(grid).mean(axis=1).max() > 1.01 * best


def test_tuning_finds_about_what_hindsight_would_on_real_ratings(data_file: Callable[[str], Path]) -> None:
    data = load_data_set("ml-100k", data_file("ml-100k.parquet").parent)

    def error(options: ChannelMfOptions) -> float:
        setting = Setting("bounded-laplace", "1", options)
        return run_fold(data, setting, 0, threshold=3.4, threads=2).metrics.rmse

    tuned, grid = error(ChannelMfOptions(rank=0)), []
    for multiples in ((1 / 3, 1 / 3), (1.0, 1 / 3), (1.0, 1.0), (3.0, 1 / 3)):
        with pytest.MonkeyPatch.context() as patch:
            set_defaults(patch, *multiples)
            grid.append(error(ChannelMfOptions(rank=0, tune=False)))
    assert tuned <= 1.01 * min(grid), (tuned, grid)
