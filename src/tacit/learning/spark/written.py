"""What Spark writes down to forget how it was computed, and taking it away when it is out of date."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from tacit.errors import EngineError

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext


class Checkpoints:
    """Files in Spark's checkpoint folder: those that something still depends on, and newer ones."""

    def __init__(self, context: SparkContext) -> None:
        """Make sure that there is a folder."""
        self._context = context
        self._needed: list[RDD[Any]] = []
        self._newer: list[RDD[Any]] = []
        _ensure_folder(context)

    def write(self, rdd: RDD[Any]) -> None:
        """Have what an RDD holds written down by the first action on it."""
        rdd.checkpoint()
        self._newer.append(rdd)

    def forget_older(self) -> None:
        """Delete what nothing depends on any more: all but what was written since this was called last."""
        for rdd in self._needed:
            self._delete(rdd.getCheckpointFile())
        self._needed, self._newer = self._newer, []

    def close(self) -> None:
        """Delete everything."""
        self.forget_older()
        self.forget_older()

    def _delete(self, file: str | None) -> None:
        if file is None:  # nobody ever asked for what is in it
            return
        java: Any = self._context._jvm  # noqa: SLF001 - Python has no door to it
        path = java.org.apache.hadoop.fs.Path(file)
        path.getFileSystem(self._context._jsc.hadoopConfiguration()).delete(path, True)  # noqa: SLF001, FBT003 - as above


def _ensure_folder(context: SparkContext) -> None:
    """Refuse a cluster without a checkpoint folder; on this machine alone, a temporary one will do."""
    if context.getCheckpointDir() is not None:
        return
    if not str(context.master).startswith("local"):
        msg = "factors of this size are kept on the cluster, which needs a folder that all its machines reach"
        raise EngineError(f"{msg}; set spark.checkpoint.dir to one")
    folder = tempfile.mkdtemp(prefix="tacit-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    context.setCheckpointDir(folder)
