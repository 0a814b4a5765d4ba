from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.errors import FileError, ModelError
from tacit.privacy.item_model import Beliefs, ItemModel, ItemPattern
from tacit.privacy.scale import RatingScale
from tacit.privacy.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FINE = RatingScale.parse("-10:10:0.25")


def make_items(ids: Any = ("a", "b", "7"), rank: int = 2) -> ItemModel:
    rng = np.random.default_rng(3)
    factors = rng.normal(size=(len(ids), rank)).astype(np.float32)
    return ItemModel(FINE, Vocabulary.of(list(ids)), 0.1, rng.normal(size=len(ids)).astype(np.float32), factors)


def noise(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


def make_beliefs(items: int = 3, rank: int = 2, **changes: Any) -> Beliefs:
    rng = np.random.default_rng(4)
    made = {
        "residual_variance": 0.9,
        "offset_variance": 0.1,
        "factor_variances": noise(rng, rank) ** 2 + np.float32(0.01),
        "item_offset_variances": noise(rng, items) ** 2,
        "item_factor_variances": noise(rng, items, rank) ** 2,
    }
    return Beliefs(**(made | changes))


def make_pattern(items: int = 3, traits: int = 4, places: int = 1, **changes: Any) -> ItemPattern:
    rng = np.random.default_rng(5)
    made = {
        "traits": noise(rng, items, traits),
        "trait_variances": noise(rng, traits) ** 2 + np.float32(0.01),
        "responses": noise(rng, items, places),
        "shares": np.abs(noise(rng, items)) + np.float32(0.01),
        "place_scale": noise(rng, places),
    }
    return ItemPattern(**(made | changes))


def make_full(ids: Any = ("a", "b", "7"), rank: int = 2, traits: int = 4, places: int = 1) -> ItemModel:
    plain, items = make_items(ids, rank), len(ids)
    return replace(plain, beliefs=make_beliefs(items, rank), pattern=make_pattern(items, traits, places))


def arrays_of(model: ItemModel) -> dict[str, Any]:
    """Name every array of a model."""
    parts = [part for part in (model, model.beliefs, model.pattern) if part is not None]
    return {name: value for part in parts for name, value in vars(part).items() if isinstance(value, np.ndarray)}


def assert_same(one: ItemModel, other: ItemModel) -> None:
    """Compare models bit for bit."""
    assert (one.scale, one.mean, one.items.ids.tolist()) == (other.scale, other.mean, other.items.ids.tolist())
    assert (one.beliefs is None, one.pattern is None) == (other.beliefs is None, other.pattern is None)
    if one.beliefs is not None and other.beliefs is not None:
        assert one.beliefs.residual_variance == other.beliefs.residual_variance
        assert one.beliefs.offset_variance == other.beliefs.offset_variance
    first, second = arrays_of(one), arrays_of(other)
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.dtype == second[name].dtype == np.float32
        assert array.shape == second[name].shape
        assert array.tobytes() == second[name].tobytes(), name


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("ids", [("a", "b", "7"), (5, 6), ("\u00e9\U0001d11e",)])
@pytest.mark.parametrize("rank", [0, 1, 20])
@pytest.mark.parametrize("make", [make_items, make_full])
def test_an_item_model_comes_back_as_published(tmp_path: Path, ids: Any, rank: int, make: Any) -> None:
    made = make(ids, rank)
    made.save(tmp_path / "items")
    again = ItemModel.load(tmp_path / "items")
    assert (again.scale, again.mean, again.rank) == (made.scale, made.mean, rank)
    assert again.items.ids.tolist() == list(ids)
    assert_same(again, made.as_published())
    assert_same(again, again.as_published())
    for name, array in arrays_of(again).items():
        assert not array.flags.writeable
        original = arrays_of(made)[name]
        np.testing.assert_allclose(array, original, atol=np.abs(original).max(initial=0) / 127)
    assert names_in(tmp_path / "items") == ["items.json", "items.npz"]
    assert names_in(tmp_path) == ["items"]
    with np.load(tmp_path / "items" / "items.npz", allow_pickle=False) as arrays:  # any NumPy can read it
        assert arrays["factors"].shape == (rank, len(ids))
        assert arrays["factors"].dtype == np.int8


@pytest.mark.parametrize(("traits", "places"), [(2, 0), (3, 0), (3, 1), (512, 510)])
def test_a_pattern_may_be_as_small_or_large_as_this(tmp_path: Path, traits: int, places: int) -> None:
    made = make_full(traits=traits, places=places)
    made.save(tmp_path / "items")
    assert_same(ItemModel.load(tmp_path / "items"), made.as_published())


def test_beliefs_come_back_without_a_pattern(tmp_path: Path) -> None:
    made = replace(make_items(), beliefs=make_beliefs())
    made.save(tmp_path / "items")
    assert_same(ItemModel.load(tmp_path / "items"), made.as_published())


def test_what_is_uncertain_stays_so_however_little() -> None:
    tiny = np.array([1e-30, 0, 1e4], np.float32)
    beliefs = make_beliefs(item_offset_variances=tiny, item_factor_variances=np.stack([tiny, tiny[::-1]], axis=1))
    read = replace(make_items(), beliefs=beliefs).as_published().beliefs
    assert read is not None
    np.testing.assert_array_equal(read.item_offset_variances > 0, [True, False, True])
    np.testing.assert_array_equal(read.item_factor_variances > 0, [[True, True], [False, False], [True, True]])


def test_the_size_of_movielens_is_small(tmp_path: Path) -> None:
    made = make_full(np.random.default_rng(0).permutation(1682), rank=8, traits=50, places=16)
    made.save(tmp_path / "items")
    assert sum(path.stat().st_size for path in (tmp_path / "items").iterdir()) < 150_000


def test_large_arrays_are_stored_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.privacy.array_folders.LARGEST_COMPRESSED", 5000)
    for size in (10, 10_000):
        none, nothing = np.zeros(size, np.float32), np.zeros((size, 1), np.float32)
        made = ItemModel(FINE, Vocabulary.of(np.arange(size)), 0.0, none, nothing)
        made.save(tmp_path / "items")
        with zipfile.ZipFile(tmp_path / "items" / "items.npz") as archive:
            kinds = {entry.compress_type for entry in archive.infolist()}
        assert kinds == {zipfile.ZIP_DEFLATED if size == 10 else zipfile.ZIP_STORED}
        assert_same(ItemModel.load(tmp_path / "items"), made)


def test_a_score_is_mean_offsets_and_product() -> None:
    made = make_items()
    vector = np.array([0.5, -2.0])
    expected = 0.1 + 0.25 + made.offsets + made.factors @ vector
    np.testing.assert_allclose(made.scores(vector, 0.25), expected, rtol=1e-6)
    np.testing.assert_allclose(made.scores([0.5, -2.0], 0.25), expected, rtol=1e-6)
    assert made.scores([0, 0]).dtype == np.float32
    for bad in ([1.0], [[1.0, 2.0]], [1.0, float("nan")]):
        with pytest.raises(ModelError, match="is not 2 finite numbers"):
            made.scores(bad)


def test_a_pattern_adds_traits_and_responses() -> None:
    made = make_full()
    pattern = made.pattern
    assert pattern is not None
    weights, place = np.array([1.0, -2.0, 0.5, 3.0]), np.array([0.7])
    plain = 0.1 + made.offsets + made.factors @ [0.5, -2.0]
    np.testing.assert_allclose(made.scores([0.5, -2.0]), plain, rtol=1e-6)
    expected = plain + pattern.traits @ weights + pattern.responses @ place
    np.testing.assert_allclose(made.scores([0.5, -2.0], trait_weights=weights, place=place), expected, rtol=1e-5)
    for bad, complaint in (
        ({"trait_weights": [1.0]}, "row of trait weights of shape .* is not 4 finite"),
        ({"place": [1.0, 2.0]}, "place of shape .* is not 1 finite"),
        ({"place": [np.inf]}, "place of shape .* is not 1 finite"),
        ({"offset": np.nan}, "an offset of nan is not"),
    ):
        with pytest.raises(ModelError, match=complaint):
            made.scores([0, 0], **bad)
    with pytest.raises(ModelError, match="has no pattern"):
        make_items().scores([0, 0], place=[])


def test_a_place_follows_from_what_was_rated() -> None:
    pattern = make_pattern(places=2)
    rated = np.array([2, 0])
    expected = pattern.shares[2] * pattern.traits[2, 2:4] + pattern.shares[0] * pattern.traits[0, 2:4]
    np.testing.assert_allclose(pattern.place_of(rated), pattern.place_scale * 2**-0.25 * expected, rtol=1e-6)
    np.testing.assert_array_equal(pattern.place_of(rated[:0]), [0, 0])


def test_chances_follow_from_what_was_rated() -> None:
    reports = np.array([400.0, 80.0, 20.0])
    embedding = np.array([[0.1, 0.2], [-0.2, 0.1], [0.3, 0.0]], np.float32)
    traits = np.hstack([np.zeros((3, 2), np.float32), embedding])
    pattern = replace(make_pattern(), traits=traits, shares=(reports**-0.4).astype(np.float32))
    np.testing.assert_allclose(pattern.chances_of(np.array([], np.int64)), [0.8, 0.16, 0.04], rtol=1e-5)
    person = (reports[[0, 2]] ** -0.4) @ embedding[[0, 2]] / np.square(embedding).sum(axis=0)
    expected = 2 * reports / 500 + embedding @ person * reports**0.4
    assert expected[0] > 1
    assert expected[1] < 0
    np.testing.assert_allclose(pattern.chances_of(np.array([2, 0])), [1, 0.01 * 0.32, expected[2]], rtol=1e-5)
    flat = replace(pattern, traits=np.zeros((3, 4), np.float32))
    np.testing.assert_allclose(flat.chances_of(np.array([0])), [0.8, 0.16, 0.04], rtol=1e-5)
    none = np.zeros((3, 0), np.float32)
    counts_only = ItemPattern(traits[:, :2].copy(), np.ones(2, np.float32), none, pattern.shares, none[0])
    np.testing.assert_allclose(counts_only.chances_of(np.array([0, 1])), [1, 0.32, 0.08], rtol=1e-5)
    assert counts_only.embedded_variance == 0
    assert counts_only.directions.shape == (3, 0)


@pytest.mark.parametrize("size", [1e-30, 1e-20, 1.0, 1e15])
@pytest.mark.parametrize("share", [1e-29, 1.0, 1e15])
def test_chances_of_extreme_patterns_are_chances(size: float, share: float) -> None:
    mixed = np.array([1, share, 1e-29], np.float32)
    traits = np.full((3, 4), size, np.float32) * np.array([[1], [-1], [0.5]], np.float32)
    for rated in (np.array([], np.int64), np.array([1]), np.array([0, 1, 2])):
        found = replace(make_pattern(), traits=traits, shares=mixed).chances_of(rated)
        assert ((found >= 0) & (found <= 1)).all()


def test_beliefs_and_patterns_that_make_no_sense_are_refused() -> None:
    ones = np.ones((3, 2), np.float32)
    for make, complaint in (
        (lambda: make_beliefs(residual_variance=0.0), "the residual variance is 0.0, not from 1e-30"),
        (lambda: make_beliefs(residual_variance=np.nan), "the residual variance is nan"),
        (lambda: make_beliefs(offset_variance=-1.0), "the variance of offsets is -1.0"),
        (lambda: make_beliefs(offset_variance=1e16), "the variance of offsets is 1e.16"),
        (lambda: make_beliefs(factor_variances=np.zeros(2, np.float32)), "variances of factors go down to 0"),
        (lambda: make_beliefs(factor_variances=ones[:, 0]), "variances of factors are float32 of shape"),
        (lambda: make_beliefs(item_offset_variances=-ones[:, 0]), "variances of item offsets go down to -1"),
        (lambda: make_beliefs(item_factor_variances=-ones), "variances of item factors go down to -1"),
        (lambda: make_beliefs(item_factor_variances=ones * np.nan), "variances of item factors are not all finite"),
        (lambda: make_beliefs(item_factor_variances=ones[:, 0]), "variances of factors are float32"),
        (lambda: make_pattern(places=3), "4 traits and 3 responses do not fit"),
        (lambda: make_pattern(traits=1, places=0), "1 traits and 0 responses do not fit"),
        (lambda: make_pattern(traits=513), "513 traits .* 512 at most"),
        (lambda: replace(make_pattern(), traits=ones[:, 0]), "0 traits and 1 responses"),
        (lambda: make_pattern(trait_variances=np.zeros(4, np.float32)), "variances of traits go down to 0"),
        (lambda: make_pattern(shares=ones[0]), "item shares are float32 of shape"),
        (lambda: make_pattern(shares=np.zeros(3, np.float32)), "item shares go down to 0, the least is 1e-30"),
        (lambda: make_pattern(shares=-ones[:, 0]), "item shares go down to -1"),
        (lambda: make_pattern(responses=ones.astype(np.float64)), "item responses are float64"),
        (lambda: make_pattern(place_scale=ones[0]), "scales of places are float32 of shape"),
        (lambda: replace(make_items(), beliefs=make_beliefs(items=4)), "do not fit factors"),
        (lambda: replace(make_items(), beliefs=make_beliefs(rank=1)), "do not fit factors"),
        (lambda: replace(make_full(), pattern=make_pattern(items=4)), "a pattern of 4 items does not fit 3"),
        (lambda: replace(make_items(), pattern=make_pattern()), "a pattern but no beliefs"),
        (lambda: make_items(rank=513), "rank 513 is above the limit of 512"),
    ):
        with pytest.raises(ModelError, match=complaint):
            make()


def test_parts_that_do_not_fit_are_refused() -> None:
    words, ones = Vocabulary.of(["a", "b"]), np.ones(2, np.float32)
    table = np.ones((2, 1), np.float32)
    for parts, complaint in (
        ((words, np.nan, ones, table), "the mean is nan"),
        ((words, 0.0, ones[:1], table), "item offsets are float32 of shape"),
        ((words, 0.0, ones, table[:1]), "item factors are float32 of shape"),
        ((words, 0.0, ones, ones), "item factors are float32 of shape"),
        ((words, 0.0, ones, table * np.inf), "not all finite"),
        ((words, 0.0, ones, table.astype(np.float64)), "item factors are float64"),
        ((Vocabulary.of([]), 0.0, ones[:0], table[:0]), "without items"),
    ):
        with pytest.raises(ModelError, match=complaint):
            ItemModel(FINE, *parts)
    with pytest.raises(ValueError, match="read-only"):
        make_items().factors[0] = 1


def test_an_item_model_or_an_empty_folder_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "items"
    target.mkdir()
    make_items().save(target)
    make_items(("x",)).save(str(target))
    assert ItemModel.load(target).items.ids.tolist() == ["x"]
    assert names_in(tmp_path) == ["items"]


def occupied(target: Path, how: str) -> None:
    """Put something in the way that must survive."""
    target.parent.mkdir(exist_ok=True)
    if how == "file":
        target.write_text("mine", encoding="utf-8")
    elif how == "link":
        (target.parent / "elsewhere").mkdir()
        target.symlink_to(target.parent / "elsewhere")
    elif how == "dangling link":
        target.symlink_to(target.parent / "nowhere")
    else:
        make_items().save(target) if how in {"extra file", "other format", "no JSON"} else target.mkdir()
        {
            "extra file": lambda: (target / "notes.txt").write_text("mine", encoding="utf-8"),
            "only a file": lambda: (target / "thesis.doc").write_text("mine", encoding="utf-8"),
            "other format": lambda: (target / "items.json").write_text('{"format": "x"}', encoding="utf-8"),
            "no JSON": lambda: (target / "items.json").write_bytes(b"\xff"),
        }[how]()


@pytest.mark.parametrize(
    "how", ["file", "link", "dangling link", "extra file", "only a file", "other format", "no JSON"]
)
def test_nothing_else_is_ever_replaced(tmp_path: Path, how: str) -> None:
    target = tmp_path / "place" / "items"
    occupied(target, how)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(FileError, match="choose another"):
        make_items().save(target)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a\0b", "absent/items"])
def test_a_name_that_is_no_folders_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=r"choose another|make it first"):
        make_items().save(name)
    assert names_in(tmp_path) == []


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_items().save(tmp_path / "items")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(FileError, match=r"cannot write .*items: No space left on device; free space"):
        make_items(("x",)).save(tmp_path / "items")
    monkeypatch.undo()
    assert ItemModel.load(tmp_path / "items").items.ids.tolist() == ["a", "b", "7"]
    assert names_in(tmp_path) == ["items"]


