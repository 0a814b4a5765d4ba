"""Reading reports on a cluster, part by part, and what the driver wants to know of them before anything else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tacit.errors import ReportError, TableError, TacitError
from tacit.learning.reports import Alphabet, Reports, code_type_of, reports_of_arrow, tally
from tacit.privacy.report import POLICY_KEY
from tacit.privacy.vocabulary import plain_ids
from tacit.tables import Ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame

    from tacit.learning.spark.sources import Part

    Counts = NDArray[np.int64]
    Arrow = Any  # pyarrow has no annotations

_COLUMNS = ("user", "item", "symbol")


@dataclass(frozen=True, eq=False, slots=True)
class Survey:
    """The policies in use, how often each of their codes was said, and whether ids are text.

    `codes` says which code of the policies in use stands for each code of the policies given.
    """

    alphabet: Alphabet
    counts: Counts
    codes: NDArray[Any]
    users_are_text: bool
    items_are_text: bool


def read_parts(context: SparkContext, parts: Sequence[Part], alphabet: Alphabet) -> RDD[tuple[int, Any]]:
    """Read every part, one to a partition; instead of a part that cannot be used there is the error."""
    if not parts:
        raise ReportError("there are no reports; give at least one")
    return context.parallelize(list(enumerate(parts)), len(parts)).map(partial(_read, alphabet))


def read_frame(frame: DataFrame, alphabet: Alphabet) -> RDD[tuple[int, Any]]:
    """Read the rows of a DataFrame as Arrow batches, those of a partition together."""
    wanted = [*_COLUMNS, *(name for name in ["policy"] if name in frame.columns)]
    absent = [name for name in _COLUMNS if name not in frame.columns]
    if absent:
        found = ", ".join(frame.columns)[:200] or "none"
        raise TableError(
            f"the DataFrame has no column {absent[0]!r} (its columns: {found}); it needs user, item, symbol"
        )
    if "policy" not in frame.columns and len(alphabet.policies) > 1:
        raise ReportError("the DataFrame has no column 'policy', and several policies were given; add it, or give one")
    slices = frame.select(*wanted).mapInArrow(_written, "slice binary").rdd
    return slices.mapPartitionsWithIndex(partial(_read_slices, alphabet))


def _written(batches: Iterable[Arrow]) -> Iterator[Arrow]:
    """Write Arrow batches down one by one, each in one cell of another."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["slice"])


def _read_slices(alphabet: Alphabet, number: int, slices: Iterable[Any]) -> Iterator[tuple[int, Reports | TacitError]]:
    """Read the batches of a partition as one part; without a column of its own, the one policy is that of all rows."""
    tables = [pa.ipc.open_stream(bytes(row[0])).read_all() for row in slices]
    label = f"partition {number + 1} of the DataFrame"
    if not sum(table.num_rows for table in tables):
        yield number, _no_reports(label, alphabet)
        return
    stated = {POLICY_KEY: alphabet.policies[0].id}
    try:
        yield number, reports_of_arrow(pa.concat_tables(tables).replace_schema_metadata(stated), alphabet, label)
    except TacitError as error:
        yield number, error


def survey(read: RDD[tuple[int, Any]], alphabet: Alphabet) -> Survey:
    """Look over all parts, and raise the error of the first that cannot be used."""
    counts = np.zeros(alphabet.size, dtype=np.int64)
    users_are_text = items_are_text = False
    for found in read.map(partial(_surveyed, alphabet.size)).collect():
        if isinstance(found, TacitError):
            raise found
        counts += found[0]
        users_are_text, items_are_text = users_are_text or found[1], items_are_text or found[2]
    if not counts.any():
        raise ReportError("there are no reports; give at least one")
    said = np.flatnonzero(counts)
    used, renumbered = alphabet.without_unused(said.astype(code_type_of(alphabet.size)))
    codes = np.zeros(alphabet.size, dtype=renumbered.dtype)
    codes[said] = renumbered
    used_counts = np.zeros(used.size, dtype=np.int64)
    used_counts[renumbered] = counts[said]
    return Survey(used, used_counts, codes, users_are_text, items_are_text)


def _read(alphabet: Alphabet, numbered: tuple[int, Part]) -> tuple[int, Reports | TacitError]:
    """Read a part. What is wrong with it is an answer: raised here, it would come as Spark's failure, and late."""
    number, part = numbered
    try:
        return number, part.reports(alphabet) or _no_reports(part.label, alphabet)
    except TacitError as error:
        return number, error


def _no_reports(label: str, alphabet: Alphabet) -> Reports:
    nobody = Ids(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))
    return Reports(label, nobody, nobody, np.empty(0, dtype=code_type_of(alphabet.size)))


def _surveyed(size: int, part: tuple[int, Reports | TacitError]) -> tuple[Counts, bool, bool] | TacitError:
    reports = part[1]
    if isinstance(reports, TacitError):
        return reports
    return tally(reports.values, size), _is_text(reports.users), _is_text(reports.items)


def _is_text(ids: Ids) -> bool:
    return plain_ids([ids.distinct])[0].dtype == object
