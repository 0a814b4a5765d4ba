"""Reading reports on a cluster, part by part, and what the driver wants to know of them before anything else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ReportError, TacitError
from tacit.learning.reports import Alphabet, Reports, code_type_of, tally
from tacit.privacy.vocabulary import plain_ids
from tacit.tables import Ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyspark import RDD, SparkContext

    from tacit.learning.spark.sources import Part

    Counts = NDArray[np.int64]


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
