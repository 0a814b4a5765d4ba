from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import settings

from tacit.privacy.policy import Policy
from tacit.privacy.scale import RatingScale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from tacit.evaluation.fold import FoldResult
    from tacit.evaluation.task import Task

if importlib.util.find_spec("tacit.learning.kernels._native") is None:
    os.environ.setdefault("TACIT_KERNEL", "numpy")  # chosen, so that nothing warns of it

settings.register_profile("tacit", deadline=None, max_examples=60)
settings.load_profile("tacit")

DATA = Path(os.environ.get("TACIT_DATA", Path(__file__).parents[2] / "shared" / "data"))

STARS = RatingScale.parse("1:5:1")


def skip_unless_forbidden(reason: str) -> NoReturn:
    if os.environ.get("TACIT_NO_SKIPS"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def absent() -> Callable[[str], NoReturn]:
    """What to call when something a test needs is not there."""
    return skip_unless_forbidden


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or fills a developer's own cache."""
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folds are computed in this process: to start another takes a second."""
    module = importlib.import_module("tacit.evaluation.run")

    def computed(tasks: Sequence[Task], _jobs: int) -> Iterator[tuple[Task, FoldResult]]:
        module._loaded.cache_clear()
        yield from ((task, module._work(task, 1)) for task in tasks)

    monkeypatch.setattr(module, "_computed", computed)


@pytest.fixture
def data_file() -> Callable[[str], Path]:
    """Real data by name; a test that needs what is not there is skipped, or fails where skips are forbidden."""

    def find(name: str) -> Path:
        path = DATA / name
        if not path.exists():
            skip_unless_forbidden(f"{name} is not in {DATA}; set TACIT_DATA to a folder that has it")
        return path

    return find


@pytest.fixture(scope="session")
def policy() -> Policy:
    return Policy.make("bounded-laplace", STARS, "1")


# Java that starts quickly and compiles without much thought: no test runs for long enough to gain by more.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def spark_is_there(absent: Callable[[str], NoReturn]) -> None:
    if importlib.util.find_spec("pyspark") is None:
        absent("pyspark is not installed; install tacit[spark]")
    if shutil.which("java") is None:
        absent("Java is not installed; Spark needs it")


@pytest.fixture(scope="session")
def spark(
    spark_is_there: None,  # noqa: ARG001 - asked first
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SparkSession]:
    """Spark on two cores, one for all tests of a process: it takes seconds to start."""
    files = str(tmp_path_factory.mktemp("spark"))
    settings = {"spark.master": "local[2]", "spark.driver.memory": "1g", "spark.local.dir": files}
    from tacit.learning.spark import layout, spark_session  # noqa: PLC0415 - few tests need it

    session = spark_session(settings | {"spark.driver.extraJavaOptions": QUICK_JAVA})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "_PARTITIONS_PER_CORE", 1)  # every task has a price
        yield session
    session.stop()
