"""Factors of both sides on a device."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tacit.learning.factors import FactorPair
from tacit.learning.gpu.device import squares
from tacit.learning.kernels import padded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from tacit.learning.factors import Ridge


@dataclass(frozen=True, eq=False, slots=True)
class GpuFactors:
    """A factor pair as tensors, rows filled up to a multiple of 16 with zeros."""

    users: Tensor
    items: Tensor
    rank: int
    offsets: bool

    @classmethod
    def of(cls, pair: FactorPair, device: torch.device) -> GpuFactors:
        """Copy a pair to the device."""
        users, items = (torch.from_numpy(rows).to(device, copy=True) for rows in (pair.users, pair.items))
        return cls(users, items, pair.rank, pair.offsets)

    def home(self) -> FactorPair:
        """Copy them to this machine."""
        return FactorPair(padded(self.users.cpu().numpy()), padded(self.items.cpu().numpy()), self.rank, self.offsets)

    def take(self, pair: FactorPair) -> None:
        """Go on from these instead."""
        self.users.copy_(torch.from_numpy(pair.users))
        self.items.copy_(torch.from_numpy(pair.items))

    @contextmanager
    def turned(self) -> Iterator[None]:
        """Let offsets change places for a while: an item's then comes first, as a user's does."""
        self._exchange_offsets()
        try:
            yield
        finally:
            self._exchange_offsets()

    def _exchange_offsets(self) -> None:
        if self.offsets:
            for rows in (self.users, self.items):
                ends = rows[:, self.rank : self.rank + 2]
                ends.copy_(ends.flip(1))

    def penalty(self, ridge: Ridge) -> float:
        """Return what a ridge adds to the objective of least squares."""
        of_factors = sum(squares(rows[:, : self.rank]) for rows in (self.users, self.items))
        found = ridge.factors * of_factors
        if self.offsets:
            ends = self.users[:, self.rank, None], self.items[:, self.rank + 1, None]
            found += ridge.offsets * sum(map(squares, ends))
        return float(found)
