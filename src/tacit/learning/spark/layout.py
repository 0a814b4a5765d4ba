"""Laying reports out on a cluster: read in parts, numbered, and gathered into chunks by user and by item."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ReportError
from tacit.learning.reports import Alphabet, code_type_of
from tacit.learning.spark.chunks import MOST_REPORTS, assembled, cut, first_repeat, parted, waves
from tacit.learning.spark.failures import failures_in_one_line
from tacit.learning.spark.frames import arrays_of, framed, unframed, worked
from tacit.learning.spark.numbering import Numbering, number
from tacit.learning.spark.reading import as_surveyed, read_frame, read_parts, survey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame

    from tacit.learning.reports import Reports
    from tacit.learning.spark.chunks import Cells, Chunk
    from tacit.learning.spark.sources import Part
    from tacit.privacy.policy import Policy
    from tacit.tables import Ids

    Counts = NDArray[np.int64]
    Numbers = NDArray[np.int32]

_PARTITIONS_PER_CORE = 2
_CHUNKS_IN_A_PARTITION = 4
_IDS_IN_A_BUCKET = 1 << 23  # as often as parts have them
_PARTITIONS_AT_ONCE = 16


@dataclass(frozen=True, eq=False, slots=True)
class SideLayout:
    """The chunks of one side, rows of a DataFrame that the cluster keeps."""

    frame: DataFrame
    edges: Counts  # where chunks begin, and the end
    codes: type[Any]  # of the values

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def chunks(self) -> RDD[Chunk]:
        """The chunks one by one."""
        return unframed(self.frame, self.codes)

    def each(self, work: Callable[[Chunk], Any]) -> list[Any]:
        """Do something with every chunk, and return what comes of it in the order of chunks."""
        with failures_in_one_line():
            return worked(self.frame, work, self.codes)

    def in_order(self, column: str) -> Iterator[NDArray[Any]]:
        """Bring `columns` or `values` of chunk after chunk here; only so many are here at a time."""
        arrays = arrays_of(self.frame, column, self.codes)
        for some in waves(range(arrays.getNumPartitions()), _PARTITIONS_AT_ONCE):
            with failures_in_one_line():
                found = arrays.context.runJob(arrays, list, list(some))
            yield from (array for _, array in sorted(found, key=itemgetter(0)))

    def forget(self) -> None:
        """Let the cluster forget the chunks."""
        with suppress(Exception):  # a cluster that is gone has forgotten them, and what was said of that says more
            self.frame.unpersist()


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """Reports on a cluster, and what is known of them here."""

    alphabet: Alphabet
    users: Numbering
    items: Numbering
    symbol_counts: Counts
    by_user: SideLayout
    by_item: SideLayout

    @property
    def context(self) -> SparkContext:
        """The cluster."""
        return self.by_user.frame.sparkSession.sparkContext

    def side(self, *, by_item: bool) -> SideLayout:
        """Return the chunks of items or users."""
        return self.by_item if by_item else self.by_user

    def close(self) -> None:
        """Let the cluster forget the reports."""
        self.by_user.forget()
        self.by_item.forget()


def kept(rdd: RDD[Any]) -> RDD[Any]:
    """Let the cluster keep what is computed, as it is: every sweep would pay for compressing or serialising it."""
    from pyspark import StorageLevel  # noqa: PLC0415 - there only with the extra

    return rdd.persist(StorageLevel.MEMORY_AND_DISK_DESER)


@contextmanager
def _kept_meanwhile(rdd: RDD[Any]) -> Iterator[RDD[Any]]:
    """Keep what is needed more than once, and only for a while."""
    try:
        yield kept(rdd)
    finally:
        rdd.unpersist()


def lay_out(
    context: SparkContext, parts: Sequence[Part], policies: Iterable[Policy], *, chunk_reports: int = MOST_REPORTS
) -> Layout:
    """Read and check all parts, number users and items, and gather the reports into chunks both ways."""
    given = Alphabet.of(policies)
    return _laid_out(read_parts(context, parts, given), given, chunk_reports)


def lay_out_frame(frame: DataFrame, policies: Iterable[Policy], *, chunk_reports: int = MOST_REPORTS) -> Layout:
    """Do the same with the rows of a DataFrame."""
    given = Alphabet.of(policies)
    return _laid_out(read_frame(frame, given), given, chunk_reports)


def _laid_out(reports: RDD[tuple[int, Any]], given: Alphabet, chunk_reports: int) -> Layout:
    with failures_in_one_line(), _kept_meanwhile(reports) as read:
        said = survey(read, given)
        checked = as_surveyed(read, said)
        buckets = [_partitions(read, -(-distinct // _IDS_IN_A_BUCKET)) for distinct in said.distinct]
        users = number(checked.map(_users_of), "user", as_text=said.users_are_text, buckets=buckets[0])
        items = number(checked.map(_items_of), "item", as_text=said.items_are_text, buckets=buckets[1])
        in_numbers = checked.zip(users.of_parts.zip(items.of_parts)).map(partial(_numbered, said.codes))
        with _kept_meanwhile(in_numbers) as numbered, ExitStack() as undone:
            codes = code_type_of(said.alphabet.size)
            by_user = _gathered(numbered, cut(users.counts, chunk_reports), codes, by_item=False)
            undone.callback(by_user.forget)
            _refuse_repeats(numbered, by_user, users, items)
            by_item = _gathered(numbered, cut(items.counts, chunk_reports), codes, by_item=True)
            undone.callback(by_item.forget)
            by_item.each(_number_of)
            undone.pop_all()
    return Layout(said.alphabet, users, items, said.counts, by_user, by_item)


def _users_of(part: tuple[int, Reports]) -> tuple[int, Ids]:
    return part[0], part[1].users


def _items_of(part: tuple[int, Reports]) -> tuple[int, Ids]:
    return part[0], part[1].items


def _numbered(codes: NDArray[Any], part: tuple[tuple[int, Reports], tuple[Numbers, Numbers]]) -> tuple[str, Cells]:
    """Put the numbers in the place of ids, and codes of the policies in use in the place of all policies'."""
    (_, reports), (users, items) = part
    return reports.label, (users[reports.users.codes], items[reports.items.codes], codes[reports.values])