def test_the_old_folder_comes_back_when_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_items().save(tmp_path / "items")
    rename = type(tmp_path).rename

    def refuse_new(self: Path, target: Path) -> Path:
        if self.name.endswith(".partial"):
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(type(tmp_path), "rename", refuse_new)
    with pytest.raises(FileError, match="Permission denied"):
        make_items(("x",)).save(tmp_path / "items")
    assert ItemModel.load(tmp_path / "items").items.ids.tolist() == ["a", "b", "7"]
    assert names_in(tmp_path) == ["items"]


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path: Path) -> None:
    code = """
import resource, signal, numpy as np
from tacit import RatingScale
from tacit.errors import FileError
from tacit.privacy.item_model import ItemModel
from tacit.privacy.vocabulary import Vocabulary
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
many = np.random.default_rng(0).normal(size=(5000, 4)).astype(np.float32)
try:
    ItemModel(RatingScale.parse("1:5:1"), Vocabulary.of(np.arange(5000)), 0.0, many[:, 0].copy(), many).save("items")
except FileError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "cannot write items: File too large; free space or choose another place\n"
    assert done.stderr == ""
    assert names_in(tmp_path) == []


def arrays_file(arrays: dict[str, Any], **how: Any) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if how.get("compressed") else np.savez)(file, **arrays)
    return file.getvalue()


def sealed(folder: Path, content: bytes) -> None:
    """Put other arrays into a folder, with a document that says they are right."""
    (folder / "items.npz").write_bytes(content)
    document = json.loads((folder / "items.json").read_bytes())
    document["files"]["items.npz"] = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    (folder / "items.json").write_text(json.dumps(document), encoding="utf-8")


def edited(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        document = json.loads((folder / "items.json").read_bytes())
        for name, value in changes.items():
            document.pop(name) if value is ... else document.update({name: value})
        (folder / "items.json").write_text(json.dumps(document), encoding="utf-8")

    return edit


def arrays_with(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        with np.load(folder / "items.npz") as saved:
            arrays = {name: array for name, array in (dict(saved) | changes).items() if array is not None}
        sealed(folder, arrays_file(arrays))

    return edit


def replaced(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content) and None


def pipe(folder: Path) -> None:
    (folder / "items.npz").unlink()
    os.mkfifo(folder / "items.npz")


def endless(folder: Path) -> None:
    (folder / "items.npz").unlink()
    (folder / "items.npz").symlink_to("/dev/zero")


def npy_only(folder: Path) -> None:
    file = io.BytesIO()
    np.save(file, np.ones(3))
    sealed(folder, file.getvalue())


def bomb(method: int, size: int) -> Callable[[Path], None]:
    """Zeros that take a thousand times less on disk than in memory."""

    def plant(folder: Path) -> None:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive, archive.open("factors.npy", "w") as stream:
            np.lib.format.write_array(stream, np.zeros(size, np.int8))
        sealed(folder, file.getvalue())

    return plant


def lying_size(folder: Path) -> None:
    """A bomb whose directory says that it is small."""
    bomb(zipfile.ZIP_DEFLATED, 2**24)(folder)
    content = (folder / "items.npz").read_bytes()
    said = (2**24 + 128).to_bytes(4, "little")
    sealed(folder, content.replace(said, (2**10).to_bytes(4, "little")))


def lying_header(folder: Path) -> None:
    """An array that claims to be far larger than its file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, archive.open("factors.npy", "w") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (10**14, 1000)})
    sealed(folder, file.getvalue())


