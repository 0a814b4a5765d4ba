"""Passages of docs/scaling.md that are made of what was measured on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster.model import FLOAT, stride
from cluster.tables import LARGE, table

if TYPE_CHECKING:
    from tacit.evaluation.world import WorldShape

    Record = dict[str, Any]

MEMORY = 139 << 30  # of an H200, as PyTorch finds it
# As in tacit.learning.gpu.plan: what stays free, what kernels note down, and room for batches.
_SPARE, _SCRATCH = 0.05, 1 << 29  # what is left of it where reports would not fit otherwise
_REPORT = 2 * 5 + 2 * 64 / 2048
_ROW = 8 + 64


def iterations(record: Record) -> str:
    """Tell milliseconds an iteration, beside plain PyTorch and the floor."""
    rows = [
        [
            f"{run['ratings'] / 1e6:,.4g} M",
            str(run["rank"]),
            str(run["ridge"]),
            *(f"{run[way]['ms']:,.1f}" for way in ("fused", "plain")),
            f"{run['floor']['overlapped']:,.1f}",
            f"{run['times_floor']:.1f}",
        ]
        for run in sorted(record["runs"], key=lambda run: (run["ratings"], run["rank"], -run["ridge"]))
    ]
    head = ["ratings", "rank", "ridge", "fused kernels, ms", "plain PyTorch, ms", "floor, ms", "fused / floor"]
    apart = max(run["likelihoods_apart"] for run in record["runs"] if run["ridge"])
    compared = min(run["likelihoods_compared"] for run in record["runs"])
    told = (
        f"{record['device']}, PyTorch {record['torch']}, Triton {record['triton']}, medians of one run on"
        f" {record['date']} of commit {record['commit']}; with a ridge, the two ways' likelihoods are at most"
        f" {apart:.1e} apart, relatively, over {compared} iterations."
    )
    return f"{table(head, rows)}\n\n{told}"


def memory(record: Record) -> str:
    """Tell how many reports a device holds, and how long they would take."""
    largest, rank = max(record["runs"], key=lambda run: run["ratings"]), 32
    rows_each = (largest["people"] + largest["items"]) / largest["ratings"]
    room = MEMORY * (1 - _SPARE) - _SCRATCH
    most = room / (_REPORT + rows_each * _row_bytes(rank))
    told = (
        f"An H200 with {MEMORY >> 30} GiB holds {most / 1e9:.1f} thousand million reports at rank {rank}, with as many"
        f" to a row as in the largest world measured. The world above would take"
        f" {needed(LARGE, rank) / (1 << 30):.0f} GiB of the {room / (1 << 30):.0f} that reports and factors may have"
    )
    seconds = _seconds(record["runs"], largest, rank)
    if seconds is None:
        return f"{told}."
    each = seconds * LARGE.ratings / largest["ratings"]
    return (
        f"{told}; an iteration over it would take {each:.1f} s at the rate of the largest world, rank {largest['rank']}"
        f" turned into {rank} by the ratio of the two in the small one. It was not run."
    )


def needed(shape: WorldShape, rank: int) -> float:
    """Foresee the bytes that a fit takes on a device."""
    return _REPORT * shape.ratings + (shape.people + shape.items) * _row_bytes(rank) + _SCRATCH


def _row_bytes(rank: int) -> int:
    return _ROW + FLOAT * stride(rank + 2)  # room for offsets, if there are any


def _seconds(runs: list[Record], largest: Record, rank: int) -> float | None:
    """Return the seconds of the largest world at another rank, by the ratio of ranks in a smaller one."""
    small = {
        run["rank"]: run["fused"]["best_ms"] for run in runs if run["ridge"] and run["ratings"] < largest["ratings"]
    }
    if rank not in small or largest["rank"] not in small:
        return None
    return float(largest["fused"]["ms"] / 1e3 * small[rank] / small[largest["rank"]])
