"""Compiles all kernels of a fit for a GPU that need not be there; says how much memory of its own a program takes.

Run by a test, in a process of its own: Triton is told that the GPU is there, and to launch nothing.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from tacit.learning.gpu import fused, trial


class Imagined:
    """A device that compilers ask what it is."""

    def __init__(self, capability: int) -> None:
        self._capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self._capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: int) -> int:
        return 0


def compiled(capability: int, coordinates: int, *, pulled: bool) -> dict[str, int]:
    """Go through a half-sweep once in each precision."""
    found: dict[str, int] = {}
    launch = JITFunction.run

    def compile_only(function: Any, *given: Any, warmup: bool, **settings: Any) -> None:  # noqa: ARG001 - as launched
        kernel = launch(function, *given, warmup=True, **settings)
        name = f"{function.__name__} {settings['num_warps']} {kernel.hash[:8]}"
        found[name] = kernel.metadata.shared

    JITFunction.run = compile_only
    driver.set_active(Imagined(capability))
    kind, processor = trial.Kind(coordinates, (pulled,) * coordinates, torch.uint8, 4), torch.device("cpu")
    counts = trial._row_lengths(kind)
    fixed = torch.from_numpy(trial._factors(kind, int(counts.max()), np.random.default_rng(0)))
    rows = trial._rows(kind, counts, np.random.default_rng(0), processor)
    start = torch.zeros(2 * len(counts), fixed.shape[1])
    for precision in (fused.SINGLE, fused.DOUBLE):
        fused.SINGLE = precision
        sweep = replace(trial._sweep(kind, processor), memory=1)  # so that tasks are done one by one, in many runs
        fused.half_sweep(rows, fixed, start, sweep)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(compiled(int(sys.argv[1]), int(sys.argv[2]), pulled=sys.argv[3] == "ridge")))
