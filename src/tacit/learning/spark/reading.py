"""Reading reports on a cluster, part by part, and what the driver wants to know of them before anything else."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tacit.errors import InvalidInputError, ReportError, TableError, TacitError
from tacit.learning.reports import Alphabet, Reports, code_type_of, reports_of_arrow, tally
from tacit.learning.spark.failures import failures_in_one_line
from tacit.learning.spark.workers import settle
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
    """The policies in use, how often each of their codes was said, whether ids are text, and what was read.

    `codes` says which code of the policies in use stands for each code of the policies given. `digests` are those of
    the parts, by their numbers, and `distinct` is how many ids the parts have, users and items, counted part by part.
    """

    alphabet: Alphabet
    counts: Counts
    codes: NDArray[Any]
    users_are_text: bool
    items_are_text: bool
    digests: dict[int, bytes]
    distinct: tuple[int, int]


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
    with failures_in_one_line():
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
    settle()
    tables = [pa.ipc.open_stream(bytes(row[0])).read_all() for row in slices]
    label = f"partition {number + 1} of the DataFrame"
    if not sum(table.num_rows for table in tables):
        yield number, _no_reports(label, alphabet)
        return
    stated = {POLICY_KEY: alphabet.policies[0].id}
    table = pa.concat_tables(tables)
    with suppress(pa.ArrowException):  # ids of a kind that has no order are refused below
        # Spark may bring the rows of a partition in another order when it makes it again.
        table = table.sort_by([(name, "ascending") for name in table.column_names])
    try:
        yield number, reports_of_arrow(table.replace_schema_metadata(stated), alphabet, label)
    except InvalidInputError as error:
        yield number, error


def survey(read: RDD[tuple[int, Any]], alphabet: Alphabet) -> Survey:
    """Look over all parts, and raise the error of the first that cannot be used."""
    looks = read.map(partial(_looked_over, alphabet.size)).collect()
    wrong = next((look for look in looks if isinstance(look, TacitError)), None)
    if wrong is not None:
        raise wrong
    counts = np.sum([look.counts for look in looks], axis=0)
    if not counts.any():
        raise ReportError("there are no reports; give at least one")
    said = np.flatnonzero(counts)
    used, renumbered = alphabet.without_unused(said.astype(code_type_of(alphabet.size)))
    codes = np.zeros(alphabet.size, dtype=renumbered.dtype)
    codes[said] = renumbered
    used_counts = np.zeros(used.size, dtype=np.int64)
    used_counts[renumbered] = counts[said]
    return Survey(
        used,
        used_counts,
        codes,
        any(look.users_are_text for look in looks),
        any(look.items_are_text for look in looks),
        {look.number: look.digest for look in looks},
        (sum(look.users for look in looks), sum(look.items for look in looks)),
    )


def as_surveyed(read: RDD[tuple[int, Any]], found: Survey) -> RDD[tuple[int, Reports]]:
    """Return the parts, each refused if it is ever read again and not the same: numbers would be others' then."""
    return read.map(partial(_unchanged, found.digests))


def _unchanged(digests: dict[int, bytes], part: tuple[int, Reports | TacitError]) -> tuple[int, Reports]:
    number, reports = part
    if isinstance(reports, TacitError):
        raise reports
    if _digest(reports) != digests[number]:
        raise ReportError(f"{reports.label} changed while it was read; write the reports down first, as Parquet")
    return number, reports


def _read(alphabet: Alphabet, numbered: tuple[int, Part]) -> tuple[int, Reports | TacitError]:
    """Read a part. What is wrong with its content is an answer: raised here, it would come as Spark's failure.

    What may pass by, as a disk or a database that does not answer, is raised, so that Spark tries again.
    """
    settle()
    number, part = numbered
    try:
        return number, part.reports(alphabet) or _no_reports(part.label, alphabet)
    except InvalidInputError as error:
        return number, error


def _no_reports(label: str, alphabet: Alphabet) -> Reports:
    nobody = Ids(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))
    return Reports(label, nobody, nobody, np.empty(0, dtype=code_type_of(alphabet.size)))


@dataclass(frozen=True, eq=False, slots=True)
class _Look:
    """What the driver wants to know of one part."""

    number: int
    counts: Counts
    users_are_text: bool
    items_are_text: bool
    users: int
    items: int
    digest: bytes


def _looked_over(size: int, part: tuple[int, Reports | TacitError]) -> _Look | TacitError:
    number, reports = part
    if isinstance(reports, TacitError):
        return reports
    users, items = reports.users, reports.items
    distinct = len(users.distinct), len(items.distinct)
    counts = tally(reports.values, size)
    return _Look(number, counts, _is_text(users), _is_text(items), *distinct, _digest(reports))


def _digest(reports: Reports) -> bytes:
    """Return a short digest of everything that a part says, in its order."""
    digest = hashlib.blake2b(digest_size=16)
    for ids in (reports.users, reports.items):
        known = ids.distinct
        digest.update("\0".join(known).encode() if known.dtype == object else np.ascontiguousarray(known).data)
        digest.update(ids.codes.data)
    digest.update(reports.values.data)
    return digest.digest()


def _is_text(ids: Ids) -> bool:
    return plain_ids([ids.distinct])[0].dtype == object
