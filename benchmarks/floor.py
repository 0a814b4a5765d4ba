"""The machine's own floor: what an exact sweep over users and items takes when nothing but its arithmetic is left.

Every rating's factor row must be fetched once a side, in the order the data has, and every rating adds to one normal
equation a side; the floor is those at the best rates measured here: NumPy's matrix product, and a loop in C that
fetches rows with prefetching and adds them up.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import shutil
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from peers.measure import Ratings, say
from peers.processes import SHAPES, THREADS, Driver, save_world

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tacit.evaluation.world import WorldShape

DRIVER = Driver("floor", "floor", ours=True, blas_threads=THREADS)

_GEMM_SIZE = 3_000
_READ_BYTES = 1 << 29
_LINE_FLOATS = 16  # a cache line of 64 bytes
_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of one iteration: both sides, half of each symmetric matrix."""

    normal_equations: float
    right_sides: float
    cholesky: float

    @classmethod
    def of(cls, shape: WorldShape, rank: int) -> Flops:
        """Count them; a row's Cholesky comes with its two triangular solves."""
        rows = shape.people + shape.items
        return cls(
            normal_equations=2.0 * shape.ratings * rank * (rank + 1),
            right_sides=2.0 * shape.ratings * 2 * rank,
            cholesky=rows * (rank**3 / 3 + 2 * rank**2),
        )

    def total(self) -> float:
        """Return all of them."""
        return self.normal_equations + self.right_sides + self.cholesky


@dataclass(frozen=True, slots=True)
class Floor:
    """The least one iteration takes at a rank, in seconds."""

    gflop: float
    arithmetic: float
    gather_user_side: float
    gather_item_side: float
    stream: float  # reading every index and value once a side; not in the two sums

    @property
    def gather(self) -> float:
        """Return the time to fetch every rating's factor row, both sides."""
        return self.gather_user_side + self.gather_item_side

    @property
    def serial(self) -> float:
        """Return the floor of a program that first fetches, then computes."""
        return self.arithmetic + self.gather

    @property
    def overlapped(self) -> float:
        """Return the floor of a program that does both at once."""
        return max(self.arithmetic, self.gather)

    def record(self) -> dict[str, float]:
        """Return the figures to write down."""
        return {
            name: round(value, 4)
            for name, value in {**asdict(self), "serial": self.serial, "overlapped": self.overlapped}.items()
        }


def floor_of(rates: dict[str, Any], shape: WorldShape, rank: int) -> Floor:
    """Combine the rates measured with the work of one iteration."""
    flops = Flops.of(shape, rank).total()
    user_side, item_side = rates["gather_seconds"][str(rank)]
    return Floor(
        gflop=flops / 1e9,
        arithmetic=flops / rates["sgemm_flops_per_second"],
        gather_user_side=user_side,
        gather_item_side=item_side,
        stream=2 * 8 * shape.ratings / rates["read_bytes_per_second"],
    )


