"""The part of a model learned through channels comes back from disk as it was, or is refused."""

from __future__ import annotations

import io
import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tacit.errors import ModelError
from tacit.learning import ChannelMfOptions, Model, ReportMatrix, fit
from tacit.privacy.item_model import ItemModel
from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STARS = RatingScale.parse("1:5:1")


def model_of(**options: Any) -> Model:
    """A model of reports under two policies."""
    rng = np.random.default_rng(4)
    users, items = np.nonzero(rng.random((25, 20)) < 0.5)
    first, parts = users % 2 == 0, []
    for own, epsilon in ((first, "2"), (~first, "4")):
        policy = Policy.make("randomized-response", STARS, epsilon)
        parts.append((users[own], items[own], rng.integers(0, 5, int(own.sum())), policy))
    return fit(ReportMatrix.of_parts(parts), ChannelMfOptions(**{"iterations": 4, **options}), np.random.default_rng(0))


@pytest.fixture(scope="module")
def model() -> Model:
    return model_of()


@pytest.mark.parametrize("options", [{}, {"pattern": False}, {"reports": False}, {"rank": 0}], ids=str)
def test_the_part_comes_back_as_it_was(options: dict[str, Any], tmp_path: Path) -> None:
    made = model_of(**options)
    made.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    one, other = made.channel, again.channel
    assert one is not None
    assert other is not None
    assert (one.pattern is None) == (other.pattern is None) == (options == {"pattern": False})
    pairs: list[tuple[Any, Any]] = [(one.beliefs, other.beliefs), *zip(one.readings, other.readings, strict=True)]
    pairs += [] if one.pattern is None else [(one.pattern, other.pattern)]
    for mine, theirs in pairs:
        for name in mine.__dataclass_fields__:
            before, after = np.asarray(getattr(mine, name)), np.asarray(getattr(theirs, name))
            np.testing.assert_array_equal(after, before)
            assert after.dtype == before.dtype
    assert len(one.readings) == 2
    public = ItemModel.load(tmp_path / "model" / "items")
    expected = made.item_model().as_published()
    np.testing.assert_array_equal(public.scores(np.zeros(public.rank)), expected.scores(np.zeros(public.rank)))


def edited(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        document = json.loads((folder / "model.json").read_bytes())
        for name, value in changes.items():
            document["channel"].pop(name) if value is ... else document["channel"].update({name: value})
        (folder / "model.json").write_text(json.dumps(document), encoding="utf-8")

    return edit


def arrays_with(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        with np.load(folder / "arrays.npz") as saved:
            arrays = {name: array for name, array in (dict(saved) | changes).items() if array is not None}
        file = io.BytesIO()
        np.savez(file, **arrays)
        (folder / "arrays.npz").write_bytes(file.getvalue())
        document = json.loads((folder / "model.json").read_bytes())
        size, digest = len(file.getvalue()), sha256(file.getvalue()).hexdigest()
        document["files"]["arrays.npz"] = {"bytes": size, "sha256": digest}
        (folder / "model.json").write_text(json.dumps(document), encoding="utf-8")

    return edit


DAMAGE: dict[str, Callable[[Path], None]] = {
    "no residual variance": edited(residual_variance=...),
    "a negative residual variance": edited(residual_variance=-1.0),
    "a variance of text": edited(offset_variance="wide"),
    "fewer variances than policies": edited(noise_variances=[1.0]),
    "a negative noise": edited(noise_variances=[1.0, -1.0]),
    "policies of numbers": edited(policies=[1, 2]),
    "a third policy": edited(policies=["a", "b", "c"], noise_variances=[1.0, 1.0, 1.0]),
    "beliefs missing": arrays_with(item_offset_variances=None),
    "beliefs of other items": arrays_with(item_offset_variances=np.ones(3, np.float32)),
    "beliefs not finite": arrays_with(item_offset_variances=np.full(20, np.nan, np.float32)),
    "beliefs in doubles": arrays_with(item_offset_variances=np.ones(20)),
    "a pattern missing": arrays_with(traits=None),
    "a pattern of other items": arrays_with(shares=np.ones(3, np.float32)),
    "symbols missing": arrays_with(symbols_1=None),
    "symbols in doubles": arrays_with(symbols_0=np.ones(5)),
    "symbols of another number": arrays_with(calibrated_0=np.ones(4, np.float32)),
    "symbols not finite": arrays_with(calibrated_1=np.full(5, np.inf, np.float32)),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_part_is_refused_in_one_line(model: Model, case: str, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    DAMAGE[case](tmp_path / "model")
    with pytest.raises(ModelError) as refused:
        Model.load(tmp_path / "model")
    assert "\n" not in str(refused.value)


def test_the_public_part_has_the_items_asked_for(model: Model) -> None:
    public = model.item_model(least_reports=11)
    assert 0 < len(public.items) < len(model.items)
    assert public.beliefs is not None
    assert public.pattern is not None
    assert len(public.beliefs.item_offset_variances) == len(public.pattern.traits) == len(public.items)
    everything = model.item_model()
    assert everything.pattern is not None
    assert (public.pattern.traits == everything.pattern.traits[: len(public.items)]).all()
