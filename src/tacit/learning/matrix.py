"""The report matrix: reports as sparse arrays, by user and by item."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ReportError
from tacit.learning.cells import Cells, cells_of, refuse_repeats
from tacit.learning.checksum import checksum_of, whole
from tacit.learning.reports import (
    Alphabet,
    blocks,
    reports_of_arrow,
    reports_of_file,
    reports_of_parts,
    reports_of_values,
    tally,
)
from tacit.tables import files_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from tacit.learning.reports import Part
    from tacit.privacy.policy import Policy
    from tacit.privacy.scale import RatingScale
    from tacit.privacy.vocabulary import IdList, Vocabulary


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """Sparse rows: row r has `columns[starts[r]:starts[r + 1]]`, rising, and the values there. Read-only."""

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[Any]

    def __post_init__(self) -> None:
        """Keep the arrays from being changed."""
        for array in (self.starts, self.columns, self.values):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def counts(self) -> NDArray[np.int64]:
        """Return how many entries each row has."""
        return np.diff(self.starts)

    def part(self, first: int, last: int) -> Rows:
        """Return the rows from `first` up to, not including, `last`, without a copy of what they hold."""
        starts = self.starts[first : last + 1]
        held = slice(int(starts[0]), int(starts[-1]))
        return Rows(starts - starts[0], self.columns[held], self.values[held])

    @property
    def nbytes(self) -> int:
        """How much memory the rows take."""
        return self.starts.nbytes + self.columns.nbytes + self.values.nbytes


@dataclass(frozen=True, eq=False)
class ReportMatrix:
    """Reports as sparse arrays, by user and by item, at most one for each pair.

    Users and items are numbered by falling number of reports, ties by rising id, so
    busy rows lie together and the order in which reports came in leaves no trace.
    Values are codes into `symbol_values`, the symbols of all `policies` one after
    the other; or plain numbers, when `symbol_values` is None.
    """

    scale: RatingScale
    users: Vocabulary
    items: Vocabulary
    by_user: Rows
    by_item: Rows
    symbol_values: NDArray[np.float32] | None
    policies: tuple[Policy, ...]

    @classmethod
    def of_symbols(  # noqa: PLR0913 - three columns, what they mean, and two catalogues
        cls,
        users: IdList,
        items: IdList,
        symbols: ArrayLike,
        policy: Policy,
        *,
        catalogue_users: IdList | None = None,
        catalogue_items: IdList | None = None,
    ) -> ReportMatrix:
        """Build the matrix of reports under one policy, given as three arrays of equal length.

        Ids of a catalogue get an index even when no report names them.
        """
        part = users, items, symbols, policy
        return cls.of_parts([part], catalogue_users=catalogue_users, catalogue_items=catalogue_items)

    @classmethod
    def of_parts(
        cls,
        parts: Iterable[Part],
        *,
        catalogue_users: IdList | None = None,
        catalogue_items: IdList | None = None,
    ) -> ReportMatrix:
        """Build the matrix of reports under several policies on one scale.

        Each part is the users, items and symbols of reports, as in `of_symbols`, and their policy.
        """
        listed = list(parts)
        alphabet = Alphabet.of(policy for *_, policy in listed)
        return _of_codes(cells_of(reports_of_parts(listed, alphabet), catalogue_users, catalogue_items), alphabet)

    @classmethod
    def of_values(  # noqa: PLR0913 - as above
        cls,
        users: IdList,
        items: IdList,
        values: ArrayLike,
        scale: RatingScale,
        *,
        catalogue_users: IdList | None = None,
        catalogue_items: IdList | None = None,
    ) -> ReportMatrix:
        """Build a matrix of plain numbers, for noise that is no channel and for the non-private baseline."""
        cells = cells_of([reports_of_values(users, items, values)], catalogue_users, catalogue_items)
        return cls(scale, cells.users, cells.items, *_both_ways(cells, cells.values), None, ())

    @classmethod
    def of_arrow(cls, table: Any, policies: Iterable[Policy]) -> ReportMatrix:  # noqa: ANN401 - Arrow is untyped
        """Build the matrix of an Arrow table with columns, and perhaps metadata, as in files of reports."""
        alphabet = Alphabet.of(policies)
        return _of_codes(cells_of([reports_of_arrow(table, alphabet)]), alphabet)

    @property
    def shape(self) -> tuple[int, int]:
        """How many users and items there are."""
        return len(self.users), len(self.items)

    @property
    def reports(self) -> int:
        """How many reports there are."""
        return len(self.by_user.values)

    @property
    def user_counts(self) -> NDArray[np.int64]:
        """How many reports each user has."""
        return self.by_user.counts()

    @property
    def item_counts(self) -> NDArray[np.int64]:
        """How many reports each item has."""
        return self.by_item.counts()

    @cached_property
    def symbol_counts(self) -> NDArray[np.int64]:
        """How many reports have each code; of plain numbers there are none."""
        if self.symbol_values is None:
            return np.zeros(0, dtype=np.int64)
        return tally(self.by_user.values, len(self.symbol_values))

    @property
    def mean(self) -> float:
        """The mean of the values."""
        return self._moments[0]

    @property
    def variance(self) -> float:
        """The mean squared distance of the values from their mean."""
        return self._moments[1]

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take, apart from the text of ids."""
        values = 0 if self.symbol_values is None else self.symbol_values.nbytes
        return self.by_user.nbytes + self.by_item.nbytes + self.users.ids.nbytes + self.items.ids.nbytes + values

    @cached_property
    def checksum(self) -> str:
        """The SHA-256 of ids, structure, values, scale and policies: the same for the same reports in any order."""
        return checksum_of(self, [whole(name, getattr(self.by_user, name)) for name in ("starts", "columns", "values")])

    def values_of(self, rows: Rows | NDArray[Any]) -> NDArray[np.float32]:
        """Return the numbers that the values of rows, or a slice of those values, stand for."""
        values = rows.values if isinstance(rows, Rows) else rows
        return values if self.symbol_values is None else self.symbol_values[values]

    @cached_property
    def _moments(self) -> tuple[float, float]:
        values = self.by_user.values
        if self.symbol_values is not None:
            counts, numbers = self.symbol_counts, self.symbol_values.astype(np.float64)
            mean = float(counts @ numbers) / len(values)
            return mean, float(counts @ (numbers - mean) ** 2) / len(values)
        mean = float(values.mean(dtype=np.float64))
        squares = (float(((values[block].astype(np.float64) - mean) ** 2).sum()) for block in blocks(len(values)))
        return mean, sum(squares) / len(values)


