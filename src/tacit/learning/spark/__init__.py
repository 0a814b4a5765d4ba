"""The Spark engine: reports in chunks on a cluster, the kernels in its workers. The only home of pyspark.

Spark is configured as always: by an active session, by `spark-submit` or its configuration files, or not at all, and
then it runs on all cores of this machine. Modules of Spark are loaded by what is called here, and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.learning.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tacit.learning.spark.engine import SparkEngine
    from tacit.learning.spark.sources import Part
    from tacit.privacy.policy import Policy

__all__ = ["spark_engine", "spark_engine_of_frame", "spark_engine_of_parts", "spark_session"]


def spark_engine(session: SparkSession, paths: Sequence[str | Path], policies: Iterable[Policy]) -> SparkEngine:
    """Read files and folders of reports on Spark, each row under one of the policies; return the engine for them."""
    from tacit.learning.spark.sources import parts_of_files  # noqa: PLC0415 - slow, for those who ask for Spark

    return spark_engine_of_parts(session, parts_of_files(paths), policies)


def spark_engine_of_parts(session: SparkSession, parts: Sequence[Part], policies: Iterable[Policy]) -> SparkEngine:
    """Read reports that come in parts, each where a worker needs it; return the engine for them."""
    from tacit.learning.spark.engine import engine_of  # noqa: PLC0415 - as above
    from tacit.learning.spark.layout import lay_out  # noqa: PLC0415 - as above

    return engine_of(lay_out(session.sparkContext, parts, policies))


def spark_engine_of_frame(frame: DataFrame, policies: Iterable[Policy]) -> SparkEngine:
    """Read the reports in a DataFrame with columns `user`, `item`, `symbol` and perhaps `policy`; return the engine.

    Without a column `policy`, all rows are under the one policy that is given.
    """
    from tacit.learning.spark.engine import engine_of  # noqa: PLC0415 - as above
    from tacit.learning.spark.layout import lay_out_frame  # noqa: PLC0415 - as above

    return engine_of(lay_out_frame(frame, policies))
