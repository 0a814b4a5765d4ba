"""Sums of the rows of a dense matrix that sparse rows name, on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from tacit.learning.gpu.batches import Cost
from tacit.learning.gpu.reading import looked_up, places

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from tacit.learning.gpu.batches import Batch
    from tacit.learning.gpu.reports import DeviceReports, DeviceRows

    Floats = NDArray[np.float32]


def row_sums(reports: DeviceReports, dense: Floats, *, by_item: bool, memory: int) -> Floats:
    """Sum, for every user or item, the rows of `dense` of those on the other side it has reports with."""
    table = torch.from_numpy(np.ascontiguousarray(dense)).to(reports.device)
    cost = Cost(2 * dense.shape[1], 1, 4, memory)  # a report's row in singles, and in doubles
    parts = []
    for rows in reports.rows(by_item=by_item):
        sums = torch.zeros(len(rows), dense.shape[1], device=reports.device)
        for batch in rows.batches(1, cost):
            sums[batch.rows] = _sums_of(rows, batch, table)
        parts.append(sums.cpu().numpy())
    return np.concatenate(parts)


def _sums_of(rows: DeviceRows, batch: Batch, table: Tensor) -> Tensor:
    """Sum in doubles: beside a long sum in single precision one more row would vanish."""
    sums = torch.zeros(batch.rows.stop - batch.rows.start, table.shape[1], dtype=torch.float64, device=table.device)
    for first in range(0, batch.length, batch.width):
        at, present = places(rows, batch.rows, first, min(batch.width, batch.length - first))
        named = looked_up(table, rows.columns[at])
        sums += named.mul_(present[:, :, None]).sum(dim=1, dtype=torch.float64)
    return sums.float()
