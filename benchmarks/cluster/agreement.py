"""What rounding makes of a fit by itself: traces of one compiled kernel, named by `--variant`, to compare with others.

Kernels do the same sums in another order. Where a fit is nearly undetermined, it amplifies the difference.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np

from peers.measure import say
from tacit import Policy, RatingScale
from tacit.evaluation.world import make_world
from tacit.learning import MogMfOptions, ReportMatrix, fit

RANKS, RIDGES = (8, 32), (0.0, 0.1)
ITERATIONS = 30


def traces() -> dict[str, list[float]]:
    """Fit the embedded world at several ranks with and without a ridge; return likelihoods by `rank, ridge`."""
    scale = RatingScale.parse("1:5:1")
    world = make_world(scale)
    symbols = (world.ratings - np.float32(scale.low)).astype(np.uint8)
    matrix = ReportMatrix.of_symbols(world.users, world.items, symbols, Policy.make("randomized-response", scale, "1"))
    found = {}
    for rank in RANKS:
        for ridge in RIDGES:
            options = MogMfOptions(rank=rank, regularisation=ridge, iterations=ITERATIONS, tolerance=0.0)
            trace = fit(matrix, options, np.random.default_rng(0)).trace
            found[f"{rank}, {ridge}"] = [float(one.likelihood or 0.0) for one in trace.iterations]
    return found


def apart(ours: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    """Return the largest relative difference of two kernels' traces, by rank and ridge."""
    pairs = {key: zip(ours[key], other[key], strict=True) for key in ours}
    return {key: float(f"{max(abs(a / b - 1) for a, b in both):.2e}") for key, both in pairs.items()}


def main() -> None:
    """Fit in this process with the kernel asked for, and print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", default="", help="the kernel; by default the fastest")
    os.environ["TACIT_KERNEL"] = parser.parse_args().variant  # it is chosen when the first fit begins
    say("tacit", traces=traces())


if __name__ == "__main__":
    main()
