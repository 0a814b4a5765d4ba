"""Reading reports on a device: for a batch of rows, what was reported and the other side's factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch import Tensor

    from tacit.learning.gpu.batches import Batch
    from tacit.learning.gpu.reports import DeviceRows

    Which: TypeAlias = slice | Tensor  # rows of a block


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """Reports of a batch, one row each; where a row has fewer, its last is repeated and not `present`."""

    present: Tensor
    columns: Tensor
    values: Tensor
    codes: Tensor | None
    factors: Tensor

    def residuals(self, own: Tensor) -> Tensor:
        """Return what products with the rows' own factors leave unexplained."""
        return self.values - (self.factors @ own[:, :, None]).squeeze(-1)


@dataclass(frozen=True, eq=False, slots=True)
class Reading:
    """Rows of reports, what codes stand for, and the other side's factors, in the numbers that are computed with."""

    rows: DeviceRows
    table: Tensor | None
    fixed: Tensor
    dtype: torch.dtype = torch.float32

    def parts(self, batch: Batch, which: Which) -> Iterable[Part]:
        """Read a batch's reports part by part; a batch of one part is read once, however often it is gone through."""
        if batch.length <= batch.width:
            return (self._part(which, 0, batch.length),)
        return _Again(self, batch, which)

    def _part(self, which: Which, first: int, width: int) -> Part:
        at, present = places(self.rows, which, first, width)
        columns, said = self.rows.columns[at], self.rows.values[at]
        factors = looked_up(self.fixed, columns).to(self.dtype)
        if self.table is None:
            return Part(present, columns, (said - self.rows.centre).to(self.dtype), None, factors)
        codes = said.int()
        return Part(present, columns, looked_up(self.table, codes).to(self.dtype), codes, factors)


@dataclass(frozen=True, eq=False, slots=True)
class _Again:
    """The parts of a batch, read anew whenever they are gone through."""

    reading: Reading
    batch: Batch
    which: Which

    def __iter__(self) -> Iterator[Part]:
        for first in range(0, self.batch.length, self.batch.width):
            yield self.reading._part(self.which, first, min(self.batch.width, self.batch.length - first))  # noqa: SLF001


def places(rows: DeviceRows, which: Which, first: int, width: int) -> tuple[Tensor, Tensor]:
    """Return where reports `first` to `first + width` of some rows lie, and which of them are there."""
    starts, ends = rows.starts[:-1][which, None], rows.starts[1:][which, None]
    at = starts + torch.arange(first, first + width, device=rows.starts.device)
    return torch.minimum(at, ends - 1), at < ends


def looked_up(table: Tensor, index: Tensor) -> Tensor:
    """Return the rows of a table that an index of any shape names."""
    return table.index_select(0, index.reshape(-1)).reshape(*index.shape, *table.shape[1:])
