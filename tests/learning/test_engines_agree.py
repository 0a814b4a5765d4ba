"""Every engine fits the same model to the same reports: MovieLens, whole fits, three models."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from tacit.learning import ChannelMfOptions, MfAlsOptions, MogMfOptions, fit_with, read_reports
from tacit.learning.local_engine import LocalEngine
from tacit.privacy.policy import Policy
from tacit.privacy.report import POLICY_KEY
from tacit.privacy.scale import RatingScale
from tacit.tables import read_columns, write_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import NoReturn

    from numpy.typing import NDArray

    from tacit.learning import Model, Options
    from tacit.learning.engine import Engine

pytestmark = pytest.mark.xdist_group("spark")

STARS = RatingScale.parse("1:5:1")
FITS: dict[str, Options] = {
    # Without a ridge, rounding grows from iteration to iteration, on one engine as between two.
    "mog-mf": MogMfOptions(rank=8, regularisation=0.5, iterations=12, tolerance=0.0),
    "mf-als": MfAlsOptions(rank=6, offsets=True, iterations=10, tolerance=0.0),
    "channel-mf": ChannelMfOptions(rank=4, iterations=8),
}


class Study(NamedTuple):
    """Reports in a file, and ratings that are held out."""

    file: Path
    policy: Policy
    users: NDArray[Any]
    items: NDArray[Any]
    ratings: NDArray[np.float64]

    def error(self, model: Model) -> float:
        predicted = model.predict(self.users, self.items).ratings
        return float(np.sqrt(np.mean(np.square(predicted - self.ratings))))


@pytest.fixture
def study(data_file: Callable[[str], Path], tmp_path: Path) -> Study:
    columns = read_columns(data_file("ml-100k.parquet"), ["user", "item", "rating"])
    users, items = (column.ids().decoded() for column in columns[:2])
    ratings, rng = columns[2].numbers(), np.random.default_rng(0)
    held_out = rng.permutation(len(ratings)) % 10 == 0
    policy = Policy.make("bounded-laplace", STARS, "3")
    said = policy.channel.draw(STARS.ranks_of(ratings), rng.integers(0, 2**64, len(ratings), dtype=np.uint64))
    known = {"user": users[~held_out], "item": items[~held_out], "symbol": said[~held_out]}
    write_columns(tmp_path / "reports.parquet", known, {POLICY_KEY: policy.id})
    return Study(tmp_path / "reports.parquet", policy, users[held_out], items[held_out], ratings[held_out])


@pytest.fixture(params=["spark", "gpu"])
def engine(
    request: pytest.FixtureRequest, study: Study, absent: Callable[[str], NoReturn], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    if request.param == "spark":
        from tacit.learning.spark.engine import SparkEngine  # noqa: PLC0415 - where it is asked for
        from tacit.learning.spark.layout import lay_out  # noqa: PLC0415 - as above
        from tacit.learning.spark.sources import parts_of_files  # noqa: PLC0415 - as above

        context, parts = request.getfixturevalue("spark").sparkContext, parts_of_files([study.file])
        laid_out = SparkEngine(lay_out(context, parts, [study.policy], chunk_reports=25_000))  # several chunks a side
        assert min(len(laid_out.layout.by_user), len(laid_out.layout.by_item)) > 2
        yield laid_out
        laid_out.close()
        return
    if importlib.util.find_spec("torch") is None:
        absent("PyTorch is not installed; install tacit[gpu]")
    import torch  # noqa: PLC0415 - as above

    from tacit.learning.gpu import gpu_engine  # noqa: PLC0415 - as above

    monkeypatch.setenv("TACIT_GPU_DEVICE", os.environ.get("TACIT_GPU_DEVICE", "cpu"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # other tests run at the same time
    yield gpu_engine(read_reports(study.file, [study.policy]))
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", FITS)
def test_a_fit_is_that_of_the_local_engine(engine: Engine, study: Study, name: str) -> None:
    options, local = FITS[name], LocalEngine(read_reports(study.file, [study.policy]), 2)
    expected, found = (fit_with(each, options, np.random.default_rng(7), seed=7) for each in (local, engine))
    assert found.provenance.data_checksum == expected.provenance.data_checksum
    assert found.trace.stopped == expected.trace.stopped
    for series in ("objective", "likelihood"):
        ours, theirs = ([getattr(one, series) for one in model.trace.iterations] for model in (found, expected))
        if theirs[0] is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert study.error(found) == pytest.approx(study.error(expected), abs=1e-4)
    assert (found.rated.columns == expected.rated.columns).all()
