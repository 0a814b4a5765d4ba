"""Memory: how much a run may take, so that it is refused before it starts rather than killed at the end."""

from __future__ import annotations

import resource
import sys
from typing import TYPE_CHECKING

from tacit.errors import RunError
from tacit.learning import memory_needed
from tacit.learning.memory import available_memory

if TYPE_CHECKING:
    from tacit.learning import Options, ReportMatrix


def check_memory(matrix: ReportMatrix, options: Options, most: int | None) -> int:
    """Return how many bytes a run will take, or refuse it if there are not so many.

    Args:
        matrix: All reports. A second matrix of nearly all of them is there while quality is measured.
        options: Of the model.
        most: How many bytes it may take; None is what the machine has left.
    """
    needed = memory_needed(matrix, options) + matrix.nbytes
    # The matrix is in memory already, so what is left is less by that.
    limit = available_memory() + matrix.nbytes if most is None else most
    if needed > limit:
        found = f"training needs about {_shown(needed)} of memory and {_shown(limit)} are to be had"
        raise RunError(f"{found}; give the machine more, or choose a model of lower rank or fewer dimensions")
    return needed


def peak_memory() -> int:
    """Return how many bytes this process took at most so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _shown(size: float) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e7 else f"{size / 1e6:.2f} MB"  # noqa: PLR2004 - a matter of looks
