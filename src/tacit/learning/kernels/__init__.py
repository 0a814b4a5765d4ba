"""The numeric core: sweeps, gradient epochs, top-N lists and sums over arrays, compiled where possible.

The compiled kernels and their NumPy twin do the same, to rounding. `TACIT_KERNEL` chooses one of them by name
(`numpy`, or one of the compiled `v4`, `v3`, `baseline`) and `TACIT_THREADS` the number of threads; by default it is
the fastest kernel this machine can run, on all cores this process may use.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import InvalidInputError
from tacit.learning.kernels import twin
from tacit.learning.mixture import MixtureStatistics, NoiseMixture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.learning.matrix import Rows

    Floats = NDArray[np.float32]

MOST_RANK = 256
MOST_COMPONENTS = 16
MOST_THREADS = 1024
_LINE = 16  # floats in a cache line: rows of factors start and end with one


class KernelWarning(UserWarning):
    """The compiled kernels are not there; everything works, slower."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a half-sweep says beside the factors: rows without a unique solution, and the mixture's sums."""

    singular_rows: int
    sums: MixtureStatistics


def padded(factors: NDArray[Any]) -> Floats:
    """Copy factors into rows that fill whole cache lines, zeros behind."""
    rows, coordinates = factors.shape
    stride = max(-(-coordinates // _LINE), 1) * _LINE
    memory = np.zeros(rows * stride + _LINE, dtype=np.float32)
    shift = -(memory.ctypes.data // memory.itemsize) % _LINE
    aligned = memory[shift : shift + rows * stride].reshape(rows, stride)
    aligned[:, :coordinates] = factors
    return aligned


def half_sweep(  # noqa: PLR0913 - arrays in, arrays out
    rows: Rows,
    table: Floats | None,
    fixed: Floats,
    solved: Floats,
    *,
    coordinates: int,
    ridge: Floats,
    mixture: NoiseMixture,
    statistics: bool,
    threads: int,
) -> SweepResult:
    """Solve the weighted least squares of every row of reports (Eq. 10), the other side's factors held.

    The first `len(ridge)` coordinates of `solved` are replaced; the others take part as they are. Weights come from
    the residuals under the mixture (Eq. 8), row by row, and are not kept. With `statistics`, the sums for Eq. 9 and
    the log-likelihood (Eq. 6) are taken at the new factors. Where reports do not determine a row and there is no
    ridge, it gets the solution of least norm.
    """
    native = _in_use()
    if native is None:
        return SweepResult(*twin.half_sweep(rows, table, fixed, solved, coordinates, ridge, mixture))
    weights, variances = mixture.weights.tolist(), mixture.variances.tolist()
    reports = (rows.starts, rows.columns, rows.values, table)
    numbers = native.half_sweep(
        kernel_name(), *reports, fixed, solved, coordinates, ridge, weights, variances, statistics, threads
    )
    likelihood, singular, *sums = numbers
    by_component = np.array(sums).reshape(2, -1)
    return SweepResult(int(singular), MixtureStatistics(likelihood, by_component[0], by_component[1]))


def posterior_sweep(  # noqa: PLR0913, PLR0917 - as above
    rows: Rows,
    table: Floats | None,
    weights: Floats,
    fixed: Floats,
    solved: Floats,
    variances: Floats,
    *,
    coordinates: int,
    precision: Floats,
    centres: Floats | None,
    fixed_variances: Floats | None,
    threads: int,
) -> float:
    """Find the Gaussian posterior of every row's factors, the other side's held; return the weighted squares it leaves.

    The first `len(precision)` coordinates of `solved` become the posterior's mean, and `variances` its variances; the
    other coordinates take part as they are. `weights` are precisions of the noise: one for each symbol of `table`, or
    just one. The prior has independent coordinates with that `precision`, around a row of `centres` or zero. Where the
    other side's factors are uncertain, `fixed_variances` are the variances of the last of the coordinates solved for.
    """
    native = _in_use()
    if native is None:
        return twin.posterior_sweep(
            rows, table, weights, fixed, solved, variances, coordinates, precision, centres, fixed_variances
        )
    reports = (rows.starts, rows.columns, rows.values, table, weights)
    sides = (fixed, solved, variances, coordinates)
    return float(native.posterior_sweep(kernel_name(), *reports, *sides, precision, centres, fixed_variances, threads))


@dataclass(frozen=True, eq=False, slots=True)
class ReportBlocks:
    """Reports in blocks, user group by item group, each in random order: what gradient steps run through."""

    side: int
    starts: NDArray[np.int64]
    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[Any]


def sgd_epoch(  # noqa: PLR0913 - as above
    blocks: ReportBlocks, table: Floats | None, users: Floats, items: Floats, rates: Floats, *, threads: int
) -> float:
    """Take one gradient step for every report; return the sum of squared residuals met on the way.

    The rows of `rates` are: what users keep, their step, what items keep, their step; one entry a coordinate.
    """
    arrays = (blocks.starts, blocks.users, blocks.items, blocks.values, table)
    native = _in_use()
    if native is None:
        return twin.sgd_epoch(*arrays, users, items, rates, blocks.side)
    return float(native.sgd_epoch(kernel_name(), *arrays, users, items, rates, blocks.side, threads))


def top_n(  # noqa: PLR0913 - as above
    users: Floats, items: Floats, rated: Rows | None, n: int, *, coordinates: int | None = None, threads: int
) -> tuple[NDArray[np.int32], Floats]:
    """Find the n items of highest product for every user, leaving out those rated; ties go to the lower index.

    Where fewer than n are left, the list ends in item -1 with score -infinity. Only the first `coordinates`
    of a row are looked at: behind them is padding.
    """
    found_items = np.full((len(users), n), -1, dtype=np.int32)
    found_scores = np.full((len(users), n), -np.inf, dtype=np.float32)
    native = _in_use()
    if native is None:
        twin.top_n(users, items, rated, found_items, found_scores)
        return found_items, found_scores
    left_out = (None, None) if rated is None else (rated.starts, rated.columns)
    native.top_n(
        kernel_name(), users, items, coordinates or users.shape[1], *left_out, found_items, found_scores, threads
    )
    return found_items, found_scores


def row_sums(rows: Rows, dense: Floats, threads: int) -> Floats:
    """Sum, for every sparse row, the rows of `dense` that its columns name: a matrix of ones and zeros times it."""
    sums = np.empty((len(rows), dense.shape[1]), dtype=np.float32)
    native = _in_use()
    if native is None:
        twin.row_sums(rows, dense, sums)
    else:
        native.row_sums(kernel_name(), rows.starts, rows.columns, dense, sums, threads)
    return sums


def default_threads() -> int:
    """Return the number of threads: `TACIT_THREADS`, or all cores this process may use."""
    asked = os.environ.get("TACIT_THREADS", "")
    if not asked:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not re.fullmatch(r"[1-9][0-9]{0,3}", asked) or int(asked) > MOST_THREADS:
        raise InvalidInputError(f"TACIT_THREADS is {asked[:40]!r}; set it to a whole number from 1 to {MOST_THREADS}")
    return int(asked)


def checked_threads(threads: int) -> int:
    """Return a number of threads, or refuse one that is none."""
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
        raise InvalidInputError(f"threads is {threads!r}; give a whole number from 1 to {MOST_THREADS}")
    return threads


def kernel_name() -> str:
    """Return the name of the kernel in use."""
    return _choose(os.environ.get("TACIT_KERNEL", ""))


def kernel_file() -> Path | None:
    """Return the file of the compiled kernels, if they are in use."""
    native = _in_use()
    return None if native is None else Path(native.__file__)


@functools.cache
def _choose(asked: str) -> str:
    compiled = _compiled()
    usable = [*(compiled.builds() if compiled else []), "numpy"]
    if asked and asked not in usable:
        raise InvalidInputError(f"TACIT_KERNEL is {asked[:40]!r}; this machine has {', '.join(usable)}")
    if not asked and compiled is None:
        msg = "tacit was installed without its compiled kernels, which need a C++17 compiler and Python's headers"
        warnings.warn(f"{msg}; NumPy does the same, many times slower", KernelWarning, stacklevel=2)
    return asked or usable[0]


@functools.cache
def _compiled() -> Any:  # noqa: ANN401 - a module
    try:
        return importlib.import_module("tacit.learning.kernels._native")
    except ImportError:
        return None


def _in_use() -> Any:  # noqa: ANN401 - a module
    return None if kernel_name() == "numpy" else _compiled()