def best_rates(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the best of several measurements: noise only ever slows one down."""
    gathers = [one["gather_seconds"] for one in rounds]
    return {
        "sgemm_flops_per_second": max(one["sgemm_flops_per_second"] for one in rounds),
        "read_bytes_per_second": max(one["read_bytes_per_second"] for one in rounds),
        "gather_seconds": {rank: [min(one[rank][side] for one in gathers) for side in range(2)] for rank in gathers[0]},
    }


def best_seconds(work: Callable[[], object]) -> float:
    """Return the best time of a few runs."""
    seconds = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def sgemm_rate() -> float:
    """Measure matrix products of float32 on all threads, in operations a second."""
    left = np.random.default_rng(0).standard_normal((_GEMM_SIZE, _GEMM_SIZE), dtype=np.float32)
    out = np.empty_like(left)
    return 2 * _GEMM_SIZE**3 / best_seconds(lambda: np.matmul(left, left, out=out))


def read_rate() -> float:
    """Measure reading memory on all threads, in bytes a second."""
    numbers = np.ones(_READ_BYTES // 4, dtype=np.float32)
    return _READ_BYTES / best_seconds(lambda: np.dot(numbers, numbers))


def gather_seconds(index: NDArray[np.int32], rows: int, rank: int) -> float:
    """Measure fetching a factor row for every index, in that order, on all threads."""
    width = -(-rank // _LINE_FLOATS) * _LINE_FLOATS
    table = _aligned(rows, width)
    gather = _gather_function()
    arguments = (table.ctypes.data, index.ctypes.data, len(index), width, THREADS)
    return round(best_seconds(lambda: gather(*arguments)), 5)


@functools.cache
def _gather_function() -> Callable[..., float]:
    """Compile the bare loop over rows for this machine."""
    folder = tempfile.mkdtemp()
    library = f"{folder}/gather.so"
    source = Path(__file__).with_name("gather.c")
    command = ["cc", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", "-pthread", str(source), "-o", library]
    subprocess.run(command, check=True)  # noqa: S603 - our own source, the compiler make would use
    function = ctypes.CDLL(library).gather
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int]
    function.restype = ctypes.c_float
    shutil.rmtree(folder)
    return function


def _by_popularity(codes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Number the busiest first, as tacit does: rows that are needed often then lie together."""
    place = np.empty(codes.max() + 1, dtype=np.int32)
    place[np.argsort(-np.bincount(codes), kind="stable")] = np.arange(len(place), dtype=np.int32)
    return place[codes]


def _aligned(rows: int, width: int) -> NDArray[np.float32]:
    """Make a table whose rows start where cache lines do."""
    memory = np.ones(rows * width + _LINE_FLOATS, dtype=np.float32)
    skipped = -memory.ctypes.data // 4 % _LINE_FLOATS
    return memory[skipped : skipped + rows * width].reshape(rows, width)


def measure(folder: Path, ranks: list[int]) -> None:
    """Measure the rates in this process and print them as one line of JSON."""
    ratings = Ratings.load(folder)
    people, items = ratings.shape
    user_of, item_of = _by_popularity(ratings.users), _by_popularity(ratings.items)
    by_user = item_of[np.lexsort((item_of, user_of))]
    by_item = user_of[np.lexsort((user_of, item_of))]
    say(
        "numpy",
        sgemm_flops_per_second=round(sgemm_rate()),
        read_bytes_per_second=round(read_rate()),
        gather_seconds={
            rank: [gather_seconds(by_user, items, rank), gather_seconds(by_item, people, rank)] for rank in ranks
        },
    )


def describe(rates: dict[str, Any], shape: WorldShape, ranks: list[int]) -> None:
    """Print the rates and the floor of each rank."""
    print(
        f"floor of {THREADS} threads: sgemm {rates['sgemm_flops_per_second'] / 1e9:.0f} GFlop/s,"
        f" memory {rates['read_bytes_per_second'] / 1e9:.0f} GB/s"
    )
    for rank in ranks:
        floor = floor_of(rates, shape, rank)
        print(
            f"  rank {rank}: {floor.gflop:.1f} GFlop in {floor.arithmetic:.3f} s, rows fetched in"
            f" {floor.gather_user_side:.3f} + {floor.gather_item_side:.3f} s;"
            f" floor {floor.overlapped:.3f} s overlapped, {floor.serial:.3f} s one after the other"
        )


def parse_ranks(text: str) -> list[int]:
    """Read ranks from `10,32`."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Measure in this process when told where the data is, else make it and measure in another."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ratings", choices=SHAPES, default="libimseti")
    parser.add_argument("--ranks", type=parse_ranks, default=[10, 32])
    parser.add_argument("--data", type=Path, help="folder with the ratings, already written")
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.data:
        measure(chosen.data, chosen.ranks)
        return
    with tempfile.TemporaryDirectory() as folder:
        shape = save_world(chosen.ratings, Path(folder))
        rates = DRIVER.run(data=folder, ranks=",".join(map(str, chosen.ranks)))
    describe(rates, shape, chosen.ranks)


if __name__ == "__main__":
    main()
