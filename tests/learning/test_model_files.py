from __future__ import annotations

import io
import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tacit.errors import FileError, ModelError
from tacit.learning.local_engine import LocalEngine
from tacit.learning.matrix import ReportMatrix
from tacit.learning.mixture import NoiseMixture
from tacit.learning.model import Model, Offsets, Provenance
from tacit.learning.trace import FitTrace, Iteration
from tacit.privacy.item_model import ItemModel
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HALVES = RatingScale.parse("0.5:5:0.5")
TRACE = FitTrace(
    (
        Iteration(1, 9.5, -1.25, 0.5, 0.01, (0.75, 0.25), (0.1, 1 / 3)),
        Iteration(2, 9.1, -1.2, 1e-5, 0.02, (0.7, 0.3), (1, 2)),
    ),
    "converged",
    ("iteration 2: component 1 emptied and was left out",),
)


def make_model(names: str = "ab", rank: int = 2, **changes: Any) -> Model:
    """A model of two users and three items; the last item has no report."""
    rng = np.random.default_rng(1)
    users, items = (names[0], names[0], names[1]), (1, 2, 1)
    matrix = ReportMatrix.of_values(users, items, np.ones(3, np.float32), HALVES, catalogue_items=[1, 2, 3])

    def floats(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    parts: dict[str, Any] = {
        "name": "mog-mf",
        "options": {"rank": rank, "tolerance": 1e-4, "start": "random", "offsets": True, "nothing": None},
        "scale": HALVES,
        "users": matrix.users,
        "items": matrix.items,
        "user_factors": floats(2, rank),
        "item_factors": floats(3, rank),
        "offsets": Offsets(1 / 3, floats(2), floats(3)),
        "fallback": Offsets(0.1, floats(2), floats(3)),
        "noise": NoiseMixture(np.array([0.9, 0.1]), np.array([1 / 7, 2.0])),
        "factor_ridge": 0.1,
        "offset_ridge": 0.25,
        "rated": LocalEngine(matrix, 1).rated(),
        "trace": TRACE,
        "provenance": Provenance(("5e" * 32,), matrix.checksum, 2**63, {"tacit": "0.1.0", "numpy": "2"}),
    }
    return Model(**parts | changes)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_same(one: Model, other: Model) -> None:
    for name in ("name", "options", "scale", "factor_ridge", "offset_ridge", "trace", "provenance"):
        assert getattr(one, name) == getattr(other, name)
    for read in (
        lambda model: model.users.ids,
        lambda model: model.items.ids,
        lambda model: model.user_factors,
        lambda model: model.item_factors,
        lambda model: model.offsets.users,
        lambda model: model.offsets.items,
        lambda model: model.fallback.users,
        lambda model: model.fallback.items,
        lambda model: model.noise.weights,
        lambda model: model.noise.variances,
        lambda model: model.rated.starts,
        lambda model: model.rated.columns,
        lambda model: np.array([model.offsets.mean, model.fallback.mean]),
    ):
        np.testing.assert_array_equal(read(one), read(other))
        assert read(one).dtype == read(other).dtype


@pytest.mark.parametrize("names", ["ab", "12", "\u00e9\U0001d11e"])
@pytest.mark.parametrize("rank", [0, 3])
def test_a_model_comes_back_as_it_was_saved(tmp_path: Path, names: str, rank: int) -> None:
    made = make_model(names, rank)
    made.save(tmp_path / "model")
    assert_same(Model.load(str(tmp_path / "model")), made)
    assert names_in(tmp_path / "model") == ["arrays.npz", "items", "model.json"]
    assert names_in(tmp_path) == ["model"]


def test_what_is_absent_comes_back_absent(tmp_path: Path) -> None:
    trace = FitTrace((Iteration(1, 1.0, None, 0.0, 0.0),), "closed form")
    made = make_model(offset_ridge=None, provenance=Provenance((), "0", None, {}), trace=trace)
    made.save(tmp_path / "model")
    assert_same(Model.load(tmp_path / "model"), made)


def test_the_public_part_is_complete_by_itself(tmp_path: Path) -> None:
    made = make_model()
    made.save(tmp_path / "model")
    (tmp_path / "model" / "items").rename(tmp_path / "public")
    public = ItemModel.load(tmp_path / "public")
    assert (public.scale, public.items.ids.tolist(), public.mean) == (HALVES, [1, 2], 1 / 3)
    np.testing.assert_array_equal(public.factors, made.item_model().as_published().factors)
    for file in (tmp_path / "public").iterdir():
        assert b"5e5e" not in file.read_bytes()
    assert_same(Model.load(tmp_path / "model"), made)


def test_the_document_says_what_the_model_was_made_from(tmp_path: Path) -> None:
    made = make_model()
    made.save(tmp_path / "model")
    document = json.loads((tmp_path / "model" / "model.json").read_bytes())
    content = (tmp_path / "model" / "arrays.npz").read_bytes()
    assert document["format"] == "tacit-model/1"
    assert document["files"]["arrays.npz"] == {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    assert document["policies"] == ["5e" * 32]
    assert document["scale"] == {"low": "0.5", "high": "5", "step": "0.5"}
    assert (document["seed"], document["users"], document["items"], document["reports"]) == (2**63, 2, 3, 3)
    assert document["data_checksum"] == made.provenance.data_checksum
    assert document["trace"]["stopped"] == "converged"


def test_the_same_model_makes_the_same_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_model().save(tmp_path / name)
    for part in ("model.json", "arrays.npz", "items/items.json", "items/items.npz"):
        assert (tmp_path / "one" / part).read_bytes() == (tmp_path / "two" / part).read_bytes()


def test_a_fit_that_ended_badly_can_still_be_kept(tmp_path: Path) -> None:
    trace = FitTrace((Iteration(1, float("nan"), None, float("inf"), 0.1),), "interrupted")
    make_model(trace=trace).save(tmp_path / "model")
    json.loads((tmp_path / "model" / "model.json").read_bytes(), parse_constant=pytest.fail)
    assert np.isnan(Model.load(tmp_path / "model").trace.objective)


def test_a_model_or_an_empty_folder_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    make_model().save(target)
    make_model(rank=1).save(target)
    assert Model.load(target).rank == 1
    (target / "items" / "diary.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(FileError, match="holds 'items', not only a tacit-model/1; choose another folder"):
        make_model().save(target)
    (target / "items" / "diary.txt").unlink()
    (target / "items").rename(tmp_path / "public")
    make_model().save(target)
    with pytest.raises(FileError, match=r"holds 'items.json', not only a tacit-model/1"):
        make_model().save(tmp_path / "public")
    with pytest.raises(ModelError, match=r"model\.json"):
        Model.load(tmp_path / "public")


def arrays_with(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        with np.load(folder / "arrays.npz") as saved:
            arrays = {name: array for name, array in (dict(saved) | changes).items() if array is not None}
        file = io.BytesIO()
        np.savez(file, **arrays)
        content = file.getvalue()
        (folder / "arrays.npz").write_bytes(content)
        edited(files={"arrays.npz": {"bytes": len(content), "sha256": sha256(content).hexdigest()}})(folder)

    return edit


def edited(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        document = json.loads((folder / "model.json").read_bytes())
        for name, value in changes.items():
            document.pop(name) if value is ... else document.update({name: value})
        (folder / "model.json").write_text(json.dumps(document), encoding="utf-8")

    return edit


def traced(**changes: Any) -> Callable[[Path], None]:
    return edited(trace=TRACE.to_document() | changes)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no document": (lambda folder: (folder / "model.json").unlink(), "there is no file .*model.json"),
    "a later format": (edited(format="tacit-model/2"), "not of the format tacit-model/1; .*update tacit"),
    "no name": (edited(name=...), "name is absent, not text"),
    "options in a list": (edited(options=[]), "options is .., not an object"),
    "no mean": (edited(mean=None), "mean is None, not a finite number"),
    "no fallback": (edited(fallback_mean="3"), "fallback_mean is '3', not a finite number"),
    "half a mixture": (edited(noise={"weights": [1.0]}), "noise: variances is absent"),
    "a mixture of words": (edited(noise={"weights": ["x"], "variances": [1]}), "weights is .*, not a list of numbers"),
    "an uneven mixture": (edited(noise={"weights": [1.0], "variances": [1, 2]}), "1 to 16 components"),
    "no ridge": (edited(offset_ridge=...), "offset_ridge is absent"),
    "a negative ridge": (edited(factor_ridge=-3), "ridge of factors is -3"),
    "a seed of text": (edited(seed="7"), "seed is '7', not a whole number"),
    "a negative seed": (edited(seed=-7), "seed is -7, not a whole number"),
    "policies of numbers": (edited(policies=[1]), "policies is .1., not a list of texts"),
    "versions of numbers": (edited(versions={"tacit": 1}), "versions: tacit is 1, not text"),
    "no trace": (edited(trace=...), "trace is absent"),
    "an empty trace": (edited(trace={}), "trace: objective is absent"),
    "a trace of words": (traced(objective=["low", "lower"]), "objective is .*, not a list of numbers"),
    "an uneven trace": (traced(seconds=[1]), "not as long as the other series"),
    "weights in a row": (traced(weights=[1, 2]), "weights is .*, not a list of numbers"),
    "no reason": (traced(stopped=None), "stopped is None, not text"),
    "notes in a text": (traced(notes="none"), "notes is 'none', not a list of texts"),
    "no arrays": (lambda folder: (folder / "arrays.npz").unlink(), "there is no file .*arrays.npz"),
    "other arrays": (
        lambda folder: (folder / "arrays.npz").write_bytes((folder / "items" / "items.npz").read_bytes()),
        "not the file its document describes",
    ),
    "no user factors": (arrays_with(user_factors=None), "has no array 'user_factors'"),
    "no user names": (arrays_with(user_names_text=None), "'user_names_text' of the ids is missing"),
    "factors of another rank": (arrays_with(item_factors=np.ones((3, 1), np.float32)), "item factors are float32"),
    "factors not finite": (arrays_with(user_factors=np.full((2, 2), np.nan, np.float32)), "not all finite"),
    "offsets in doubles": (arrays_with(user_offsets=np.ones(2)), "user offsets are float64"),
    "starts of another type": (arrays_with(rated_starts=np.zeros(3, np.int32)), "one for each of 2 users"),
    "starts beyond": (arrays_with(rated_starts=np.array([0, 2, 9])), "do not rise from 0 to 3"),
    "starts that fall": (arrays_with(rated_starts=np.array([0, 9, 3])), "do not rise from 0 to 3"),
    "items beyond": (arrays_with(rated_columns=np.array([0, 1, 5], np.int32)), "not from 0 to 2"),
    "items that fall": (arrays_with(rated_columns=np.array([1, 0, 0], np.int32)), "do not rise"),
    "items of another type": (arrays_with(rated_columns=np.zeros(3, np.int64)), "one for each of 2 users"),
    "items in a table": (arrays_with(rated_columns=np.zeros((3, 1), np.int32)), "one for each of 2 users"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_folder_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    damage, complaint = DAMAGE[case]
    make_model().save(tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(ModelError, match=complaint) as refused:
        Model.load(tmp_path / "model")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300 + 2 * len(str(tmp_path))


def test_a_link_to_a_model_is_read_but_never_replaced(tmp_path: Path) -> None:
    make_model().save(tmp_path / "model")
    (tmp_path / "link").symlink_to(tmp_path / "model")
    assert_same(Model.load(tmp_path / "link"), make_model())
    with pytest.raises(FileError, match="a file or a link"):
        make_model().save(tmp_path / "link")
