"""Chunks as rows of a DataFrame: how they rest on the cluster, and how kernels get at them as Arrow batches."""

from __future__ import annotations

import pickle
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tacit.learning.matrix import Rows
from tacit.learning.spark.chunks import Chunk
from tacit.learning.spark.workers import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame, SparkSession

    Arrow = Any  # pyarrow has no annotations

_CHUNKS = "chunk int, first int, starts binary, columns binary, values binary"
_RESULTS = "chunk int, result binary"
_SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",  # a chunk is large enough
    "spark.sql.adaptive.enabled": "false",  # there is nothing to adapt: a sweep is one stage
    "spark.sql.inMemoryColumnarStorage.compressed": "false",  # every sweep would pay for it
}


def framed(chunks: RDD[Chunk]) -> DataFrame:
    """Let chunks rest as rows of a DataFrame, which the cluster keeps."""
    from pyspark import StorageLevel  # noqa: PLC0415 - there only with the extra

    with _own_session(chunks.context) as session:
        frame = session.createDataFrame(chunks.map(_record_of), _CHUNKS, verifySchema=False)
    return frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)


def worked(frame: DataFrame, work: Callable[[Chunk], Any], codes: type[Any]) -> list[Any]:
    """Do something with every chunk in a worker, and return what comes of it in the order of chunks."""
    found = frame.mapInArrow(partial(_worked, work, codes), _RESULTS).toArrow()
    results = dict(zip(found["chunk"].to_pylist(), found["result"], strict=True))
    # Pickles of our own workers, as all that Spark brings from Python to Python is.
    return [pickle.loads(results[chunk].as_buffer()) for chunk in sorted(results)]  # noqa: S301 - as above


def unframed(frame: DataFrame, codes: type[Any]) -> RDD[Chunk]:
    """Return the chunks one by one."""
    return frame.rdd.map(partial(_chunk_of, codes))


def arrays_of(frame: DataFrame, column: str, codes: type[Any]) -> RDD[tuple[int, NDArray[Any]]]:
    """Return `columns` or `values` of the chunks, with the chunks' numbers."""
    kind: type[Any] = np.int32 if column == "columns" else codes
    return frame.select("chunk", column).rdd.map(lambda row: (row[0], _array(row[1], kind)))


@contextmanager
def _own_session(context: SparkContext) -> Iterator[SparkSession]:
    """Offer a session with settings of its own; the one that was active is so again afterwards, or none."""
    from pyspark.sql import SparkSession as Session  # noqa: PLC0415 - there only with the extra

    active = Session.getActiveSession()
    own = Session(context).newSession()
    for name, value in _SETTINGS.items():
        own.conf.set(name, value)
    try:
        yield own
    finally:
        if active is None:
            Session._get_j_spark_session_class(context._jvm).clearActiveSession()  # noqa: SLF001 - Python has no door to it
        else:
            active.createDataFrame([], "nothing int")  # which makes it the active one


def _record_of(chunk: Chunk) -> tuple[int, int, bytes, bytes, bytes]:
    rows = chunk.rows
    return chunk.number, chunk.first, rows.starts.tobytes(), rows.columns.tobytes(), rows.values.tobytes()


def _chunk_of(codes: type[Any], record: Iterable[Any]) -> Chunk:
    """Look at a record as a chunk; the arrays are the record's own memory."""
    settle()
    number, first, starts, columns, values = record
    return Chunk(number, first, Rows(_array(starts, np.int64), _array(columns, np.int32), _array(values, codes)))


def _array(buffer: Any, kind: type[Any]) -> NDArray[Any]:  # noqa: ANN401 - bytes of some kind
    return np.frombuffer(buffer, dtype=kind)


def _worked(work: Callable[[Chunk], Any], codes: type[Any], batches: Iterable[Arrow]) -> Iterator[Arrow]:
    for batch in batches:
        for chunk in _chunks_in(codes, batch):
            result = pickle.dumps(work(chunk), pickle.HIGHEST_PROTOCOL)
            numbers = pa.array([chunk.number], pa.int32())
            yield pa.RecordBatch.from_arrays([numbers, pa.array([result], pa.binary())], ["chunk", "result"])


def _chunks_in(codes: type[Any], batch: Arrow) -> Iterator[Chunk]:
    numbers, firsts, *arrays = batch.columns
    for row in range(batch.num_rows):
        buffers = [array[row].as_buffer() for array in arrays]
        yield _chunk_of(codes, [numbers[row].as_py(), firsts[row].as_py(), *buffers])
