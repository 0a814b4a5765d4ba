from __future__ import annotations

import importlib.util
import shutil
from typing import TYPE_CHECKING, NoReturn

import pytest

from tacit.learning.spark import layout
from tacit.learning.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

collect_ignore = ["compiling_kernels.py"]  # a program: it needs what is not everywhere, and Triton as it is


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
    session = spark_session({"spark.master": "local[2]", "spark.driver.memory": "1g", "spark.local.dir": files})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "_PARTITIONS_PER_CORE", 1)  # every task has a price
        yield session
    session.stop()
