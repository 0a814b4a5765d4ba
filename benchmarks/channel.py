"""Whole fits of `channel-mf` and of the paper's `mog-mf` at the same rank, defaults otherwise, in one run.

The reports are those of a synthetic world of Libimseti's shape under bounded Laplace at epsilon 1. Each fit runs in a
process of its own on two threads; the rounds take turns, and the best counts.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from peers.measure import Ratings
from peers.processes import RESULTS, SHAPES, THREADS, machine, progress, save_world, warn_if_busy
from tacit import Policy, RatingScale
from tacit.learning import ChannelMfOptions, MogMfOptions, Options, ReportMatrix, fit

MODELS: dict[str, type[MogMfOptions | ChannelMfOptions]] = {"mog-mf": MogMfOptions, "channel-mf": ChannelMfOptions}
MECHANISM, EPSILON = "bounded-laplace", "1"
MIB = 1024


def reports_of(folder: Path) -> ReportMatrix:
    """Perturb the ratings of a world."""
    ratings = Ratings.load(folder)
    scale = RatingScale.parse(ratings.scale)
    policy = Policy.make(MECHANISM, scale, EPSILON)
    ranks = np.rint((ratings.values - np.float32(scale.low)) / np.float32(scale.step)).astype(np.uint16)
    words = np.random.default_rng(0).integers(0, 2**64, len(ranks), dtype=np.uint64)
    return ReportMatrix.of_symbols(ratings.users, ratings.items, policy.channel.draw(ranks, words), policy)


def measure(folder: Path, options: Options) -> dict[str, float | int]:
    """Fit once; memory is the most there was while fitting, above what the reports took."""
    matrix = reports_of(folder)
    before = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * resource.getpagesize() // 1024
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # forget the peak of building the matrix
    began = time.perf_counter()
    model = fit(matrix, options, np.random.default_rng(0), threads=THREADS)
    seconds = time.perf_counter() - began
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return {
        "seconds": round(seconds, 2),
        "iterations": len(model.trace.iterations),
        "above_reports_mib": (peak - before) // MIB,
        "reports_mib": matrix.nbytes // MIB**2,
    }


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ratings", choices=SHAPES, default="libimseti")
    parser.add_argument("--ranks", default="10,32")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)  # folder:model:rank, in a process of its own
    return parser.parse_args()


def run_one(folder: str, model: str, rank: int) -> dict[str, Any]:
    """Measure in a new process."""
    command = [sys.executable, __file__, "--one", f"{folder}:{model}:{rank}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - this file itself
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def main() -> int:
    """Measure, print and keep the figures."""
    chosen = arguments()
    if chosen.one:
        folder, model, rank = chosen.one.split(":")
        print(json.dumps(measure(Path(folder), MODELS[model](rank=int(rank)))))
        return 0
    load = warn_if_busy()
    ranks = [int(rank) for rank in chosen.ranks.split(",")]
    best: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        progress("making the ratings")
        shape = save_world(chosen.ratings, Path(folder))
        for _ in range(chosen.repeats):
            for rank in ranks:
                for model in MODELS:
                    found = run_one(folder, model, rank)
                    kept = best.setdefault(f"{model} rank {rank}", found)
                    best[f"{model} rank {rank}"] = min(kept, found, key=lambda one: one["seconds"])
    ratios = {
        f"rank {rank}": round(best[f"channel-mf rank {rank}"]["seconds"] / best[f"mog-mf rank {rank}"]["seconds"], 2)
        for rank in ranks
    }
    record = {"reports": shape.ratings, "load_before": load, "machine": machine(), "fits": best, "times_mog_mf": ratios}
    print(json.dumps(record, indent=2))
    if chosen.ratings == "libimseti":
        (RESULTS / "channel.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
