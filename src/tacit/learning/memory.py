"""How much memory a fit on this machine takes, foreseen, and how much there is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.learning.options import ChannelMfOptions, MfSgdOptions, Options, SvdOptions
from tacit.learning.widths import places

if TYPE_CHECKING:
    from tacit.learning.matrix import ReportMatrix

_LINE = 16
_SYSTEM = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def memory_needed(matrix: ReportMatrix, options: Options) -> int:
    """Estimate how many bytes a fit takes at its peak, the reports included."""
    people, things = matrix.shape
    rank = getattr(options, "rank", 0)
    if isinstance(options, ChannelMfOptions):
        rank += 2 * places(options)
    stride = -(-(rank + 2) // _LINE) * _LINE
    factors = 4 * stride * (people + things) + 8 * rank * (people + things)
    # A copy of the users' factors, to see how far they moved; plain values less the mean, for offsets.
    extra = 4 * stride * people + (4 * matrix.reports if matrix.symbol_values is None else 0)
    if isinstance(options, ChannelMfOptions):
        # Rows in the order of a sweep, variances and centres, the embedding and what it is found from.
        extra += 4 * (2 * stride + 4 * options.dimensions * options.pattern) * (people + things)
    elif isinstance(options, MfSgdOptions):
        extra += matrix.reports * (4 + 4 + 4 + 8 + 4 + matrix.by_user.values.itemsize)
    elif isinstance(options, SvdOptions) or getattr(options, "start", "") == "svd":
        extra += 24 * matrix.reports + 8 * (2 * rank + 20) * (people + things)
    return matrix.nbytes + factors + extra + 4 * rank * (people + things) + 40 * (people + things)


def available_memory() -> int:
    """Return how many bytes are to be had: what the system has left, and the container if this runs in one."""
    return int(min(_of_system(), _of_group()))


def _of_system() -> int:
    try:
        entries = dict(line.split(":", 1) for line in _SYSTEM.read_text().splitlines())
        return int(entries["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):  # not Linux: all there is
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_group() -> float:
    """Return what is left of the limit of this control group; infinite where there is none."""
    try:
        limit, used = ((_GROUP / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        entries = dict(line.split() for line in (_GROUP / "memory.stat").read_text().splitlines())
        return float("inf") if limit == "max" else int(limit) - int(used) + int(entries["inactive_file"])
    except (OSError, KeyError, ValueError):
        return float("inf")
