"""What a half-sweep is given, whatever does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from tacit.learning.gpu.components import Components
    from tacit.learning.gpu.reports import DeviceRows


@dataclass(frozen=True, eq=False, slots=True)
class Pull:
    """How coordinates that are solved for are pulled to zero, and what follows from that.

    Attributes:
        ridge: One number for each coordinate.
        slack: One over the ridge; ones where there is none at all, None where only some coordinates have one.
        everywhere: Whether there is a ridge on every coordinate.
        least: Rows with fewer reports are not determined.
    """

    ridge: Tensor
    slack: Tensor | None
    everywhere: bool
    least: int

    @classmethod
    def of(cls, ridge: Sequence[float], device: torch.device) -> Pull:
        """Put a ridge on a device."""
        everywhere, nowhere = all(each > 0 for each in ridge), not any(each > 0 for each in ridge)
        numbers = torch.tensor(ridge, dtype=torch.float32, device=device)
        slack = 1 / numbers if everywhere else torch.ones_like(numbers)
        return cls(numbers, slack if everywhere or nowhere else None, everywhere, len(ridge) if nowhere else 1)


@dataclass(frozen=True, eq=False, slots=True)
class Sweep:
    """What all blocks of a half-sweep have in common.

    Attributes:
        table: What codes stand for, or None where values are plain numbers.
        coordinates: How many coordinates take part in products; those that are solved for are the first.
        pull: The ridge on these.
        mixture: The noise.
        statistics: Whether to sum up what Eq. 9 and Eq. 6 need, at the new factors.
        memory: How many bytes may be used beside what is given.
    """

    table: Tensor | None
    coordinates: int
    pull: Pull
    mixture: Components
    statistics: bool
    memory: int

    @property
    def free(self) -> int:
        """How many coordinates are solved for."""
        return len(self.pull.ridge)


class HalfSweep(Protocol):
    """A way to solve the weighted least squares of a block of rows (Eq. 10), the other side's factors held."""

    def __call__(self, rows: DeviceRows, fixed: Tensor, solved: Tensor, sweep: Sweep) -> tuple[Tensor, Tensor]:
        """Replace the free coordinates of the block's rows in `solved`, where they are determined well enough.

        Returns:
            The sums over the rows solved, see `Components.no_sums`, and the numbers of the rows that have reports and
            were not solved, rising.
        """
        ...
