"""What a half-sweep is given, whatever does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from tacit.learning.gpu.components import Components
    from tacit.learning.gpu.reports import DeviceRows


@dataclass(frozen=True, eq=False, slots=True)
class Sweep:
    """What all blocks of a half-sweep have in common.

    Attributes:
        table: What codes stand for, or None where values are plain numbers.
        coordinates: How many coordinates take part in products.
        ridge: One number for each coordinate that is solved for, which are the first.
        least: Rows with fewer reports are not determined, and not to be solved.
        mixture: The noise.
        statistics: Whether to sum up what Eq. 9 and Eq. 6 need, at the new factors.
        memory: How many bytes may be used beside what is given.
    """

    table: Tensor | None
    coordinates: int
    ridge: Tensor
    least: int
    mixture: Components
    statistics: bool
    memory: int

    @property
    def free(self) -> int:
        """How many coordinates are solved for."""
        return len(self.ridge)


class HalfSweep(Protocol):
    """A way to solve the weighted least squares of a block of rows (Eq. 10), the other side's factors held."""

    def __call__(self, rows: DeviceRows, fixed: Tensor, solved: Tensor, sweep: Sweep) -> tuple[Tensor, Tensor]:
        """Replace the free coordinates of the block's rows in `solved`, where they are determined well enough.

        Returns:
            The sums over the rows solved, see `Components.no_sums`, and the numbers of the rows that have reports and
            were not solved, rising.
        """
        ...
