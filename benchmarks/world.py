"""Making the synthetic world of Libimseti's shape: seconds and peak memory."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path

from tacit import RatingScale
from tacit.evaluation.world import LIBIMSETI_SHAPE, make_world

RESULTS = Path(__file__).parent / "results" / "world.json"


def main() -> None:
    """Measure, print and keep the figures."""
    start = time.perf_counter()
    world = make_world(RatingScale.parse("1:10:1"), shape=LIBIMSETI_SHAPE)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    # The floor is writing the result once: user, item and rating of each.
    least = (world.users.nbytes + world.items.nbytes + world.ratings.nbytes) / 2**20
    print(
        f"{len(world.ratings):,} ratings in {seconds:.1f} s, peak {peak:,.0f} MiB; the result alone is {least:,.0f} MiB"
    )
    record = {
        "ratings": len(world.ratings),
        "seconds": round(seconds, 1),
        "peak_mib": round(peak),
        "result_mib": round(least),
    }
    RESULTS.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
