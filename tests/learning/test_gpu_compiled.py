"""The fused kernels compiled for GPUs that are not here: the interpreter says nothing of types, layouts and memory."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("compiling_kernels.py")
# Bytes of memory of its own that a program may have, by compute capability.
ROOM = {86: 99 << 10, 90: 227 << 10}


@pytest.mark.parametrize(("capability", "coordinates", "ridge"), [(90, 20, 0.1), (86, 66, 0.1)], ids=str)
def test_kernels_compile_and_fit_into_a_gpu(capability: int, coordinates: int, ridge: float, tmp_path: Path) -> None:
    if None in map(importlib.util.find_spec, ("torch", "triton")) and not os.environ.get("TACIT_NO_SKIPS"):
        pytest.skip("PyTorch and Triton are not both installed; install tacit[engines]")
    command = [sys.executable, str(SCRIPT), str(capability), str(coordinates), str(ridge)]
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
    kernels = {name.partition(" ")[0] for name in found}
    assert kernels == {"accumulate", "solve", "relate", "combine", "summarise"}
    assert len(found) >= 8
    assert max(found.values()) <= ROOM[capability]
