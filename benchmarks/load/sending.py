"""A load generator at work, as who started it sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from peers.processes import BENCHMARKS

if TYPE_CHECKING:
    from pathlib import Path

    from load.servers import Server

WARM_UP = 1.0
_SECONDS_TO_END = 120


@dataclass(frozen=True)
class Load:
    """A generator in a process of its own."""

    process: subprocess.Popen[str]
    most_seconds: float

    def wait_for_figures(self) -> dict[str, Any]:
        """Return what it found."""
        said, _ = self.process.communicate(timeout=self.most_seconds)
        if self.process.returncode:
            raise RuntimeError(f"the load generator ended with status {self.process.returncode}")
        figures: dict[str, Any] = json.loads(said)
        return figures


def start_load(running: Server, folder: Path, connections: int, seconds: float, **options: object) -> Load:
    """Begin to send; which requests were acknowledged will be in the folder."""
    chosen = {"port": running.port, "connections": connections, "warm-up": WARM_UP, "seconds": seconds, **options}
    arguments = [f"--{name}={value}" for name, value in chosen.items()]
    process = subprocess.Popen(  # noqa: S603 - this project's own module
        [sys.executable, "-m", "load.generator", *arguments, f"--acknowledged={folder / 'acknowledged.npy'}"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(BENCHMARKS), "OPENBLAS_NUM_THREADS": "1"},
    )
    return Load(process, seconds + _SECONDS_TO_END)
