"""Top lists of all users, found on a cluster and written as Parquet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tacit.errors import FileError
from tacit.learning.kernels import padded, top_n
from tacit.learning.model import Model
from tacit.learning.model_parts import Profile, structure
from tacit.learning.predict import on_scale
from tacit.learning.recommend import check_length, recommend_for
from tacit.learning.spark.broadcast import sent_to_workers
from tacit.learning.spark.failures import failures_in_one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

    from tacit.learning.model_parts import Floats, Indices
    from tacit.privacy.scale import RatingScale
    from tacit.privacy.vocabulary import Vocabulary

    Arrow = Any  # pyarrow has no annotations

# Users go to the cluster in waves, so that neither Python nor Java ever holds all of their rows twice.
_WAVE_BYTES = 1 << 28
_MOST_USERS_AT_ONCE = 8192
_ENTRIES_AT_ONCE = 1 << 20
_COLUMNS = ["user", "item", "score", "rank"]
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")  # Hadoop does with one slash, too


def recommend_to_parquet(
    spark: SparkSession, model: Model | str | Path, n: int, output: str | Path, *, exclude_rated: bool = True
) -> None:
    """Write the n best items of every user, as `Model.recommend` finds them, into a new folder of Parquet files.

    The columns are `user`, `item`, `score`, the predicted rating on the scale, and `rank` from 1; ids are as in the
    model. The rows of a user lie together, users in no particular order. A folder that is complete has a file
    `_SUCCESS`.

    Args:
        spark: A session of Spark.
        model: A model, or the folder of one.
        n: How many items to list.
        output: A folder that is not there yet, at any place Spark can write to.
        exclude_rated: Whether to leave out what users reported on.
    """
    check_length(n)
    whole = model if isinstance(model, Model) else Model.load(model)
    waves = list(_waves(whole, n))
    with failures_in_one_line():
        session = spark.newSession()  # with settings of its own: the caller's stay as they are
        session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")  # a chunk's lists are large enough
        with sent_to_workers(session.sparkContext, _Catalogue.of(whole, n)) as catalogue:
            for wave in waves:
                users = session.createDataFrame(_table(whole, wave, exclude_rated=exclude_rated))
                lists = _lists(users, catalogue, whole)
                _write(lists, _place(session, str(output)), begin=wave is waves[0], end=wave is waves[-1])


@dataclass(frozen=True, eq=False)
class _Catalogue:
    """What every task needs to know of a model: its items, and what those get who said nothing."""

    items: Floats
    offsets: Floats | None
    ids: Arrow
    popular: Indices
    popular_ratings: Floats
    scale: RatingScale
    n: int

    @classmethod
    def of(cls, model: Model, n: int) -> _Catalogue:
        nobody = Profile(np.zeros(model.rank, dtype=np.float32), 0.0, np.empty(0, dtype=np.int32))
        popular = recommend_for(model, nobody, n, nobody.rated)
        reported = slice(model.reported_items)
        return cls(
            model.item_factors[reported],
            model.offsets.items[reported] if model.item_rows_have_offsets else None,
            pa.array(model.items.ids[reported]),
            model.items.find(popular.items),
            popular.ratings,
            model.scale,
            n,
        )

    @cached_property
    def rows(self) -> Floats:
        """The items as the kernel wants them, made once in every process."""
        return padded(self.items if self.offsets is None else np.column_stack([self.items, self.offsets]))

    def lists(self, chunk: dict[str, Arrow]) -> list[Arrow]:
        """Return the columns of lists for a chunk of users."""
        found, ratings = self._found(chunk)
        listed = found >= 0
        user, place = np.nonzero(listed)
        users, items = chunk["users"].values.take(pa.array(user)), self.ids.take(pa.array(found[listed]))
        return [users, items, pa.array(ratings[listed]), pa.array((place + 1).astype(np.int32))]

    def _found(self, chunk: dict[str, Arrow]) -> tuple[Indices, Floats]:
        """Return items by their indices, -1 where there are no more, and ratings."""
        levels, silent = _numbers(chunk["levels"], np.float32), _numbers(chunk["silent"], np.bool_)
        own = _numbers(chunk["factors"], np.float32).reshape(len(levels), self.items.shape[1])
        if self.offsets is not None:
            own = np.column_stack([own, np.ones(len(own), dtype=np.float32)])
        starts, columns = _numbers(chunk["starts"], np.int64), _numbers(chunk["rated"], np.int32)
        left_out = structure(starts, columns) if len(starts) else None
        found, scores = top_n(padded(own), self.rows, left_out, self.n, coordinates=max(1, own.shape[1]), threads=1)
        ratings = on_scale(scores + levels[:, None], self.scale)
        found[silent] = -1
        found[silent, : len(self.popular)] = self.popular
        ratings[silent, : len(self.popular)] = self.popular_ratings
        return found, ratings


def _numbers(scalar: Arrow, kind: type[np.generic]) -> NDArray[Any]:
    return np.frombuffer(scalar.as_py(), dtype=kind)


def _waves(model: Model, n: int) -> Iterator[list[range]]:
    """Cut the users into chunks, and these into waves of bounded size."""
    step = max(1, min(_MOST_USERS_AT_ONCE, _ENTRIES_AT_ONCE // n))
    wave: list[range] = []
    size = 0
    for first in range(0, len(model.users), step):
        chunk = range(first, min(first + step, len(model.users)))
        reports = int(model.rated.starts[chunk.stop] - model.rated.starts[chunk.start])
        own = 4 * (len(chunk) * (model.rank + 5) + reports)
        if wave and size + own > _WAVE_BYTES:
            yield wave
            wave, size = [], 0
        wave.append(chunk)
        size += own
    yield wave


def _table(model: Model, wave: list[range], *, exclude_rated: bool) -> Arrow:
    return pa.Table.from_pylist([_chunk_of(model, chunk, exclude_rated=exclude_rated) for chunk in wave])


def _chunk_of(model: Model, chunk: range, *, exclude_rated: bool) -> dict[str, Any]:
    """Return what a task needs to know of some users, arrays as bytes."""
    own, rated = slice(chunk.start, chunk.stop), model.rated.part(chunk.start, chunk.stop)
    levels = (model.offsets.users[own].astype(np.float64) + model.offsets.mean).astype(np.float32)
    return {
        "users": model.users.ids[own].tolist(),
        "factors": model.user_factors[own].tobytes(),
        "levels": levels.tobytes(),
        "silent": (rated.counts() == 0).tobytes(),
        "starts": rated.starts.tobytes() if exclude_rated else b"",
        "rated": rated.columns.tobytes() if exclude_rated else b"",
    }


def _lists(users: DataFrame, catalogue: Broadcast[_Catalogue], model: Model) -> DataFrame:
    from pyspark.sql.functions import inline  # noqa: PLC0415 - there only with the extra
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415 - as above

    kinds = [_kind_of(model.users), _kind_of(model.items), "float", "int"]
    fields = ",".join(f"{name}:{kind}" for name, kind in zip(_COLUMNS, kinds, strict=True))
    names = users.columns
    # A function without annotations is taken for one from arrays to an array.
    find = arrow_udf(lambda *columns: _found_lists(catalogue, names, columns), f"array<struct<{fields}>>")
    return users.select(inline(find(*names)))


def _kind_of(ids: Vocabulary) -> str:
    return "bigint" if ids.ids.dtype.kind == "i" else "string"


def _found_lists(catalogue: Broadcast[_Catalogue], names: list[str], columns: tuple[Arrow, ...]) -> Arrow:
    """Find the lists of chunks, one of which makes a batch."""
    found = [catalogue.value.lists(dict(zip(names, chunk, strict=True))) for chunk in zip(*columns, strict=True)]
    ends = np.cumsum([0, *(len(users) for users, *_ in found)]).astype(np.int32)
    joined = [pa.concat_arrays(parts) for parts in zip(*found, strict=True)]
    return pa.ListArray.from_arrays(pa.array(ends), pa.StructArray.from_arrays(joined, _COLUMNS))


def _place(session: SparkSession, output: str) -> str:
    """Return a place for Java, whose own folder is that of when it began, where ours may have changed since."""
    java: Any = session.sparkContext._jsc  # noqa: SLF001 - Python has no door to it
    files_here = str(java.hadoopConfiguration().get("fs.defaultFS")).startswith("file:")
    return str(Path(output).absolute()) if files_here and not _ADDRESS.match(output) else output


def _write(lists: DataFrame, output: str, *, begin: bool, end: bool) -> None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - there only with the extra

    writer = lists.write.mode("error" if begin else "append")
    try:
        writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", str(end).lower()).parquet(output)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise FileError(f"{output} is there already; choose another folder for the lists") from error
