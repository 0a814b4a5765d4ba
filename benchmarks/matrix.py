"""Reading 17 million reports from Parquet into a report matrix: seconds and peak memory of the whole process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from peers.measure import Memory
from tacit import Policy, RatingScale
from tacit.evaluation.world import LIBIMSETI_SHAPE, make_world
from tacit.learning import read_reports
from tacit.tables import write_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESULTS = Path(__file__).parent / "results" / "matrix.json"
SCALE = RatingScale.parse("1:10:1")


def write(folder: Path) -> None:
    """Write the reports of the world in Libimseti's shape, under randomized response."""
    world = make_world(SCALE, shape=LIBIMSETI_SHAPE)
    policy = Policy.make("randomized-response", SCALE, "1")
    policy.save(folder / "policy.json")
    symbols = SCALE.ranks_of(world.ratings).astype(np.uint8)
    columns: dict[str, NDArray[Any]] = {"user": world.users, "item": world.items, "symbol": symbols}
    write_columns(folder / "reports.parquet", columns, {"tacit.policy": policy.id})


def read(folder: Path) -> None:
    """Read them in this process, and print what it took as one line of JSON."""
    memory, start = Memory(), time.perf_counter()
    matrix = read_reports(folder / "reports.parquet", [Policy.load(folder / "policy.json")])
    seconds = time.perf_counter() - start
    figures = {"reports": matrix.reports, "seconds": round(seconds, 2), "peak_mib": round(memory.peak())}
    print(json.dumps({**figures, "matrix_mib": round(matrix.nbytes / 2**20)}))


def main() -> None:
    """Write in one process and read in another, so that only reading is measured."""
    if len(sys.argv) > 1:
        read(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        command = [sys.executable, __file__, folder]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - this very script
    record = json.loads(done.stdout)
    print(f"{record['reports']:,} reports read in {record['seconds']} s, peak {record['peak_mib']} MiB")
    RESULTS.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
