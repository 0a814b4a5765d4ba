"""Sweeps in PyTorch against the NumPy twin, for any rank, noise and kind of values."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from tacit.learning.kernels import padded, twin
from tacit.learning.matrix import Rows
from tacit.learning.mixture import MixtureStatistics, NoiseMixture

if importlib.util.find_spec("torch") is None and not os.environ.get("TACIT_NO_SKIPS"):
    pytest.skip("PyTorch is not installed; install tacit[gpu]", allow_module_level=True)

import torch

from tacit.learning.gpu import plain, singular
from tacit.learning.gpu.batches import SEGMENT, Cost, batches, runs
from tacit.learning.gpu.components import Components
from tacit.learning.gpu.least_norm import solve_symmetric
from tacit.learning.gpu.reports import Block, DeviceRows, cut
from tacit.learning.gpu.sweep import Pull, Sweep
from tacit.learning.gpu.tasks import Shares

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from numpy.typing import NDArray
    from torch import Tensor

    from tacit.learning.gpu.sweep import HalfSweep

MIXTURE = NoiseMixture(np.array([0.2, 0.5, 0.3]), np.array([0.3, 1.0, 9.0]))
EMPTIED = NoiseMixture(np.array([0.3, 0.0, 0.7, 0.0]), np.array([0.5, 20.0, 2.0, 1e-4]))
MIXTURES = {
    1: NoiseMixture.single(0.7),
    2: NoiseMixture(np.array([0.9, 0.1]), np.array([4.0, 0.2])),
    3: MIXTURE,
    4: EMPTIED,
    5: NoiseMixture(np.full(5, 0.2), np.array([1e-3, 0.1, 1.0, 30.0, 0.5])),
    16: NoiseMixture(np.full(16, 1 / 16), np.geomspace(1e-2, 1e2, 16)),
}
AMPLE = 1 << 25
DEVICE = torch.device(os.environ.get("TACIT_GPU_DEVICE", "cpu"))  # tests are for the processor unless it says else


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Solved(NamedTuple):
    """Where a half-sweep ended."""

    factors: NDArray[Any]
    sums: MixtureStatistics
    irregular: list[int]


def on_device(array: NDArray[Any]) -> Tensor:
    return torch.tensor(array, device=DEVICE)


def device_rows(rows: Rows, centre: float = 0.0) -> DeviceRows:
    values = rows.values.astype(np.int32) if rows.values.dtype == np.uint16 else rows.values
    starts, columns, said = (on_device(array) for array in (rows.starts, rows.columns, values))
    return DeviceRows(Block(0, len(rows), rows.counts()), starts, columns, said, centre)


class Problem:
    """One half-sweep, to be solved in PyTorch and by the twin."""

    def __init__(  # noqa: PLR0913 - what can vary
        self,
        rank: int,
        *,
        ridge: float,
        offsets: bool = False,
        kind: type = np.float32,
        counts: list[int] | None = None,
        columns: int | None = None,
    ) -> None:
        rng = np.random.default_rng(rank)
        self.columns = columns or 3 * rank + 150
        most = self.columns
        counts = counts or [most, 0, 1, min(rank, 80), *rng.integers(2 * rank + 2, most, 5).tolist(), 65, 64, 63]
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        chosen = [np.sort(rng.choice(most, count, replace=False)) for count in counts]
        self.rows = Rows(starts, np.concatenate(chosen).astype(np.int32), rng.integers(1, 6, starts[-1]).astype(kind))
        self.table = None if kind is np.float32 else np.arange(600, dtype=np.float32)
        self.coordinates = rank + 2 * offsets
        self.ridge = np.full(rank + offsets, ridge, dtype=np.float32)
        self.fixed = padded(rng.standard_normal((most, self.coordinates)))
        self.start = padded(rng.standard_normal((len(counts), self.coordinates)))

    def sweep(self, mixture: NoiseMixture, memory: int) -> Sweep:
        return Sweep(
            None if self.table is None else on_device(self.table),
            self.coordinates,
            Pull.of(self.ridge.tolist(), DEVICE),
            Components.of(mixture),
            statistics=True,
            memory=memory,
        )

    def solve(
        self,
        mixture: NoiseMixture = MIXTURE,
        memory: int = AMPLE,
        centre: float = 0.0,
        half_sweep: HalfSweep = plain.half_sweep,
    ) -> Solved:
        rows, sweep = device_rows(self.rows, centre), self.sweep(mixture, memory)
        fixed, solved = on_device(self.fixed), on_device(self.start)
        sums, irregular = half_sweep(rows, fixed, solved, sweep)
        np.testing.assert_array_equal(solved[irregular].cpu(), self.start[irregular.cpu().numpy()])
        if len(irregular):
            sums += singular.solve(irregular, rows, fixed, solved, sweep)
        return Solved(solved.cpu().numpy(), sweep.mixture.statistics(sums), irregular.tolist())

    def by_the_twin(self, mixture: NoiseMixture = MIXTURE, centre: float = 0.0) -> tuple[NDArray[Any], Any]:
        solved = padded(self.start)
        rows = self.rows
        if centre:
            rows = Rows(rows.starts, rows.columns, rows.values - np.float32(centre))
        _, sums = twin.half_sweep(rows, self.table, self.fixed, solved, self.coordinates, self.ridge, mixture)
        return solved, sums

    def assert_same(self, found: Solved, expected: NDArray[Any], sums: MixtureStatistics) -> None:
        # Rows with hardly more reports than unknowns are determined badly; their products are not.
        products, wanted = found.factors @ self.fixed.T, expected @ self.fixed.T
        assert np.abs(products - wanted).max() <= 2e-3 * np.abs(wanted).max()
        assert np.median(np.abs(found.factors - expected)) <= 1e-5
        assert found.sums.log_likelihood == pytest.approx(sums.log_likelihood, rel=5e-6)
        np.testing.assert_allclose(found.sums.responsibility, sums.responsibility, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found.sums.square, sums.square, rtol=1e-3, atol=1e-6)
        assert (found.factors[:, self.coordinates :] == 0).all()
        held = slice(len(self.ridge), self.coordinates)
        assert (found.factors[:, held] == self.start[:, held]).all()
        silent = self.rows.counts() == 0
        assert (found.factors[silent] == self.start[silent]).all()


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("rank", [1, 3, 8, 33, 64, 256])
def test_a_half_sweep_is_that_of_the_twin(rank: int, ridge: float, offsets: bool) -> None:
    problem = Problem(rank, ridge=ridge, offsets=offsets)
    problem.assert_same(problem.solve(), *problem.by_the_twin())


@pytest.mark.parametrize("components", list(MIXTURES))
def test_any_number_of_components_and_emptied_ones_are_weighed(components: int) -> None:
    problem, mixture = Problem(5, ridge=0.0), MIXTURES[components]
    found = problem.solve(mixture)
    problem.assert_same(found, *problem.by_the_twin(mixture))
    assert (found.sums.responsibility[mixture.weights == 0] == 0).all()


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
def test_all_kinds_of_values_are_read(kind: type) -> None:
    problem, centre = Problem(4, ridge=0.1, kind=kind), 3.3 if kind is np.float32 else 0.0
    problem.assert_same(problem.solve(centre=centre), *problem.by_the_twin(centre=centre))


def test_rows_longer_than_single_precision_bears_are_summed_in_segments() -> None:
    problem = Problem(3, ridge=0.0, counts=[2 * SEGMENT + 77, SEGMENT, 30], columns=3 * SEGMENT)
    problem.assert_same(problem.solve(), *problem.by_the_twin())


def test_little_memory_only_means_smaller_batches() -> None:
    problem = Problem(8, ridge=0.0, counts=[700, 650, 640, 90, 85, 80, 12, 7, 3], columns=800)
    ample, tight = problem.solve(), problem.solve(memory=1)
    np.testing.assert_allclose(tight.factors, ample.factors, rtol=1e-3, atol=1e-4)
    assert tight.sums.log_likelihood == pytest.approx(ample.sums.log_likelihood, rel=1e-6)
    assert tight.irregular == ample.irregular


def test_the_same_sweep_gives_the_same_bits() -> None:
    problem = Problem(16, ridge=0.0)
    one, other = problem.solve(), problem.solve()
    assert (one.factors == other.factors).all()
    assert one.sums.log_likelihood == other.sums.log_likelihood


def test_rows_that_reports_do_not_determine_get_the_least_norm() -> None:
    problem = Problem(4, ridge=0.0, counts=[60, 40, 3, 2, 1])
    problem.fixed[:, 3] = problem.fixed[:, 2]  # no number of reports tells these two apart
    mixture = NoiseMixture.single(0.5)
    found = problem.solve(mixture)
    assert found.irregular == [0, 1, 2, 3, 4]
    for row in range(5):
        here = slice(*problem.rows.starts[row : row + 2])
        design = problem.fixed[problem.rows.columns[here], :4].astype(np.float64)
        expected = np.linalg.pinv(design, rcond=1e-6) @ problem.rows.values[here]
        np.testing.assert_allclose(found.factors[row, :4], expected, rtol=1e-5, atol=1e-6)
        assert found.factors[row, 2] == pytest.approx(found.factors[row, 3], rel=1e-6)


def test_rows_that_are_filled_up_are_no_more_singular_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("these are regular systems")

    problem = Problem(32, ridge=0.0, counts=[31, 20, 9, 4])
    monkeypatch.setattr("tacit.learning.gpu.least_norm._least_norm", fail)
    problem.assert_same(problem.solve(), *problem.by_the_twin())


def test_a_ridge_decides_where_reports_do_not() -> None:
    problem = Problem(6, ridge=0.1, counts=[40, 30, 20, 10])
    problem.ridge[1] = 0.4
    problem.fixed *= 100  # the ridge is small beside that
    problem.fixed[:, 1] = problem.fixed[:, 0]
    found = problem.solve()
    expected, _ = problem.by_the_twin()
    assert found.irregular == [0, 1, 2, 3]
    np.testing.assert_allclose(found.factors, expected, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(found.factors[:, 0], 4 * found.factors[:, 1], rtol=1e-4)


def test_what_is_not_a_number_stays_so() -> None:
    problem = Problem(3, ridge=0.0, counts=[20, 20], columns=40)
    problem.fixed[problem.rows.columns[0], 0] = np.nan
    touched = [row for row in range(2) if problem.rows.columns[0] in problem.rows.columns[20 * row : 20 * row + 20]]
    found = problem.solve()
    assert np.isnan(found.factors[touched, :3]).all()
    assert np.isfinite(np.delete(found.factors, touched, axis=0)).all()


@pytest.mark.parametrize("rank", [0, 1, 3, 7])
def test_singular_systems_are_solved_for_the_least_norm(rank: int) -> None:
    rng = np.random.default_rng(rank)
    roots = rng.standard_normal((20, 7, rank)) * np.geomspace(1, 1e-2, rank or 1)[:rank]
    matrices, wanted = roots @ roots.transpose(0, 2, 1), rng.standard_normal((20, 7))
    right = np.einsum("sab,sb->sa", matrices, wanted)
    found = solve_symmetric(on_device(matrices), on_device(right)).cpu().numpy()
    expected = [np.linalg.pinv(matrix, rcond=1e-12) @ side for matrix, side in zip(matrices, right, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("least", [1e-7, 1e-12])
def test_only_what_cannot_be_factorised_as_it_comes_takes_the_long_way(
    least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, scales = np.random.default_rng(0), np.geomspace(1, least, 30)
    turned = np.linalg.qr(rng.standard_normal((8, 30, 30))).Q
    matrices = (turned * scales) @ turned.transpose(0, 2, 1)
    wanted = (turned * (scales > 1e-10)) @ turned.transpose(0, 2, 1) @ rng.standard_normal((8, 30, 1))
    long_way: list[int] = []
    least_norm = importlib.import_module("tacit.learning.gpu.least_norm")
    solve = least_norm._least_norm
    monkeypatch.setattr(least_norm, "_least_norm", lambda *given: long_way.append(len(given[0])) or solve(*given))
    found = solve_symmetric(on_device(matrices), on_device((matrices @ wanted).squeeze(-1))).cpu().numpy()
    assert long_way == ([] if least > 1e-8 else [8])
    np.testing.assert_allclose(
        np.einsum("sab,sb->sa", matrices, found), (matrices @ wanted).squeeze(-1), rtol=1e-6, atol=1e-9
    )
    if least > 1e-8:
        np.testing.assert_allclose(found, wanted.squeeze(-1), rtol=1e-6, atol=1e-7)


def test_batches_hold_every_row_with_enough_reports_once_within_their_memory() -> None:
    counts = np.sort(np.random.default_rng(0).zipf(1.4, 3000).clip(0, 60_000))[::-1].copy()
    counts[-40:] = 0
    cost = Cost(8, 8, 4, 1 << 20)
    found = list(batches(runs(counts, 3), cost))
    rows = np.concatenate([np.arange(batch.rows.start, batch.rows.stop) for batch in found])
    assert (rows == np.flatnonzero(counts >= 3)).all()
    for batch in found:
        inside = counts[batch.rows]
        assert inside.max() <= batch.length
        assert inside.min() >= batch.length / 1.25 - 8
        assert len(inside) * (cost.row + batch.width * cost.report) <= cost.memory
    assert sum(len(range(batch.rows.start, batch.rows.stop)) * batch.length for batch in found) < 1.5 * counts.sum()


def test_blocks_follow_each_other_and_keep_their_size() -> None:
    counts = np.array([50, 9, 9, 1, 1, 0, 0, 0, 0, 0, 0])
    starts = np.concatenate([[0], np.cumsum(counts)])
    bounds = cut(starts, 16)
    assert [first for first, _ in bounds[1:]] == [last for _, last in bounds[:-1]]
    assert (bounds[0][0], bounds[-1][1]) == (0, len(counts))
    assert all(last - first == 1 or counts[first:last].sum() <= 16 for first, last in bounds)
    assert all(last - first <= 2 for first, last in bounds)


# The fused kernels, in Triton's interpreter unless there is a GPU.


@pytest.fixture(scope="module")
def fused() -> ModuleType:
    if importlib.util.find_spec("triton") is None and not os.environ.get("TACIT_NO_SKIPS"):
        pytest.skip("Triton is not installed; install tacit[engines]")
    if DEVICE.type == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are imported
    return importlib.import_module("tacit.learning.gpu.fused")


shortened = pytest.mark.filterwarnings("ignore:(overflow|divide|invalid):RuntimeWarning")  # of rows that are singular


@shortened
@pytest.mark.parametrize(("rank", "offsets"), [(1, False), (3, True), (16, False), (20, True), (62, True)])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_fused_kernels_do_what_the_twin_does(fused: ModuleType, rank: int, offsets: bool, ridge: float) -> None:
    counts = [2 * rank + 40, rank + 9, rank // 2 + 1, 0, 1]
    problem = Problem(rank, ridge=ridge, offsets=offsets, counts=counts, columns=3 * rank + 60)
    found = problem.solve(half_sweep=fused.half_sweep)
    problem.assert_same(found, *problem.by_the_twin())
    assert set(found.irregular) <= set(problem.solve().irregular)


@shortened
def test_fused_kernels_take_wide_rows_tile_by_tile(fused: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "_WIDEST_TILE", 16)
    problem = Problem(40, ridge=0.2, counts=[90, 50], columns=120)
    problem.assert_same(problem.solve(half_sweep=fused.half_sweep), *problem.by_the_twin())


@shortened
@pytest.mark.parametrize("components", [1, 4, 5])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
def test_fused_kernels_read_all_kinds_of_noise_and_values(fused: ModuleType, components: int, kind: type) -> None:
    problem, centre = Problem(4, ridge=0.1, kind=kind, counts=[50, 30, 9]), 3.3 if kind is np.float32 else 0.0
    found = problem.solve(MIXTURES[components], centre=centre, half_sweep=fused.half_sweep)
    problem.assert_same(found, *problem.by_the_twin(MIXTURES[components], centre=centre))


@shortened
@pytest.mark.parametrize("few", ["one ridge", "several", "not everywhere", "none"])
@pytest.mark.parametrize("wide", [False, True])
def test_fused_kernels_take_rows_of_few_reports_as_smaller_systems(
    fused: ModuleType, monkeypatch: pytest.MonkeyPatch, few: str, wide: bool
) -> None:
    if wide:
        monkeypatch.setattr(fused, "FEW_LAUNCHES", {size: fused.FewLaunch(16, 1) for size in fused.FEW_LAUNCHES})
    problem = Problem(70, ridge=0.0 if few == "none" else 0.3, offsets=True, counts=[150, 70, 65, 33, 17, 16, 2, 1])
    if few == "several":
        problem.ridge[::3] = 0.05
    if few == "not everywhere":
        problem.ridge[-1] = 0.0
    found = problem.solve(half_sweep=fused.half_sweep)
    problem.assert_same(found, *problem.by_the_twin())
    assert not found.irregular


@shortened
@pytest.mark.parametrize("rank", [81, 96, 150])
def test_fused_kernels_read_nothing_beyond_a_row(fused: ModuleType, rank: int) -> None:
    problem = Problem(rank, ridge=0.3, counts=[rank + 9, 40, 20], columns=rank + 10)
    beyond = torch.full((len(problem.fixed) + 1, problem.fixed.shape[1]), torch.nan, device=DEVICE)
    fixed, solved = beyond[:-1].copy_(on_device(problem.fixed)), on_device(problem.start)
    sums, irregular = fused.half_sweep(device_rows(problem.rows), fixed, solved, sweep := problem.sweep(MIXTURE, AMPLE))
    assert not len(irregular)
    problem.assert_same(Solved(solved.cpu().numpy(), sweep.mixture.statistics(sums), []), *problem.by_the_twin())


@shortened
def test_fused_kernels_leave_to_others_what_is_too_large_for_that(
    fused: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.learning.gpu.tasks.MOST_FEW", 16)
    problem = Problem(40, ridge=0.0, counts=[90, 39, 17, 16, 3])
    found = problem.solve(half_sweep=fused.half_sweep)
    assert found.irregular == [1, 2]
    problem.assert_same(found, *problem.by_the_twin())
    ridged = Problem(40, ridge=0.3, counts=[90, 39, 17, 16, 3])
    found = ridged.solve(half_sweep=fused.half_sweep)
    assert not found.irregular
    ridged.assert_same(found, *ridged.by_the_twin())


@pytest.mark.parametrize(("few_below", "least"), [(0, 1), (30, 1), (30, 30), (200, 200), (200, 1)])
def test_every_row_with_reports_is_shared_out_once(few_below: int, least: int) -> None:
    counts = np.concatenate([np.arange(0, 190, 3), [0, 5000, 3_000_000, 40_000_000]])
    shares = Shares.of(Block(0, len(counts), counts), few_below, least, torch.device("cpu"))
    few = [row for _, tasks in shares.few for row in tasks.solved.tolist()]
    assert sorted([*shares.many.solved.tolist(), *few, *shares.left.tolist()]) == np.flatnonzero(counts).tolist()
    assert all(size / 2 < max(counts[row], 9) <= size for size, tasks in shares.few for row in tasks.solved.tolist())
    assert all(counts[row] < few_below for row in few)
    assert all(counts[row] < least for row in shares.left.tolist())
    assert int((shares.every.ends - shares.every.starts).sum()) == counts.sum()
    assert int((shares.every.ends - shares.every.starts).max()) <= SEGMENT
    assert len(shares.every) <= 63 + 3 + 256 + -(-40_000_000 // SEGMENT)


def nearly_parallel(counts: list[int], rank: int, *, level: float, spread: float, ridge: float) -> Problem:
    """All factors of the other side point nearly the same way."""
    problem = Problem(rank, ridge=ridge, counts=counts, columns=max(counts) + 10)
    problem.fixed[:, :rank] = level + spread * problem.fixed[:, :rank]
    return problem


@shortened
@pytest.mark.parametrize(
    "shape",
    [([500], 64, 10.0, 0.5, 0.1), ([1000], 128, 3.0, 0.2, 0.0), ([29], 30, 5.0, 0.3, 0.3), ([63], 64, 5.0, 0.3, 1.0)],
)
def test_fused_kernels_solve_badly_conditioned_rows_as_well_as_others_do(
    fused: ModuleType, shape: tuple[list[int], int, float, float, float]
) -> None:
    counts, rank, level, spread, ridge = shape
    problem = nearly_parallel(counts, rank, level=level, spread=spread, ridge=ridge)
    mixture = NoiseMixture.single()
    expected, _ = problem.by_the_twin(mixture)
    for error in (1e-2, 2e-5):  # the second sweep takes away what the first one left
        found = problem.solve(mixture, half_sweep=fused.half_sweep)
        assert not found.irregular
        assert np.linalg.norm(found.factors - expected) <= error * np.linalg.norm(expected)
        problem.start = found.factors


@shortened
@pytest.mark.parametrize("spread", [0.03, 0.003])
def test_fused_kernels_never_raise_the_objective(fused: ModuleType, spread: float) -> None:
    problem = nearly_parallel([300, 30], 32, level=10.0, spread=spread, ridge=0.0)
    sums = []
    for _ in range(4):
        found = problem.solve(NoiseMixture.single(), half_sweep=fused.half_sweep)
        sums.append(found.sums.square.sum())
        problem.start = found.factors
    assert (np.diff(sums) <= 1e-5 * sums[0]).all()


@shortened
def test_fused_kernels_leave_to_others_what_reports_hardly_determine(fused: ModuleType) -> None:
    problem = Problem(20, ridge=0.0, counts=[60, 40])
    problem.fixed[:, 3] = problem.fixed[:, 2] * np.float32(1 + 1e-6) + np.float32(1e-6) * problem.fixed[:, 1]
    assert problem.solve(half_sweep=fused.half_sweep).irregular == [0, 1]


@shortened
def test_fused_kernels_leave_to_others_what_reports_do_not_determine(fused: ModuleType) -> None:
    problem = Problem(20, ridge=0.0, counts=[60, 40, 12, 9, 7])
    problem.fixed[:, 3] = problem.fixed[:, 2]  # no number of reports tells these two apart
    first, second = problem.rows.columns[slice(*problem.rows.starts[3:5])][:2]
    problem.fixed[first] = problem.fixed[second]  # and two reports of one row say the same
    mixture = NoiseMixture.single(0.5)
    found = problem.solve(mixture, half_sweep=fused.half_sweep)
    assert set(found.irregular) >= {0, 1, 3}
    for row in range(5):
        here = slice(*problem.rows.starts[row : row + 2])
        design = problem.fixed[problem.rows.columns[here], :20].astype(np.float64)
        expected = np.linalg.pinv(design, rcond=1e-6) @ problem.rows.values[here]
        np.testing.assert_allclose(found.factors[row, :20], expected, rtol=1e-4, atol=1e-5)


@shortened
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_fused_kernels_keep_what_is_not_a_number(fused: ModuleType, ridge: float) -> None:
    problem = Problem(20, ridge=ridge, counts=[50, 40, 9, 8], columns=60)
    problem.fixed[problem.rows.columns[[0, 95]], 0] = np.nan
    problem.start[1, 4] = problem.start[3, 4] = np.nan
    touched = [
        row
        for row in range(4)
        if np.isnan(problem.fixed[problem.rows.columns[slice(*problem.rows.starts[row : row + 2])]]).any()
        or row in (1, 3)
    ]
    found = problem.solve(half_sweep=fused.half_sweep)
    assert np.isnan(found.factors[touched, :20]).all()
    assert np.isfinite(np.delete(found.factors, touched, axis=0)).all()


@shortened
def test_fused_kernels_give_the_same_bits_again(fused: ModuleType) -> None:
    rng = np.random.default_rng(0)
    problem = Problem(20, ridge=0.1, counts=np.sort(rng.integers(1, 90, 12))[::-1].tolist(), columns=100)
    one, other = (problem.solve(half_sweep=fused.half_sweep) for _ in range(2))
    assert (one.factors == other.factors).all()
    assert one.sums.log_likelihood == other.sums.log_likelihood


@shortened
def test_fused_kernels_keep_to_their_memory_and_share_rows_out_anew_for_every_ridge(
    fused: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    equations = fused.Equations.of

    def spied(tasks: Any, most: int, width: int, kind: torch.dtype, device: torch.device) -> Any:
        room = equations(tasks, most, width, kind, device)
        made.append(sum(each.nbytes for each in room))
        return room

    monkeypatch.setattr(fused.Equations, "of", spied)
    counts, memory = [60, 55, 50, 45, 12, 11, 10, 9, 5, 4, 3], 20_000
    rows = {}
    for ridge in (0.3, 0.0):
        problem = Problem(20, ridge=ridge, counts=counts, columns=100)
        rows.setdefault("rows", device_rows(problem.rows))
        monkeypatch.setattr(sys.modules[__name__], "device_rows", lambda *_: rows["rows"])  # the very same block
        problem.assert_same(problem.solve(memory=memory, half_sweep=fused.half_sweep), *problem.by_the_twin())
    assert max(made) <= memory
    assert len(made) > 4


@shortened
def test_fused_kernels_take_the_widest_rows(fused: ModuleType) -> None:
    problem = Problem(130, ridge=0.2, offsets=True, counts=[300, 140, 131, 90, 20], columns=320)
    problem.assert_same(problem.solve(half_sweep=fused.half_sweep), *problem.by_the_twin())


@shortened
def test_fused_kernels_solve_nearly_singular_rows_in_doubles(fused: ModuleType) -> None:
    problem = Problem(20, ridge=1e-4, counts=[90, 25, 12, 5])
    assert problem.solve().irregular  # plain ones leave them to others
    found = problem.solve(half_sweep=fused.half_sweep)
    assert not found.irregular
    expected, _ = problem.by_the_twin()
    np.testing.assert_allclose(found.factors, expected, rtol=1e-3, atol=1e-3)


@shortened
def test_fused_kernels_sum_long_rows_up_in_segments_whatever_the_memory(
    fused: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.learning.gpu.tasks.SEGMENT", 64)
    problem = Problem(3, ridge=0.0, counts=[300, 65, 64, 20], columns=400)
    ample, tight = (problem.solve(memory=memory, half_sweep=fused.half_sweep) for memory in (AMPLE, 1))
    problem.assert_same(ample, *problem.by_the_twin())
    assert (ample.factors == tight.factors).all()
    assert ample.sums.log_likelihood == tight.sums.log_likelihood
