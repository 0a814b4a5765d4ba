"""Cells: reports with their users and items numbered, the busiest first, whatever order they came in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ReportError
from tacit.learning.reports import Reports, blocks, checked_ids, tally
from tacit.privacy.vocabulary import MOST_IDS, Vocabulary, plain_ids
from tacit.tables import Ids, column_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.privacy.vocabulary import IdList


@dataclass(frozen=True, eq=False)
class Cells:
    """Reports in the order they came, users and items already numbered."""

    sources: tuple[tuple[str, int], ...]  # label and number of reports
    users: Vocabulary
    items: Vocabulary
    user_of: NDArray[np.int32]
    item_of: NDArray[np.int32]
    values: NDArray[Any]

    def place_of(self, row: int) -> tuple[str, int]:
        """Return which source a row came from, and its number there, from 1."""
        ends = np.cumsum([count for _, count in self.sources])
        source = int(np.searchsorted(ends, row, side="right"))
        label, count = self.sources[source]
        return label, row - int(ends[source]) + count + 1


def cells_of(
    parts: list[Reports], catalogue_users: IdList | None = None, catalogue_items: IdList | None = None
) -> Cells:
    """Number the users and items of reports, and of the catalogues of those that may have none."""
    users, user_of = _numbered([part.users for part in parts], catalogue_users, "user")
    items, item_of = _numbered([part.items for part in parts], catalogue_items, "item")
    sources = tuple((part.label, len(part.values)) for part in parts)
    return Cells(sources, users, items, user_of, item_of, np.concatenate([part.values for part in parts]))


def refuse_repeats(cells: Cells, starts: NDArray[Any], users: NDArray[Any]) -> None:
    """Refuse cells where a pair is there twice; `users` are those of item i from `starts[i]` on, rising."""
    again = users[1:] == users[:-1]
    inner = starts[(starts > 0) & (starts < len(users))]
    again[inner - 1] = False  # the last of one item and the first of the next are no repeat
    if not again.any():
        return
    at = int(np.argmax(again))
    user, item = int(users[at]), int(np.searchsorted(starts, at, side="right")) - 1
    rows = np.flatnonzero((cells.user_of == user) & (cells.item_of == item))
    (label, first), (other, second) = cells.place_of(int(rows[0])), cells.place_of(int(rows[1]))
    same = label == other and first != second  # equal rows: one file was given twice
    where = f"{label} rows {first} and {second}" if same else f"{label} row {first} and {other} row {second}"
    said = f"both report item {str(cells.items.id_at(item))[:40]} for user {str(cells.users.id_at(user))[:40]}"
    raise ReportError(f"{where} {said}; keep one report per user and item")


def _numbered(parts: list[Ids], catalogue: IdList | None, name: str) -> tuple[Vocabulary, NDArray[np.int32]]:
    """Number ids by falling number of reports, ties by rising id; return the number of every row's id."""
    distinct, places = _joined([part.distinct for part in parts], catalogue, name)
    counts = np.zeros(len(distinct), dtype=np.int64)
    for part, place in zip(parts, places, strict=False):
        counts[place] += tally(part.codes, len(part.distinct))
    listed = counts > 0
    listed[places[-1]] |= catalogue is not None
    order = np.argsort(-counts, kind="stable")
    order = order[listed[order]]
    if len(order) > MOST_IDS:
        raise ReportError(f"there are {len(order)} different {name} ids, the limit is {MOST_IDS}; split the reports")
    number = np.zeros(len(distinct), dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    numbers = [_replaced(part.codes, number[place]) for part, place in zip(parts, places, strict=False)]
    return Vocabulary(distinct[order]), np.concatenate(numbers) if len(numbers) > 1 else numbers[0]


def _joined(parts: list[NDArray[Any]], catalogue: IdList | None, name: str) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Merge lists of ids into one, rising; return also where in it each list's ids went."""
    listed = [] if catalogue is None else [checked_ids(catalogue, f"{name} of the catalogue")]
    lists = plain_ids([*parts, *listed])
    if len(lists) == 1 and (lists[0].dtype == object) == (parts[0].dtype == object):
        return lists[0], [np.arange(len(lists[0]))]
    joint = column_of(np.concatenate(lists), name, label=f"the {name} ids").ids()
    return joint.distinct, np.split(joint.codes, np.cumsum([len(ids) for ids in lists])[:-1])


def _replaced(codes: NDArray[np.int32], number: NDArray[np.int32]) -> NDArray[np.int32]:
    numbers = np.empty(len(codes), dtype=np.int32)
    for block in blocks(len(codes)):
        numbers[block] = number[codes[block]]
    return numbers
