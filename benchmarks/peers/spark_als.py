"""Spark's explicit ALS in one local process: exact, distributed where there is more than one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.ml.recommendation import ALS
from pyspark.sql import SparkSession

from peers.measure import report_fit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from peers.measure import Fit, Ids, Job, Predict, Ratings

DRIVER_MEMORY = "8g"
# Without checkpoints every iteration lengthens the lineage, which Java walks by recursion.
THREAD_STACK = "64m"


def prepare(ratings: Ratings, job: Job) -> Fit:
    """Start Spark and let it read and keep the ratings."""
    spark = (
        SparkSession.builder.master(f"local[{job.threads}]")
        .config("spark.driver.memory", DRIVER_MEMORY)
        .config("spark.driver.extraJavaOptions", f"-Xss{THREAD_STACK}")
        .config("spark.driver.host", "localhost")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(job.data))
        .config("spark.sql.warehouse.dir", str(job.data / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    table = spark.read.parquet(str(_written(ratings, job.data / "ratings.parquet"))).cache()
    table.count()

    def fit(iterations: int) -> Predict:
        als = ALS(
            rank=job.rank,
            maxIter=iterations,
            userCol="user",
            itemCol="item",
            ratingCol="rating",
            checkpointInterval=-1,
            seed=0,
        )
        model = als.fit(table)

        def predict(users: Ids, items: Ids) -> NDArray[np.float32]:
            rows = _rows(model.userFactors.collect(), users), _rows(model.itemFactors.collect(), items)
            return np.asarray(np.vecdot(*rows), dtype=np.float32)

        return predict

    return fit


def _written(ratings: Ratings, path: Path) -> Path:
    """Write the ratings as Parquet, in several row groups so that both cores can read."""
    columns = {"user": ratings.users, "item": ratings.items, "rating": ratings.values}
    pq.write_table(pa.table(columns), path, row_group_size=max(1, len(ratings.values) // 8))
    return path


def _rows(factors: Sequence[Any], ids: Ids) -> NDArray[np.float32]:
    """Return the factors of the ids asked for."""
    table = {row[0]: row[1] for row in factors}
    return np.array([table[one] for one in ids.tolist()], dtype=np.float32)


if __name__ == "__main__":
    report_fit("pyspark", prepare)