def _partitions(rdd: RDD[Any], least: int) -> int:
    """Return how many partitions keep all cores busy, and at least so many: some machines may not be there yet."""
    cores: int = rdd.context.defaultParallelism
    return max(_PARTITIONS_PER_CORE * cores, least)


def _gathered(numbered: RDD[tuple[str, Cells]], edges: Counts, codes: type[Any], *, by_item: bool) -> SideLayout:
    """Gather reports into chunks, several to a partition; a partition is put together in one worker's memory."""
    chunks = len(edges) - 1
    partitions = min(chunks, _partitions(numbered, -(-chunks // _CHUNKS_IN_A_PARTITION)))
    pieces = numbered.flatMap(lambda part: parted(_turned(part[1], by_item=by_item), edges)).partitionBy(
        partitions, lambda chunk: chunk * partitions // chunks
    )
    return SideLayout(framed(pieces.mapPartitions(lambda found: assembled(found, edges))), edges, codes)


def _turned(cells: Cells, *, by_item: bool) -> Cells:
    users, items, values = cells
    return (items, users, values) if by_item else cells


def _refuse_repeats(numbered: RDD[tuple[str, Cells]], by_user: SideLayout, users: Numbering, items: Numbering) -> None:
    """Refuse reports of which two are of one user on one item, and say where they are."""
    pair = next((pair for pair in by_user.each(first_repeat) if pair is not None), None)
    if pair is None:
        return
    (label, first), (other, second), *_ = numbered.flatMap(partial(_places, pair)).collect()
    same = label == other and first != second  # equal rows: one file was given twice
    where = f"{label} rows {first} and {second}" if same else f"{label} row {first} and {other} row {second}"
    user, item = (str(side.vocabulary.id_at(at))[:40] for side, at in zip((users, items), pair, strict=True))
    raise ReportError(f"{where} both report item {item} for user {user}; keep one report per user and item")


def _places(pair: tuple[int, int], part: tuple[str, Cells]) -> list[tuple[str, int]]:
    label, (users, items, _) = part
    return [(label, int(row) + 1) for row in np.flatnonzero((users == pair[0]) & (items == pair[1]))]


def _number_of(chunk: Chunk) -> int:
    return chunk.number