def pickled(folder: Path) -> None:
    file = io.BytesIO()
    np.savez(file, factors=np.array([{"code": print}, None], dtype=object))
    sealed(folder, file.getvalue())


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no document": (lambda folder: (folder / "items.json").unlink(), "there is no file .*items.json; give a folder"),
    "no arrays": (lambda folder: (folder / "items.npz").unlink(), "there is no file .*items.npz"),
    "truncated document": (replaced("items.json", b'{"format": "tacit-items/2"'), "not a complete JSON document"),
    "binary document": (replaced("items.json", b"\xff\xfe"), "not UTF-8"),
    "a field twice": (replaced("items.json", b'{"format": 1, "format": 2}'), "names a field twice"),
    "deep document": (replaced("items.json", b"[" * 100_000), "nested too deeply|not a complete"),
    "a list": (replaced("items.json", b"[]"), "not of the format tacit-items/2"),
    "a later format": (edited(format="tacit-items/3"), "not of the format tacit-items/2; .*update tacit"),
    "no scale": (edited(scale=...), "scale is absent, not an object"),
    "half a scale": (edited(scale={"low": "1", "high": "5"}), "step is absent, not text"),
    "an uneven scale": (edited(scale={"low": "1", "high": "5", "step": "3"}), "does not divide"),
    "a scale of floats": (edited(scale={"low": 1, "high": 5, "step": 1}), "low is 1, not text"),
    "no mean": (edited(mean=...), "mean is absent"),
    "mean null": (edited(mean=None), "mean is None, not a finite number"),
    "mean true": (edited(mean=True), "mean is True, not a finite number"),
    "mean NaN": (edited(mean=float("nan")), "mean is nan, not a finite number"),
    "mean beyond floats": (edited(mean=10**400), "not a finite number"),
    "mean beyond sense": (edited(mean=1e300), "the mean is 1e.300"),
    "an earlier format": (edited(format="tacit-items/1"), "not of the format tacit-items/2"),
    "another encoding": (edited(encoding="float32"), "encoding 'float32' is not known; update tacit"),
    "another rank": (edited(rank=3), "rank is 3, not the 2 columns of the array"),
    "no word on beliefs": (edited(beliefs=...), "beliefs is absent, not an object"),
    "no word on the pattern": (edited(pattern=...), "pattern is absent, not an object"),
    "beliefs of text": (edited(beliefs="many"), "beliefs is 'many', not an object"),
    "beliefs without variance": (edited(beliefs={"offset_variance": 1}), "residual_variance is absent"),
    "a negative variance": (edited(beliefs={"offset_variance": -1, "residual_variance": 1}), "offsets is -1"),
    "a pattern alone": (edited(beliefs=None), "a pattern but no beliefs"),
    "other traits": (edited(pattern={"traits": 5, "responses": 1}), "traits is 5, not the 4 columns"),
    "other responses": (edited(pattern={"traits": 4, "responses": 2}), "responses is 2, not the 1 columns"),
    "a negative rank": (edited(rank=-1), "rank is -1, not a whole number"),
    "no files": (edited(files=...), "files is absent"),
    "other files": (edited(files={"x.npz": {}}), "items.npz is absent"),
    "no checksum": (edited(files={"items.npz": {"bytes": 1}}), "sha256 is absent"),
    "another size": (edited(files={"items.npz": {"bytes": 1, "sha256": ""}}), "not the file its document describes"),
    "truncated arrays": (
        lambda folder: (folder / "items.npz").write_bytes((folder / "items.npz").read_bytes()[:-9]),
        "not the file its document describes",
    ),
    "garbled arrays": (
        lambda folder: (folder / "items.npz").write_bytes((folder / "items.npz").read_bytes()[:-1] + b"x"),
        "not the file its document describes",
    ),
    "arrays from a pipe": (pipe, "there is no file"),
    "arrays without end": (endless, "there is no file"),
    "arrays that are no zip": (lambda folder: sealed(folder, b"PK\3\4 and so on"), "does not hold plain arrays"),
    "nothing at all": (lambda folder: sealed(folder, b""), "does not hold plain arrays"),
    "one array alone": (npy_only, "does not hold plain arrays"),
    "a pickled object": (pickled, "does not hold plain arrays"),
    "an array larger than its file": (lying_header, "does not hold plain arrays"),
    "a bomb": (bomb(zipfile.ZIP_DEFLATED, 2**26 + 1), "does not hold plain arrays"),
    "a bomb that says it is small": (lying_size, "does not hold plain arrays"),
    "arrays compressed in another way": (bomb(zipfile.ZIP_LZMA, 2**20), "does not hold plain arrays"),
    "other arrays": (lambda folder: sealed(folder, arrays_file({"x": np.ones(2)})), "'item_names_text' of the ids"),
    "no factors": (arrays_with(factors=None), "has no array 'factors'"),
    "factors of another type": (arrays_with(factors=np.ones((3, 2), ">f4")), "item factors are >f4"),
    "factors of wide codes": (arrays_with(factors=np.ones((3, 2), np.int16)), "item factors are int16"),
    "factors of others": (arrays_with(factors=np.ones((4, 2), np.int8)), "item factors are float32 of shape"),
    "factors without shape": (arrays_with(factors=np.int8(1)), "item factors are int8 of shape"),
    "factors without scales": (arrays_with(factors_scales=None), "has no array 'factors_scales'"),
    "scales of others": (arrays_with(factors_scales=np.ones(2, np.float32)), "scales of item factors are float32 of"),
    "infinite scales": (arrays_with(factors_scales=np.full(3, np.inf, np.float32)), "not all finite"),
    "scales that are not numbers": (arrays_with(traits_scales=np.full(4, np.nan, np.float32)), "not all finite"),
    "large codes and scales": (
        arrays_with(factors=np.full((2, 3), 127, np.int8), factors_scales=np.full(3, 9e14, np.float32)),
        "item factors are not all finite",
    ),
    "negative uncertainties": (
        arrays_with(factor_variances=np.full((3, 2), -1, np.int8)),
        "variances of item factors go down to -",
    ),
    "no variances": (arrays_with(person_trait_variances=None), "has no array 'person_trait_variances'"),
    "variances in a table": (arrays_with(person_factor_variances=np.ones((2, 2), np.float32)), "2-dimensional"),
    "too few variances": (arrays_with(person_trait_variances=np.ones(3, np.float32)), "variances of traits are"),
    "a variance of zero": (arrays_with(person_factor_variances=np.zeros(2, np.float32)), "factors go down to 0"),
    "a pattern of others": (
        arrays_with(traits=np.ones((9, 4), np.int8), responses=np.ones((9, 1), np.int8), shares=np.ones(9, np.int16)),
        "a pattern of 9 items does not fit 3 items",
    ),
    "an id twice": (arrays_with(item_names_ids=np.array([1, 1, 2])), "'1' is there twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_folder_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    damage, complaint = DAMAGE[case]
    make_full().save(tmp_path / "items")
    damage(tmp_path / "items")
    with pytest.raises(ModelError, match=complaint) as refused:
        ItemModel.load(tmp_path / "items")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300 + 2 * len(str(tmp_path))


def test_a_document_without_end_is_not_read(tmp_path: Path) -> None:
    make_items().save(tmp_path / "items")
    with (tmp_path / "items" / "items.json").open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(FileError, match="larger than the limit"):
        ItemModel.load(tmp_path / "items")
    for odd in ("a\0b", "", tmp_path / "absent", tmp_path / "items" / "items.npz"):
        with pytest.raises(ModelError, match="there is no file"):
            ItemModel.load(odd)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.data())
def test_whatever_the_bytes_the_answer_is_a_model_or_an_error_of_ours(tmp_path: Path, data: st.DataObject) -> None:
    folder = tmp_path / "items"
    make_full().save(folder)
    if data.draw(st.booleans()):  # damage then reaches the arrays and not only their compression
        with np.load(folder / "items.npz") as saved:
            sealed(folder, arrays_file(dict(saved)))
    content = bytearray((folder / "items.npz").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    sealed(folder, bytes(content[: data.draw(st.sampled_from([len(content), len(content) // 2]))]))
    with suppress(ModelError):
        assert ItemModel.load(folder).rank == 2
