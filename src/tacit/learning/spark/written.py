"""What Spark writes down to forget how it was computed, and taking it away when it is out of date."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, TypeVar

from tacit.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import RDD, SparkContext

Found = TypeVar("Found")


class Checkpoints:
    """Files in Spark's checkpoint folder: those that something still depends on, and newer ones.

    Only their names are known here: an RDD would keep all in Java's memory that it was made of.
    """

    def __init__(self, context: SparkContext) -> None:
        """Make sure that there is a folder."""
        self._context = context
        self._needed: list[str] = []
        self._newer: list[str] = []
        _ensure_folder(context)

    def write(self, rdd: RDD[Any], action: Callable[[], Found]) -> Found:
        """Have what an RDD holds written down by the first action on it."""
        rdd.checkpoint()
        found = action()
        file = rdd.getCheckpointFile()
        if file is not None:  # None if the action did not ask for what is in it
            self._newer.append(file)
        return found

    def forget_older(self) -> None:
        """Delete what nothing depends on any more: all but what was written since this was called last."""
        for file in self._needed:
            delete(self._context, file)
        self._needed, self._newer = self._newer, []

    def close(self) -> None:
        """Delete everything."""
        self.forget_older()
        self.forget_older()


def delete(context: SparkContext, file: str) -> None:
    """Delete a file or a folder wherever Spark can write."""
    java: Any = context._jvm  # noqa: SLF001 - Python has no door to it
    path = java.org.apache.hadoop.fs.Path(file)
    path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)  # noqa: SLF001, FBT003 - as above


def without_history(rdd: RDD[Any]) -> RDD[Any]:
    """Return an RDD that was written down without what Python remembers of how it was made: Java would, too."""
    from pyspark import RDD  # noqa: PLC0415 - there only with the extra

    plain: RDD[Any] = RDD(rdd._jrdd, rdd.ctx, rdd._jrdd_deserializer)  # noqa: SLF001 - Python has no door to it
    plain.partitioner, plain.is_cached, plain.is_checkpointed = rdd.partitioner, rdd.is_cached, True
    return plain


def forget_shuffles(rdds: list[RDD[Any]]) -> None:
    """Delete what was shuffled to make RDDs that nothing depends on any more; Java would when it is short of memory."""
    while rdds:
        rdds.pop()._jrdd.rdd().cleanShuffleDependencies(False)  # noqa: SLF001, FBT003 - Python has no door to it


def _ensure_folder(context: SparkContext) -> None:
    """Refuse a cluster without a checkpoint folder; on this machine alone, a temporary one will do."""
    if context.getCheckpointDir() is not None:
        return
    if not str(context.master).startswith("local"):
        msg = "factors of this size are kept on the cluster, which needs a folder that all its machines reach"
        raise EngineError(f"{msg}; set spark.checkpoint.dir to one, or give the driver more spark.driver.memory")
    folder = tempfile.mkdtemp(prefix="tacit-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    context.setCheckpointDir(folder)
