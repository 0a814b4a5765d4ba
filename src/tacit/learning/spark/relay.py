"""Work on chunks with rows of the driver's that are too many to be sent to every worker: each gets those it needs.

Rows go to the cluster in waves, by way of the checkpoint folder; there chunks send each other what they need, as in the
joined plan, and what comes of it returns in waves. So Java never holds all of it in one place.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.learning.spark.exchange import Home, Sent, by_kind, sent
from tacit.learning.spark.failures import failures_in_one_line
from tacit.learning.spark.written import Checkpoints, forget_shuffles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray
    from pyspark import RDD, SparkContext

    from tacit.learning.matrix import Rows
    from tacit.learning.spark.joined import JoinedSide

    Floats = NDArray[np.float32]
    Work = Callable[[Rows, Floats, Floats], Any]


@dataclass(frozen=True, eq=False, slots=True)
class Lot:
    """Rows of one chunk, as the driver sent them."""

    rows: Floats


@dataclass(frozen=True, eq=False, slots=True)
class Relay:
    """The sides of a joined plan, users' and items', and the cluster they are on."""

    context: SparkContext
    sides: dict[bool, JoinedSide]

    def each(self, work: Work, held: Floats, own: Floats, *, by_item: bool) -> Iterator[tuple[slice, Any]]:
        """Do something with every chunk of a side; return where its rows are and what came of it, in their order.

        Work gets a chunk's reports, whose columns are places among the rows of the other side that it needs, these
        rows of `held`, and the chunk's own rows of `own`.
        """
        side, other = self.sides[by_item], self.sides[not by_item]
        with _written(self.context) as (checkpoints, shuffled):
            held_there, own_there = other.send(held, Lot, checkpoints), side.send(own, Lot, checkpoints)
            came = sent(other.links, held_there, len(side.ends))
            shuffled += [held_there, own_there, came]
            gathered: Any = self.context.union([own_there, came, side.homes])
            found = gathered.mapPartitions(_Working(work), preservesPartitioning=True)
            yield from side.brought(found, own[0].nbytes + held[0].nbytes)


@contextmanager
def _written(context: SparkContext) -> Iterator[tuple[Checkpoints, list[RDD[Any]]]]:
    """Offer a place for files, and a list of RDDs that were shuffled: both go when the work is done."""
    made, shuffled = Checkpoints(context), list[Any]()
    try:
        with failures_in_one_line():
            yield made, shuffled
    finally:
        with suppress(Exception):  # what went wrong before says more
            made.close()
            forget_shuffles(shuffled)


@dataclass(frozen=True, eq=False, slots=True)
class _Working:
    """Works on one chunk, in a worker, once all is there."""

    work: Work

    def __call__(self, records: Iterable[tuple[int, Home | Lot | Sent]]) -> Iterator[tuple[int, Any]]:
        chunk, found = by_kind(records)
        (home,), (own,) = found[Home], found[Lot]
        came = sorted(found[Sent], key=_sender)
        yield chunk, self.work(home.rows, np.concatenate([each.rows for each in came]), own.rows)


def _sender(came: Sent) -> int:
    return came.sender
