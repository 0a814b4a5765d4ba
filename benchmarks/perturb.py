"""Perturbing ratings side by side with the peers, on one core, in one run.

The floor is the operating system's generator: every report needs 64 fresh random
bits, whatever is done with them afterwards.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import json
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import opendp.prelude as dp
from diffprivlib.mechanisms import LaplaceBoundedDomain

from tacit import MECHANISMS, RatingScale, build_channel
from tacit.privacy.weights import operating_system_words

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).parent / "results" / "perturb.json"
REPORTS = 10_000_000
STARS = RatingScale.parse("1:5:1")
JESTER = RatingScale.parse("-10:10:0.25")


def rate_of(work: Callable[[int], object], count: int, *, repeats: int = 3) -> float:
    """Return the best rate, in reports a second, of a few runs: noise only ever slows a run down."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work(count)
        seconds.append(time.perf_counter() - start)
    return count / min(seconds)


def tacit_rate(mechanism: str, scale: RatingScale, count: int) -> float:
    """Measure ranks in, symbols out, randomness included."""
    channel = build_channel(mechanism, scale, 1)
    ranks = np.random.default_rng(0).integers(0, scale.size, count).astype(np.uint16)
    return rate_of(lambda n: channel.draw(ranks[:n], operating_system_words(n)), count)


def diffprivlib_rate(count: int) -> float:
    """Measure diffprivlib's bounded Laplace, which takes one number a call."""
    mechanism = LaplaceBoundedDomain(epsilon=1, delta=0, sensitivity=4, lower=1, upper=5)
    return rate_of(lambda n: [mechanism.randomise(3.0) for _ in range(n)], count)


def opendp_rates(count: int) -> dict[str, float]:
    """Measure OpenDP's Laplace, one number a call and a list a call."""
    dp.enable_features("contrib")
    scalar = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=4.0)
    vector = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float), scale=4.0)
    numbers = [3.0] * count
    return {
        "OpenDP Laplace, one a call": rate_of(lambda n: [scalar(3.0) for _ in range(n)], count),
        "OpenDP Laplace, a list a call": rate_of(lambda n: vector(numbers[:n]), count),
    }


def main() -> None:
    """Measure, print and keep the figures."""
    floor = rate_of(operating_system_words, REPORTS)
    ours = {f"tacit {name}, 1:5:1": tacit_rate(name, STARS, REPORTS) for name in MECHANISMS}
    ours["tacit bounded-laplace, -10:10:0.25"] = tacit_rate("bounded-laplace", JESTER, REPORTS // 5)
    peers = {"diffprivlib bounded Laplace": diffprivlib_rate(20_000), **opendp_rates(20_000)}
    main_rate = ours["tacit bounded-laplace, 1:5:1"]
    print(f"floor: {floor / 1e6:.1f} M words/s from the operating system\n")
    print(f"{'':40}{'reports/s':>14}{'share of floor':>16}{'tacit is faster by':>20}")
    for name, rate in {**ours, **peers}.items():
        times = f"{main_rate / rate:,.0f} x" if name in peers else ""
        print(f"{name:40}{rate:14,.0f}{rate / floor:16.1%}{times:>20}")
    libraries = {name: version(name) for name in ("numpy", "diffprivlib", "opendp")}
    record = {
        "reports": REPORTS,
        "cores": 1,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "libraries": libraries,
        "floor_words_per_second": round(floor),
        "reports_per_second": {name: round(rate) for name, rate in {**ours, **peers}.items()},
        "bounded_laplace_is_faster_by": {name: round(main_rate / rate, 1) for name, rate in peers.items()},
    }
    RESULTS.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
