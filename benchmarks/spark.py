"""An EM iteration on Spark, local with two cores: both plans, the local engine and Spark's ALS, over growing worlds.

People and items grow with the ratings, so that everybody has as many in every world. Each measurement has a process of
its own, and all are of one run. Ours weighs every report by a mixture of four noise components; ALS does not.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from cluster import agreement, worlds
from peers.processes import RESULTS, THREADS, Driver, Rounds, machine, progress, warn_if_busy
from tacit.learning.spark.chunks import MOST_REPORTS

RANK = 32
SIZES = (1_000_000, 2_000_000, 4_000_000, 8_000_000, worlds.FULL)
WARMING, ITERATIONS = 2, 8
OURS = {
    "local": Driver("tacit, local engine", "cluster.ours", "local", ours=True),
    "broadcast": Driver("tacit on Spark, factors broadcast", "cluster.ours", "broadcast", ours=True),
    "joined": Driver("tacit on Spark, factors joined", "cluster.ours", "joined", ours=True),
}
ALS = Driver("Spark's ALS, unweighted", "peers.spark_als", ours=True)
DRIVERS = OURS | {"als": ALS}
KERNELS = [
    Driver(f"rounding, kernel {name or 'in use'}", "cluster.agreement", name, ours=True) for name in ("", "baseline")
]
SHORT = 1
MORE, MORE_WHEN_SMALL, SMALL = 2, 6, 3_000_000  # iterations of the long fit of ALS beyond the short one


def measure(chosen: argparse.Namespace) -> tuple[Rounds, dict[int, dict[str, list[float]]]]:
    """Make one world after the other and measure everything on it; return also how popular its users and items are."""
    rounds, popularity = Rounds(), {}
    for ratings in chosen.ratings:
        with tempfile.TemporaryDirectory() as name:
            progress(f"{ratings:,} ratings")
            popularity[ratings] = worlds.save(ratings, Path(name))
            for one in range(chosen.repeats):
                progress(f" round {one + 1} of {chosen.repeats}")
                _round(rounds, ratings, Path(name), chosen)
    return rounds, popularity


def _round(rounds: Rounds, ratings: int, folder: Path, chosen: argparse.Namespace) -> None:
    common = {"data": folder, "rank": RANK, "threads": THREADS}
    ours = {"warming": WARMING, "iterations": ITERATIONS, "chunk-reports": chosen.chunk_reports}
    for name, driver in OURS.items():
        rounds.measure((ratings, name), driver, **common, **ours)
    long = SHORT + (MORE_WHEN_SMALL if ratings < SMALL else MORE)
    rounds.measure((ratings, "als"), ALS, **common, short=SHORT, long=long)


def kernels_apart() -> dict[str, float]:
    """Compare the kernel in use with that for any processor: what rounding comes to without any engine."""
    found = [driver.run()["traces"] for driver in KERNELS]
    return agreement.apart(*found)


def world_record(rounds: Rounds, ratings: int) -> dict[str, Any]:
    """Return the figures of one world: for every engine the round with the fastest iteration."""
    people, items = rounds.figures[ratings, "local"][0]["shape"]
    found = {name: rounds.figures[ratings, name] for name in DRIVERS if (ratings, name) in rounds.figures}
    best = {name: min(said, key=lambda one: one["seconds"]) for name, said in found.items() if name in OURS}
    engines = {name: _of_ours(one, found[name]) for name, one in best.items()}
    if "als" in found:
        engines["als"] = _of_als(found["als"])
    local = best["local"]["likelihoods"]
    apart = {name: _apart(local, one["likelihoods"]) for name, one in best.items() if name != "local"}
    return {"ratings": ratings, "people": people, "items": items, "engines": engines, "likelihoods_apart": apart}


def _of_ours(one: dict[str, Any], said: list[dict[str, Any]]) -> dict[str, Any]:
    ingest = min(each["ingest_seconds"] for each in said)
    left_out = ("versions", "python", "shape")
    return {"ingest_seconds": ingest} | {name: one[name] for name in one if name not in (*left_out, "ingest_seconds")}


def _of_als(said: list[dict[str, Any]]) -> dict[str, Any]:
    """Take the difference last: noise only ever slows a fit down."""
    short, long = ([min(one[fit][clock] for one in said) for clock in range(2)] for fit in ("short", "long"))
    wall, cpu = ((late - early) / said[0]["iterations"] for early, late in zip(short, long, strict=True))
    prepare = min(one["prepare_seconds"] for one in said)
    return {"seconds": round(wall, 4), "cpu_seconds": round(cpu, 4), "prepare_seconds": prepare}


def _apart(likelihoods: list[float], others: list[float]) -> float:
    """Return the largest relative difference of two traces."""
    return max(abs(one / other - 1) for one, other in zip(others, likelihoods, strict=True))


def line_of(found: list[dict[str, Any]], name: str, value: str = "seconds") -> dict[str, Any]:
    """Draw a line through seconds against ratings by least squares, and say how far off it is, relatively."""
    known = [one for one in found if name in one["engines"]]
    ratings = np.array([one["ratings"] for one in known], dtype=np.float64)
    seconds = np.array([one["engines"][name][value] for one in known])
    slope, fixed = np.polyfit(ratings, seconds, 1)
    away = (fixed + slope * ratings) / seconds - 1
    return {
        "seconds_per_million": round(float(1e6 * slope), 5),
        "fixed_seconds": round(float(fixed), 4),
        "deviations": [round(float(one), 4) for one in away],
        "largest_deviation": round(float(np.abs(away).max()), 4),
    }


def lines(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the lines of iterations and of reading the reports in, for all that were measured everywhere."""
    there = [name for name in DRIVERS if sum(name in one["engines"] for one in found) > 1]
    ingest = {name: line_of(found, name, "ingest_seconds") for name in there if name != "als"}
    return {"iterations": {name: line_of(found, name) for name in there}, "ingest": ingest}


