"""The fused kernels compiled for GPUs that are not here: the interpreter says nothing of types, layouts and memory."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("compiling_kernels.py")
# Bytes of memory of its own that a program may have, by compute capability.
ROOM = {86: 99 << 10, 90: 227 << 10}


@pytest.mark.parametrize(("capability", "coordinates"), [(90, 20), (86, 258)], ids=str)
def test_kernels_compile_once_and_fit_into_a_gpu(capability: int, coordinates: int, tmp_path: Path) -> None:
    if None in map(importlib.util.find_spec, ("torch", "triton")) and not os.environ.get("TACIT_NO_SKIPS"):
        pytest.skip("PyTorch and Triton are not both installed; install tacit[engines]")
    command = [sys.executable, str(SCRIPT), str(capability), str(coordinates), "ridge"]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        command,
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    kernels = Counter(name.partition(" ")[0] for name in found)
    sizes = len([size for size in (16, 32, 64, 128) if size < 2 * coordinates])  # of systems in reports
    # Once for each precision, however many runs there are; sums are in single precision alone.
    systems = 2 * sizes
    expected = {"accumulate": 2, "relate": systems, "combine": systems, "solve": 2 + systems, "summarise": 1}
    assert kernels == expected
    assert max(found.values()) <= ROOM[capability]