def read_reports(paths: str | Path | Sequence[str | Path], policies: Iterable[Policy]) -> ReportMatrix:
    """Read CSV or Parquet files of reports, or folders of such, each row under one of the policies."""
    places = [paths] if isinstance(paths, str | Path) else list(paths)
    if not places:
        raise ReportError("no file of reports was given; give at least one")
    files = [file for place in places for file in files_of(place)]
    alphabet = Alphabet.of(policies)
    return _of_codes(cells_of([reports_of_file(file, alphabet) for file in files]), alphabet)


def _of_codes(cells: Cells, alphabet: Alphabet) -> ReportMatrix:
    used, codes = alphabet.without_unused(cells.values)
    used.symbol_values.setflags(write=False)
    by_user, by_item = _both_ways(cells, codes)
    return ReportMatrix(used.scale, cells.users, cells.items, by_user, by_item, used.symbol_values, used.policies)


def _both_ways(cells: Cells, values: NDArray[Any]) -> tuple[Rows, Rows]:
    """Sort the cells by user and by item, in linear time and with little memory beside the result."""
    from scipy.sparse import coo_array  # noqa: PLC0415 - a slow import

    pairs = coo_array((values, (cells.user_of, cells.item_of)), shape=(len(cells.users), len(cells.items)))
    pairs.has_canonical_format = True  # else a pair that is there twice would be summed instead of named
    # Each turn goes through the rows of the one before in order, so from the second on columns rise in every row.
    by_item = pairs.tocsr().tocsc()
    refuse_repeats(cells, by_item.indptr, by_item.indices)
    by_user = by_item.tocsr()
    return _rows_of(by_user), _rows_of(by_item)


def _rows_of(compressed: Any) -> Rows:  # noqa: ANN401 - csr_array or csc_array
    starts, columns = compressed.indptr.astype(np.int64), compressed.indices.astype(np.int32, copy=False)
    return Rows(starts, columns, compressed.data)
