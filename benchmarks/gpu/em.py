"""EM iterations on a GPU: ours beside plain batched PyTorch in one run, the floor, and a billion ratings."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import platform
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import rates
import torch
import worlds

from tacit.learning.gpu import plain
from tacit.learning.gpu.device import memory_limit
from tacit.learning.gpu.engine import GpuEngine
from tacit.learning.gpu.trial import half_sweep_for
from tacit.learning.loop import Conduct
from tacit.learning.mog_mf import fit_mog_mf
from tacit.learning.options import MogMfOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from tacit.learning import ReportMatrix
    from tacit.learning.gpu.sweep import HalfSweep
    from tacit.learning.gpu.trial import Kind
    from tacit.learning.trace import FitTrace

RESULT = Path(__file__).parents[1] / "results" / "gpu.json"
COMPONENTS = 4
RIDGE = 0.1
WITHOUT_A_RIDGE = 32  # the rank that is measured as the paper has it, too


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of each iteration after those that warm up; and the likelihoods of all."""

    each: list[float]
    likelihoods: list[float]

    @classmethod
    def of(cls, trace: FitTrace, warming: int) -> Timing:
        """Read them off a fit."""
        each = [1e3 * one.seconds for one in trace.iterations[warming:]]
        return cls(each, [float(one.likelihood or 0) for one in trace.iterations])

    def median(self) -> float:
        """Return the median."""
        return statistics.median(self.each)

    def record(self) -> dict[str, Any]:
        """Return the figures to write down."""
        summed_up = {"ms": round(self.median(), 3), "best_ms": round(min(self.each), 3)}
        return summed_up | {"each_ms": [round(ms, 3) for ms in self.each], "likelihoods": self.likelihoods}


@dataclass(frozen=True, slots=True)
class Case:
    """What is trained."""

    name: str
    rank: int
    ridge: float = RIDGE


def timed(
    matrix: ReportMatrix, case: Case, choose: Callable[[torch.device, Kind], HalfSweep], iterations: int, warming: int
) -> Timing:
    """Train; an iteration's time ends when its likelihood is known on this side."""
    device = torch.device("cuda")
    engine = GpuEngine(matrix, device, memory_limit(device), choose)
    options = MogMfOptions(
        rank=case.rank, components=COMPONENTS, regularisation=case.ridge, iterations=warming + iterations, tolerance=0.0
    )
    print(f"  {engine.prepare(options)}", flush=True)
    _, trace = fit_mog_mf(engine, options, np.random.default_rng(0), Conduct())
    torch.cuda.empty_cache()
    return Timing.of(trace, warming)


def fused(device: torch.device, kind: Kind) -> HalfSweep:
    """Choose the kernels as a fit does, after a trial; there is nothing to compare where they do not work."""
    chosen = half_sweep_for(device, kind)
    if chosen is plain.half_sweep:
        raise RuntimeError("the fused kernels do not work here")
    return chosen


def compare(matrix: ReportMatrix, case: Case, chosen: argparse.Namespace, reached: rates.Rates) -> dict[str, Any]:
    """Train both ways on one world at one rank, the slower one not as long."""
    people, things = matrix.shape
    size = f"{matrix.reports:,} ratings, {people:,} people, {things:,} items"
    print(f"{case.name}: {size}, rank {case.rank}, ridge {case.ridge}", flush=True)
    ours = timed(matrix, case, fused, chosen.iterations, chosen.warming)
    other = timed(matrix, case, lambda *_: plain.half_sweep, max(2, chosen.iterations // 5), chosen.warming)
    least = rates.floor_of(matrix, case.rank, reached)
    apart = max(abs(a / b - 1) for a, b in zip(ours.likelihoods, other.likelihoods, strict=False))
    times_plain, times_floor = other.median() / ours.median(), ours.median() / least.overlapped
    print(
        f"  fused {ours.median():.2f} ms, plain {other.median():.2f} ms ({times_plain:.1f} times); floor"
        f" {least.overlapped:.2f} ms, {times_floor:.1f} times; likelihoods apart {apart:.1e}",
        flush=True,
    )
    return {
        "ratings": matrix.reports,
        "people": people,
        "items": things,
        "rank": case.rank,
        "ridge": case.ridge,
        "components": COMPONENTS,
        "fused": ours.record(),
        "plain": other.record(),
        "times_plain": round(times_plain, 2),
        "product_flops_per_second": round(reached.flops),
        "copy_bytes_per_second": round(reached.copied),
        "floor": least.record(),
        "times_floor": round(times_floor, 2),
        "likelihoods_apart": apart,
        "likelihoods_compared": len(other.likelihoods),
    }


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--ranks", type=lambda text: [int(part) for part in text.split(",")], default=[8, 32, 64, 128, 256]
    )
    parser.add_argument("--iterations", type=int, default=15)
    parser.add_argument("--warming", type=int, default=3)
    parser.add_argument("--billion", action="store_true", help="train on 10^9 ratings at rank 64, too")
    parser.add_argument("--commit", help="of what is measured, where git does not say")
    parser.add_argument("--output", type=Path, default=RESULT)
    chosen = parser.parse_args()
    chosen.commit = chosen.commit or _commit()
    return chosen


def main() -> None:
    """Measure, print and keep the figures."""
    chosen = arguments()
    reached = rates.Rates.measured()
    name = torch.cuda.get_device_name()
    print(f"{name}: {reached.flops / 1e12:.1f} TFlop/s, copies {reached.copied / 1e12:.2f} TB/s", flush=True)
    record: dict[str, Any] = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "device": name,
        "torch": torch.__version__,
        "triton": _triton(),
        "python": platform.python_version(),
        "commit": chosen.commit,
        "runs": [],
    }
    began = time.perf_counter()
    matrix = worlds.libimseti()
    print(f"the world was made in {time.perf_counter() - began:.0f} s", flush=True)
    cases = [Case("libimseti's shape", rank) for rank in chosen.ranks]
    for case in [*cases, Case("libimseti's shape", WITHOUT_A_RIDGE, 0.0)]:
        record["runs"].append(compare(matrix, case, chosen, reached))
        _keep(record, chosen.output)
    if chosen.billion:
        del matrix
        began = time.perf_counter()
        matrix = worlds.billion()
        torch.cuda.empty_cache()
        print(f"the billion was drawn in {time.perf_counter() - began:.0f} s", flush=True)
        record["runs"].append(compare(matrix, Case("a billion", 64), chosen, reached))
        _keep(record, chosen.output)


def _keep(record: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _commit() -> str | None:
    asked = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        said = subprocess.run(asked, cwd=RESULT.parent, capture_output=True, text=True, check=True)  # noqa: S603 - git
    except (OSError, subprocess.CalledProcessError):
        return None
    return said.stdout.strip()


def _triton() -> str:
    import triton  # noqa: PLC0415 - only to be named

    return str(triton.__version__)


if __name__ == "__main__":
    main()
