"""Ten items for everybody, of all they have not rated: ours side by side with implicit, on two threads, in one run.

Both get the same random factors and the same ratings. The floor is the product of the two tables of factors at the
machine's best rate: every score must be made once, whatever is done with it afterwards.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import floor
from peers.measure import LIST_LENGTH, Ratings
from peers.processes import RESULTS, SHAPES, THREADS, Driver, Rounds, machine, progress, save_world, warn_if_busy

if TYPE_CHECKING:
    from peers.measure import Floats, Ids
    from tacit.evaluation.world import WorldShape

DRIVERS = {
    "tacit": Driver("tacit", "ours", "recommend", ours=True),
    "implicit": Driver("implicit recommend", "peers.implicit_recommend"),
}
RANK = 32
CHECKED = 1_000
BLOCK = 100
TIED = 1e-5  # of the largest product of two rows' lengths: what float32 cannot tell apart


def save_factors(folder: Path, shape: WorldShape) -> None:
    """Draw the factors both are given."""
    rng = np.random.default_rng(0)
    for side, rows in (("people", shape.people), ("items", shape.items)):
        np.save(folder / f"{side}_factors.npy", rng.standard_normal((rows, RANK), dtype=np.float32))


def wrong_lists(lists: Ids, ratings: Ratings, people: Floats, items: Floats) -> int:
    """Count those of a sample of people whose list is not the best there is, ties aside."""
    chosen = np.random.default_rng(1).permutation(len(people))[:CHECKED]
    starts = np.searchsorted(ratings.users, np.arange(len(people) + 1))
    limit = TIED * float(np.linalg.norm(people, axis=1).max() * np.linalg.norm(items, axis=1).max())
    exact_items = items.astype(np.float64).T
    wrong = 0
    for block in np.array_split(chosen, max(1, len(chosen) // BLOCK)):
        scores = people[block].astype(np.float64) @ exact_items
        for person, row in zip(block, scores, strict=True):
            row[ratings.items[starts[person] : starts[person + 1]]] = -np.inf
            best = -np.sort(-np.partition(row, -LIST_LENGTH)[-LIST_LENGTH:])
            listed = lists[person]
            wrong += len(set(listed)) < LIST_LENGTH or bool((np.abs(row[listed] - best) > limit).any())
    return wrong


def measure(folder: Path, repeats: int) -> Rounds:
    """Run all rounds."""
    rounds = Rounds()
    for one in range(repeats):
        progress(f"round {one + 1} of {repeats}")
        rounds.measure("floor", floor.DRIVER, data=folder, ranks=RANK)
        for name, driver in DRIVERS.items():
            rounds.measure(name, driver, data=folder, rank=RANK, threads=THREADS)
    return rounds


def check(folder: Path, names: list[str]) -> int:
    """Check a sample of everybody's lists; return how many are wrong."""
    ratings = Ratings.load(folder)
    people, items = (np.load(folder / f"{side}_factors.npy") for side in ("people", "items"))
    wrong = {name: wrong_lists(np.load(folder / f"lists_{name}.npy"), ratings, people, items) for name in names}
    for name, count in wrong.items():
        print(f"{name}: {count} of {min(CHECKED, len(people)):,} lists checked are wrong")
    return sum(wrong.values())


def results_of(rounds: Rounds, least: float) -> dict[str, dict[str, float]]:
    """Return the best of the rounds of each library."""
    results = {}
    for name in [name for name in DRIVERS if name in rounds.figures]:
        best = {key: min(one[key] for one in rounds.figures[name]) for key in ("wall", "cpu", "above_model_mib")}
        results[name] = {**best, "times_floor": round(best["wall"] / least, 2)}
    return results


def main() -> int:
    """Measure, check, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ratings", choices=SHAPES, default="libimseti")
    parser.add_argument("--repeats", type=int, default=3, help="rounds, of which the best counts")
    chosen = parser.parse_args()
    load = warn_if_busy()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        progress("making the ratings")
        shape = save_world(chosen.ratings, folder)
        save_factors(folder, shape)
        rounds = measure(folder, chosen.repeats)
        wrong = check(folder, [name for name in DRIVERS if name in rounds.figures])
    rate = floor.best_rates(rounds.figures["floor"])["sgemm_flops_per_second"]
    least = 2 * RANK * shape.people * shape.items / rate
    results = results_of(rounds, least)
    print(f"{LIST_LENGTH} of {shape.items:,} items for {shape.people:,} people, rank {RANK}; floor {least:.2f} s\n")
    print(f"{'':24}{'seconds':>10}{'CPU s':>10}{'x floor':>10}{'MiB above':>11}")
    for name, one in results.items():
        print(
            f"{DRIVERS[name].title:24}{one['wall']:10.2f}{one['cpu']:10.2f}{one['times_floor']:10.1f}"
            f"{one['above_model_mib']:11,.0f}"
        )
    if wrong or DRIVERS["tacit"] in rounds.failed:
        return 1
    record = {
        **asdict(shape),
        "rank": RANK,
        "list": LIST_LENGTH,
        "threads": THREADS,
        "rounds": chosen.repeats,
        "load_before": load,
        "machine": machine(),
        "libraries": rounds.versions(),
        "floor_seconds": round(least, 2),
        "results": results,
    }
    if chosen.ratings == "libimseti":
        (RESULTS / "recommend.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
