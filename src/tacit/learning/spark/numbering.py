"""Numbering ids across machines: the busiest first, ties by rising id, exactly as on one machine.

Every part of the reports sends its distinct ids, with how often it has them, to buckets. The driver gets each id once,
with its count, and decides on the numbers; these go back the same way. No report travels for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from tacit.errors import ReportError
from tacit.learning.reports import tally
from tacit.learning.spark.chunks import waves
from tacit.learning.spark.workers import settle
from tacit.privacy.vocabulary import MOST_IDS, Vocabulary, plain_ids
from tacit.tables import Ids, column_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray
    from pyspark import RDD

    Array = NDArray[Any]
    Counts = NDArray[np.int64]

_BUCKETS_AT_ONCE = 32
_MIXER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False, slots=True)
class Met:
    """Some distinct ids of a part, where they are in its list, and how often it has them."""

    part: int
    places: NDArray[np.int32]
    ids: Array
    counts: Counts


@dataclass(frozen=True, eq=False, slots=True)
class Numbering:
    """The vocabulary of one side with its counts, and for every part the numbers of its distinct ids."""

    vocabulary: Vocabulary
    counts: Counts
    of_parts: RDD[NDArray[np.int32]]


def number(ids: RDD[tuple[int, Ids]], name: str, *, as_text: bool, buckets: int) -> Numbering:
    """Number the ids of all parts, given by the number of the part; there must be one in each partition."""
    parts = ids.getNumPartitions()
    met = ids.flatMap(partial(_met, as_text, buckets)).partitionBy(buckets)
    vocabulary, counts, numbers = _decided(_brought(met.mapPartitionsWithIndex(_table)), name)
    decided = ids.context.parallelize(list(numbers.items()), min(buckets, len(numbers))).partitionBy(buckets)
    back = met.cogroup(decided, buckets).flatMap(_answers).partitionBy(parts)
    return Numbering(vocabulary, counts, back.mapPartitions(_put_together))


def _brought(tables: RDD[tuple[int, tuple[Array, Counts]]]) -> dict[int, tuple[Array, Counts]]:
    """Bring all buckets to the driver; Java has only some of them at a time."""
    found: dict[int, tuple[Array, Counts]] = {}
    for some in waves(range(tables.getNumPartitions()), _BUCKETS_AT_ONCE):
        found |= tables.context.runJob(tables, list, list(some))
    return found


def _met(as_text: bool, buckets: int, numbered: tuple[int, Ids]) -> Iterator[tuple[int, Met]]:  # noqa: FBT001 - inner
    settle()
    part, ids = numbered
    distinct, counts = plain(ids.distinct, as_text=as_text), tally(ids.codes, len(ids.distinct))
    bucket_of = _buckets(distinct, buckets)
    for bucket in np.unique(bucket_of).tolist():
        places = np.flatnonzero((bucket_of == bucket) & (counts > 0)).astype(np.int32)
        if len(places):
            yield bucket, Met(part, places, distinct[places], counts[places])


def plain(ids: Array, *, as_text: bool) -> Array:
    """Return ids as whole numbers, or as text where some part of the reports has text."""
    made = plain_ids([ids])[0]
    return plain_ids([made, np.empty(0, dtype=object)])[0] if as_text else made


def _buckets(ids: Array, buckets: int) -> NDArray[np.int64]:
    """Choose a bucket for every id, the same on every machine."""
    if ids.dtype.kind == "i":
        mixed = ids.astype(np.uint64) * _MIXER >> np.uint64(32)
    else:
        mixed = np.fromiter((crc32(text.encode()) for text in ids), dtype=np.uint64, count=len(ids))
    return (mixed % np.uint64(buckets)).astype(np.int64)


def _merged(met: list[Met]) -> tuple[Array, Counts, list[NDArray[np.int32]]]:
    """Merge ids that several parts have; return also where in the merged list each part's went."""
    joint = column_of(np.concatenate([each.ids for each in met]), "id").ids()
    counts = np.zeros(len(joint.distinct), dtype=np.int64)
    places = np.split(joint.codes, np.cumsum([len(each.ids) for each in met])[:-1])
    for each, place in zip(met, places, strict=True):
        counts[place] += each.counts
    return joint.distinct, counts, places


def _table(bucket: int, met: Iterable[tuple[int, Met]]) -> Iterator[tuple[int, tuple[Array, Counts]]]:
    settle()
    found = [each for _, each in met]
    if found:
        ids, counts, _ = _merged(found)
        yield bucket, (ids, counts)


def _decided(
    tables: dict[int, tuple[Array, Counts]], name: str
) -> tuple[Vocabulary, Counts, dict[int, NDArray[np.int32]]]:
    """Number all ids; return the numbers bucket by bucket."""
    listed = sorted(tables)
    joint = column_of(np.concatenate([tables[bucket][0] for bucket in listed]), name).ids()
    if len(joint.distinct) > MOST_IDS:
        msg = f"there are {len(joint.distinct)} different {name} ids, the limit is {MOST_IDS}; split the reports"
        raise ReportError(msg)
    counts = np.empty(len(joint.distinct), dtype=np.int64)
    counts[joint.codes] = np.concatenate([tables[bucket][1] for bucket in listed])
    order = np.argsort(-counts, kind="stable")
    numbers = np.empty(len(order), dtype=np.int32)
    numbers[order] = np.arange(len(order), dtype=np.int32)
    ends = np.cumsum([len(tables[bucket][0]) for bucket in listed])
    by_bucket = np.split(numbers[joint.codes], ends[:-1])
    return Vocabulary(joint.distinct[order]), counts[order], dict(zip(listed, by_bucket, strict=True))


def _answers(bucket: tuple[int, tuple[Iterable[Met], Iterable[NDArray[np.int32]]]]) -> Iterator[tuple[int, Any]]:
    settle()
    found, decided = list(bucket[1][0]), list(bucket[1][1])
    # Parts may come in any order, but merging sorts.
    for each, place in zip(found, _merged(found)[2], strict=True):
        yield each.part, (each.places, decided[0][place])


def _put_together(answers: Iterable[tuple[int, Any]]) -> Iterator[NDArray[np.int32]]:
    """Return the numbers of a part's ids in its own order; those it does not have in truth get -1."""
    settle()
    listed = [answer for _, answer in answers]
    length = max((int(places.max()) + 1 for places, _ in listed), default=0)
    numbers = np.full(length, -1, dtype=np.int32)
    for places, found in listed:
        numbers[places] = found
    yield numbers