def print_worlds(found: list[dict[str, Any]]) -> None:
    """Print a table of seconds an iteration, and what travelled."""
    print(f"\n{'seconds an iteration':24}" + "".join(f"{name:>12}" for name in DRIVERS) + f"{'apart':>10}")
    for one in found:
        cells = [one["engines"].get(name) for name in DRIVERS]
        shown = "".join(f"{cell['seconds']:12.3f}" if cell else f"{'-':>12}" for cell in cells)
        print(f"{one['ratings']:>15,} ratings{'':1}{shown}{max(one['likelihoods_apart'].values(), default=0):10.1e}")
    print(
        f"\n{'ingest s; MB sent':24}" + "".join(f"{name:>12}" for name in ("local", "spark", "broadcast", "shuffled"))
    )
    for one in found:
        if {"broadcast", "joined"} <= one["engines"].keys():
            broadcast, joined = one["engines"]["broadcast"], one["engines"]["joined"]
            sent = broadcast["bytes"]["broadcast"] / 1e6, joined["bytes"]["shuffled"] / 1e6
            seconds = f"{one['engines']['local']['ingest_seconds']:12.2f}{broadcast['ingest_seconds']:12.2f}"
            print(f"{one['ratings']:>15,} ratings{'':1}{seconds}{sent[0]:12.1f}{sent[1]:12.1f}")


def print_lines(found: dict[str, Any]) -> None:
    """Print the lines."""
    for what, each in found.items():
        for name, line in each.items():
            each_million = f"{line['seconds_per_million']:.4f} s a million ratings + {line['fixed_seconds']:.3f} s"
            print(f"{what:11}{name:10} {each_million}, off by {line['largest_deviation']:.0%} at most")


def parse_sizes(text: str) -> list[int]:
    """Read numbers of millions from `1,2,17.36`; the last of the usual sizes is meant by `full`."""
    return sorted(worlds.FULL if part == "full" else round(1e6 * float(part)) for part in text.split(","))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ratings", type=parse_sizes, default=list(SIZES), help="millions, as 1,2,4,8,full")
    parser.add_argument("--repeats", type=int, default=1, help="rounds, of which the best counts")
    parser.add_argument("--chunk-reports", type=int, default=MOST_REPORTS, help="reports in a chunk")
    parser.add_argument("--output", type=Path, help="by default the results, if the sizes are the usual ones")
    return parser.parse_args()


def main() -> int:
    """Measure, print and keep the figures."""
    chosen = arguments()
    load = warn_if_busy()
    rounds, popularity = measure(chosen)
    if rounds.failed & set(OURS.values()):
        return 1
    found = [world_record(rounds, ratings) for ratings in chosen.ratings]
    print_worlds(found)
    record = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": machine(),
        "load_before": load,
        "libraries": rounds.versions(),
        "rank": RANK,
        "threads": THREADS,
        "rounds": chosen.repeats,
        "chunk_reports": chosen.chunk_reports,
        "worlds": found,
        "popularity": popularity[max(chosen.ratings)],
        "lines": lines(found),
        "kernels_apart": kernels_apart(),
    }
    print_lines(record["lines"])
    output = chosen.output or (RESULTS / "spark.json" if chosen.ratings == list(SIZES) else None)
    if output is not None:
        output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
