"""Reading Spark's own metrics, and trying out what the parts of an iteration take by themselves."""

from __future__ import annotations

import statistics
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.kernels import padded
from tacit.learning.matrix import Rows
from tacit.learning.spark.broadcast import Table
from tacit.learning.spark.chunks import Chunk
from tacit.learning.spark.frames import framed
from tacit.learning.spark.layout import SideLayout

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from pyspark import Broadcast, SparkContext

    from tacit.learning.spark.layout import Layout

_REPEATS = 5
_MANY_TASKS = 64
_MANY_JAVA_TASKS = 2000  # enough for Java to have compiled what a busy driver runs


class Meter:
    """Counts bytes and tasks of a context: what stages tell of themselves, and the files of broadcasts."""

    def __init__(self, context: SparkContext) -> None:
        """Look at every broadcast from now on."""
        self._context, self._plain, self.broadcast = context, context.broadcast, 0
        context.broadcast = self._counted

    def _counted(self, value: object) -> Broadcast[Any]:
        made = self._plain(value)
        self.broadcast += Path(str(made._path)).stat().st_size  # noqa: SLF001 - the file that goes to the workers
        return made

    def read(self) -> dict[str, int]:
        """Return sums over all stages so far."""
        scala: Any = self._context._jsc.sc()  # noqa: SLF001 - Python has no door to it
        scala.listenerBus().waitUntilEmpty()
        stages = [stage for stage in _listed(self._context, scala) if str(stage.status()) == "COMPLETE"]
        return {
            "broadcast": self.broadcast,
            "shuffled": sum(stage.shuffleWriteBytes() for stage in stages),
            "results": sum(stage.resultSize() for stage in stages),
            "tasks": sum(stage.numCompleteTasks() for stage in stages),
        }


def _listed(context: SparkContext, scala: Any) -> list[Any]:  # noqa: ANN401 - an object of Java's
    gateway: Any = context._gateway  # noqa: SLF001 - as above
    nothing, no_numbers = gateway.jvm.java.util.ArrayList(), gateway.new_array(gateway.jvm.double, 0)
    found = scala.statusStore().stageList(nothing, False, False, no_numbers, nothing)  # noqa: FBT003 - as above
    return [found.apply(place) for place in range(found.length())]


def probes(context: SparkContext, layout: Layout, rank: int) -> dict[str, float]:
    """Time the parts of an iteration that are not arithmetic: jobs, queries, tasks, reading chunks, sending factors.

    A task's time is that of one core; dispatching is what tasks without Python take, one after the other. A job and a
    query of a DataFrame are timed with one task each.
    """
    cores = context.defaultParallelism
    job, many = (median_seconds(partial(_empty_job, context, tasks)) for tasks in (1, _MANY_TASKS))
    one, all_in_java = (median_seconds(partial(_java_job, context, tasks)) for tasks in (1, _MANY_JAVA_TASKS))
    chunk = _smallest(context)
    shape = len(layout.users.counts), len(layout.items.counts)
    factors = [padded(np.ones((rows, rank), dtype=np.float32)) for rows in shape]
    tasks = sum(side.chunks.getNumPartitions() for side in (layout.by_user, layout.by_item))
    reading = median_seconds(lambda: [side.each(_nothing) for side in (layout.by_user, layout.by_item)])
    return {
        "job_seconds": job,
        "query_seconds": median_seconds(lambda: chunk.each(_nothing)),
        "task_seconds": round(cores * (many - job) / (_MANY_TASKS - 1), 5),
        "dispatch_seconds": round((all_in_java - one) / (_MANY_JAVA_TASKS - 1), 5),
        "reading_seconds": reading,
        "reading_tasks": tasks,
        "sending_seconds": median_seconds(partial(_sent, context, factors)),
    }


def median_seconds(work: Callable[[], object]) -> float:
    """Return the median of a few runs, after one that warms up."""
    work()
    found = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return round(statistics.median(found), 5)


def _smallest(context: SparkContext) -> SideLayout:
    """Lay out one chunk with nothing in it."""
    nothing = Rows(np.zeros(2, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint8))
    return SideLayout(framed(context.parallelize([Chunk(0, 0, nothing)], 1)), np.array([0, 1]), np.uint8)


def _empty_job(context: SparkContext, tasks: int) -> None:
    context.parallelize(range(tasks), tasks).foreach(_ignored)


def _java_job(context: SparkContext, tasks: int) -> None:
    java: Any = context._jvm  # noqa: SLF001 - as above
    session = java.org.apache.spark.sql.SparkSession.active()
    session.range(0, tasks, 1, tasks).rdd().count()


def _sent(context: SparkContext, tables: list[NDArray[np.float32]]) -> None:
    """Send tables to every worker, and have as many bytes come back."""
    for rows in tables:
        table, cores = context.broadcast(Table(rows)), context.defaultParallelism
        context.parallelize(range(cores), cores).map(partial(_share, table, cores)).collect()
        table.destroy()


def _share(table: Broadcast[Table], cores: int, core: int) -> NDArray[np.float32]:
    rows: NDArray[np.float32] = table.value.rows
    return rows[core::cores].copy()


def _ignored(_: object) -> None:
    pass


def _nothing(chunk: Chunk) -> int:
    return chunk.number
