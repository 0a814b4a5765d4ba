"""Passages of docs/scaling.md that are made of what was measured on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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
            f"{run['times_plain']:.1f}",
            f"{run['floor']['overlapped']:,.1f}",
            f"{run['times_floor']:.1f}",
        ]
        for run in sorted(record["runs"], key=lambda run: (run["ratings"], run["rank"], -run["ridge"]))
    ]
    head = ["ratings", "rank", "ridge", "fused, ms", "plain PyTorch, ms", "plain / fused", "floor, ms", "fused / floor"]
    apart = max(run["likelihoods_apart"] for run in record["runs"] if run["ridge"])
    counts = sorted({run["likelihoods_compared"] for run in record["runs"] if run["ridge"]})
    compared = " or ".join(map(str, counts))
    most = max(len(run["fused"]["likelihoods"]) for run in record["runs"])
    but_for = f" (but for {record['commit_but_for']})" if "commit_but_for" in record else ""
    told = (
        f"{record['device']}, PyTorch {record['torch']}, Triton {record['triton']}, medians on"
        f" {record['date']} of commit {record['commit']}{but_for}; with a ridge, the two ways' likelihoods are at most"
        f" {apart:.1e} apart, relatively, over the {compared} iterations that plain PyTorch did; the kernels did up to"
        f" {most}."
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
    seconds = _seconds(record["runs"], LARGE, largest["rank"], rank)
    if seconds is None:
        return f"{told}."
    return (
        f"{told}; an iteration over it would take {seconds:.1f} s if a report and a row each took as long as in the two"
        f" worlds measured at rank {largest['rank']} on {record['date']}, turned into rank {rank} by the ratio of"
        " the two in the small one. It was not run."
    )


def needed(shape: WorldShape, rank: int) -> float:
    """Foresee the bytes that a fit takes on a device."""
    return _REPORT * shape.ratings + (shape.people + shape.items) * _row_bytes(rank) + _SCRATCH


def _row_bytes(rank: int) -> int:
    return _ROW + FLOAT * stride(rank)


def _seconds(runs: list[Record], shape: WorldShape, measured: int, rank: int) -> float | None:
    """Foresee the seconds in another world at the rank measured in two, turned into another by its ratio in one."""
    ridged = sorted((run for run in runs if run["ridge"]), key=lambda run: run["ratings"])
    two = [run for run in ridged if run["rank"] == measured]
    other = [run["fused"]["ms"] for run in ridged if run["rank"] == rank and run["ratings"] == two[0]["ratings"]]
    if len(two) != 2 or not other:  # noqa: PLR2004 - what two unknowns take
        return None
    sizes = np.array([[run["ratings"], run["people"] + run["items"]] for run in two])
    report, row = np.linalg.solve(sizes, [run["fused"]["ms"] / 1e3 for run in two])
    seconds = report * shape.ratings + row * (shape.people + shape.items)
    return float(seconds * other[0] / two[0]["fused"]["ms"])
