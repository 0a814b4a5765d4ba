"""Fills docs/scaling.md with what was measured, and draws its picture: every passage between two marks is made anew."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster import gpu_tables, picture, tables

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "scaling.md"
PICTURE = ROOT / "docs" / "pictures" / "scaling.svg"

ON_SPARK: dict[str, Callable[[dict[str, Any]], str]] = {
    "iterations": tables.iterations,
    "picture": lambda _: picture.PASSAGE,
    "ingest": tables.ingest,
    "travelled": tables.travelled,
    "parts": tables.parts,
    "apart": tables.apart,
    "kernels": tables.kernels,
    "foreseen": tables.foreseen,
}
ON_A_GPU: dict[str, Callable[[dict[str, Any]], str]] = {
    "gpu-iterations": gpu_tables.iterations,
    "gpu-memory": gpu_tables.memory,
}


def filled(page: str, passages: dict[str, str]) -> str:
    """Put passages in their places; each must have exactly one."""
    for name, text in passages.items():
        place = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        before, *between = place.split(page)
        if len(between) != 3:  # noqa: PLR2004 - the two marks, and what follows
            raise ValueError(f"{PAGE.name} does not have one place for {name}")
        page = f"{before}{between[0]}\n{text}\n\n{between[1]}{between[2]}"
    return page


def main() -> int:
    """Fill the page from the records that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", type=Path, default=RESULTS / "spark.json")
    parser.add_argument("--gpu", type=Path, default=RESULTS / "gpu.json")
    parser.add_argument("--output", type=Path, default=PAGE)
    chosen = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    for path, passages in ((chosen.spark, ON_SPARK), (chosen.gpu, ON_A_GPU)):
        if not path.exists():
            print(f"{path.name} is not there yet: its passages stay as they are", file=sys.stderr)
            continue
        record = json.loads(path.read_text(encoding="utf-8"))
        page = filled(page, {name: tell(record) for name, tell in passages.items()})
        if passages is ON_SPARK:
            picture.draw(record, PICTURE if chosen.output == PAGE else chosen.output.with_suffix(".svg"))
    chosen.output.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
