"""Every compiled kernel against the NumPy twin, for any rank and any number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InvalidInputError
from tacit.learning import kernels
from tacit.learning.kernels import ReportBlocks, SweepResult, default_threads, half_sweep, padded, sgd_epoch, top_n
from tacit.learning.matrix import Rows
from tacit.learning.mixture import NoiseMixture

if TYPE_CHECKING:
    from numpy.typing import NDArray

COMPILED = kernels._compiled().builds() if kernels._compiled() else []
ALL = [*COMPILED, "numpy"]
MIXTURE = NoiseMixture(np.array([0.2, 0.5, 0.3]), np.array([0.3, 1.0, 9.0]))


@pytest.fixture(params=ALL)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TACIT_KERNEL", request.param)
    return str(request.param)


needs_compiled = pytest.mark.skipif(
    not COMPILED and not os.environ.get("TACIT_NO_SKIPS"), reason="tacit was installed without its compiled kernels"
)


@needs_compiled
def test_the_compiled_kernels_are_here() -> None:
    assert "baseline" in COMPILED


def rows_of(counts: list[int], columns: int, rng: np.random.Generator, kind: type = np.float32) -> Rows:
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    chosen = [np.sort(rng.choice(columns, count, replace=False)) for count in counts]
    values = rng.integers(1, 6, starts[-1]).astype(kind)
    return Rows(starts, np.concatenate(chosen).astype(np.int32), values)


class Problem:
    """One half-sweep, to be solved by any kernel."""

    def __init__(self, seed: int, rank: int, *, ridge: float, offsets: bool = False, kind: type = np.float32) -> None:
        rng = np.random.default_rng(seed)
        columns = 3 * rank + 150
        counts = [columns, 0, 1, min(rank, 80), *rng.integers(2 * rank + 2, columns, 5).tolist(), 65, 64, 63]
        self.rows = rows_of(counts, columns, rng, kind)
        self.table = None if kind is np.float32 else np.arange(600, dtype=np.float32)
        self.coordinates = rank + 2 * offsets
        self.ridge = np.full(rank + offsets, ridge, dtype=np.float32)
        self.fixed = padded(rng.standard_normal((columns, self.coordinates)))
        self.start = padded(rng.standard_normal((len(counts), self.coordinates)))

    def solve(
        self, mixture: NoiseMixture = MIXTURE, threads: int = 1, *, statistics: bool = True
    ) -> tuple[NDArray[Any], SweepResult]:
        solved = padded(self.start)
        rest = {"coordinates": self.coordinates, "ridge": self.ridge, "mixture": mixture}
        result = half_sweep(self.rows, self.table, self.fixed, solved, **rest, statistics=statistics, threads=threads)
        return solved, result


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("rank", [1, 2, 3, 7, 8, 9, 10, 15, 16, 17, 24, 31, 32, 33, 48, 64, 100, 256])
def test_a_half_sweep_is_that_of_the_twin(
    rank: int, ridge: float, offsets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(rank, rank, ridge=ridge, offsets=offsets)
    monkeypatch.setenv("TACIT_KERNEL", "numpy")
    expected, twin = problem.solve()
    for name in COMPILED:
        monkeypatch.setenv("TACIT_KERNEL", name)
        solved, ours = problem.solve()
        # Rows with hardly more reports than unknowns are determined badly; their products are not.
        products, wanted = solved @ problem.fixed.T, expected @ problem.fixed.T
        assert np.abs(products - wanted).max() <= 2e-3 * np.abs(wanted).max()
        assert np.median(np.abs(solved - expected)) <= 1e-5
        assert ours.sums.log_likelihood == pytest.approx(twin.sums.log_likelihood, rel=5e-6)
        np.testing.assert_allclose(ours.sums.responsibility, twin.sums.responsibility, rtol=1e-4)
        np.testing.assert_allclose(ours.sums.square, twin.sums.square, rtol=1e-3)
        assert (solved[:, problem.coordinates :] == 0).all()
        held = slice(len(problem.ridge), problem.coordinates)
        assert (solved[:, held] == problem.start[:, held]).all()
        assert (solved[1] == problem.start[1]).all()  # nobody said anything about it


def test_a_ridge_on_some_coordinates_only_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(3, 6, ridge=0.0)
    problem.ridge[:4] = 0.5
    monkeypatch.setenv("TACIT_KERNEL", "numpy")
    expected, _ = problem.solve()
    for name in COMPILED:
        monkeypatch.setenv("TACIT_KERNEL", name)
        np.testing.assert_allclose(problem.solve()[0], expected, rtol=1e-3, atol=1e-4)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), rank=st.integers(1, 40), components=st.integers(1, 16), ridge=st.floats(0.05, 5))
def test_any_mixture_gives_the_weights_of_the_twin(seed: int, rank: int, components: int, ridge: float) -> None:
    rng = np.random.default_rng(seed)
    mixture = NoiseMixture(rng.dirichlet(np.ones(components)), np.exp(rng.uniform(-3, 3, components)))
    problem = Problem(seed, rank, ridge=ridge)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_KERNEL", "numpy")
        expected, twin = problem.solve(mixture)
        for name in COMPILED:
            patch.setenv("TACIT_KERNEL", name)
            solved, ours = problem.solve(mixture)
            assert np.abs(solved - expected).max() <= 1e-3 * (1 + np.abs(expected).max())
            assert ours.sums.log_likelihood == pytest.approx(twin.sums.log_likelihood, rel=1e-5)
            np.testing.assert_allclose(ours.sums.responsibility, twin.sums.responsibility, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
def test_codes_and_numbers_mean_the_same(kernel: str, kind: type) -> None:
    plain, _ = Problem(4, 5, ridge=0.1).solve()
    coded, _ = Problem(4, 5, ridge=0.1, kind=kind).solve()
    assert (plain == coded).all(), kernel


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_the_number_of_threads_changes_nothing(kernel: str, threads: int) -> None:
    problem = Problem(5, 12, ridge=0.1)
    one, sums = problem.solve()
    many, sums_of_many = problem.solve(threads=threads)
    assert (one == many).all(), kernel
    assert sums.sums.log_likelihood == sums_of_many.sums.log_likelihood
    assert (sums.sums.square == sums_of_many.sums.square).all()


def test_a_component_without_weight_takes_no_part(kernel: str) -> None:
    problem = Problem(6, 4, ridge=0.1)
    empty = NoiseMixture(np.array([0.5, 0.0, 0.5]), np.array([1.0, 100.0, 4.0]))
    without = NoiseMixture(np.array([0.5, 0.5]), np.array([1.0, 4.0]))
    solved, ours = problem.solve(empty)
    expected, theirs = problem.solve(without)
    np.testing.assert_allclose(solved, expected, rtol=1e-5, atol=1e-6)
    assert ours.sums.responsibility[1] < 1e-6, kernel
    assert ours.sums.log_likelihood == pytest.approx(theirs.sums.log_likelihood, rel=1e-6)


def test_not_a_number_is_never_hidden(kernel: str) -> None:
    problem = Problem(7, 3, ridge=0.1)
    values = problem.rows.values.copy()
    values[0] = np.nan
    problem.rows = replace(problem.rows, values=values)
    solved, result = problem.solve()
    assert np.isnan(solved[0, :3]).all(), kernel
    assert np.isfinite(solved[1:]).all()
    assert np.isnan(result.sums.log_likelihood)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_not_a_number_in_factors_is_never_hidden(kernel: str, ridge: float) -> None:
    problem = Problem(7, 3, ridge=ridge)
    problem.fixed[5, 0] = np.nan
    touched = [
        row for row in range(len(problem.rows))
        if 5 in problem.rows.columns[problem.rows.starts[row] : problem.rows.starts[row + 1]]
    ]  # fmt: skip
    solved, _ = problem.solve()
    assert np.isnan(solved[touched, :3]).all(), kernel
    assert np.isfinite(np.delete(solved, touched, axis=0)).all()


@needs_compiled
def test_an_array_that_would_be_copied_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_KERNEL", COMPILED[-1])
    problem = Problem(7, 3, ridge=0.1)
    rest: dict[str, Any] = {"coordinates": 3, "ridge": problem.ridge, "mixture": MIXTURE}
    wrong: Any = problem.start.astype(np.float64)
    with pytest.raises(TypeError):
        half_sweep(problem.rows, None, problem.fixed, wrong, **rest, statistics=True, threads=1)


def test_singular_rows_are_counted(kernel: str) -> None:
    _, open_ended = Problem(8, 6, ridge=0.0).solve()
    _, ridged = Problem(8, 6, ridge=0.1).solve()
    assert open_ended.singular_rows >= 1, kernel
    assert ridged.singular_rows == 0


def test_a_long_row_keeps_its_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    rows = rows_of([60_000], 60_000, rng)
    fixed, start = padded(1 + 0.3 * rng.standard_normal((60_000, 8))), padded(np.zeros((1, 8)))
    found = []
    for name in ("numpy", *COMPILED):
        monkeypatch.setenv("TACIT_KERNEL", name)
        solved = padded(start)
        for _ in range(5):
            half_sweep(
                rows, None, fixed, solved, coordinates=8, ridge=np.full(8, 1e-3, dtype=np.float32),
                mixture=MIXTURE, statistics=False, threads=1,
            )  # fmt: skip
        found.append(solved)
    for solved in found[1:]:
        np.testing.assert_allclose(solved, found[0], rtol=1e-4, atol=1e-5)


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    users=st.integers(1, 40),
    items=st.integers(1, 200),
    rank=st.integers(1, 40),
    n=st.integers(1, 30),
    rated=st.booleans(),
)
def test_the_top_n_are_those_of_the_twin(  # noqa: PLR0913, PLR0917 - what can vary
    seed: int, users: int, items: int, rank: int, n: int, rated: bool
) -> None:
    rng = np.random.default_rng(seed)
    # Whole numbers: products are exact, so ties are ties in every kernel.
    user_rows = padded(rng.integers(-3, 4, (users, rank)))
    item_rows = padded(rng.integers(-3, 4, (items, rank)))
    left_out = rows_of(rng.integers(0, items + 1, users).tolist(), items, rng) if rated else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TACIT_KERNEL", "numpy")
        expected_items, expected_scores = top_n(user_rows, item_rows, left_out, n, threads=1)
        for name in COMPILED:
            patch.setenv("TACIT_KERNEL", name)
            for threads in (1, 3):
                found_items, found_scores = top_n(user_rows, item_rows, left_out, n, threads=threads)
                assert (found_items == expected_items).all()
                assert (found_scores == expected_scores).all()


def blocks_of(side: int, reports: int, seed: int) -> ReportBlocks:
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 40, reports), rng.integers(0, 30, reports)
    block = (users % side) * side + items % side
    order = np.argsort(block, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(block, minlength=side**2))]).astype(np.int64)
    values = rng.integers(0, 5, reports).astype(np.uint8)
    return ReportBlocks(side, starts, users[order].astype(np.int32), items[order].astype(np.int32), values)


@pytest.mark.parametrize("rank", [1, 5, 16, 30, 70])
def test_a_gradient_epoch_is_that_of_the_twin(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(rank)
    blocks, table = blocks_of(4, 600, rank), np.linspace(-2, 2, 5, dtype=np.float32)
    rates = padded(np.array([[0.999] * rank, [0.01] * rank, [0.998] * rank, [0.02] * rank]))
    start = padded(rng.standard_normal((40, rank))), padded(rng.standard_normal((30, rank)))
    found = []
    for name, threads in (("numpy", 1), *((name, threads) for name in COMPILED for threads in (1, 3))):
        monkeypatch.setenv("TACIT_KERNEL", name)
        users, items = padded(start[0]), padded(start[1])
        found.append((sgd_epoch(blocks, table, users, items, rates, threads=threads), users, items, name))
    for squares, users, items, _ in found[1:]:
        assert squares == pytest.approx(found[0][0], rel=1e-4)
        np.testing.assert_allclose(users, found[0][1], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(items, found[0][2], rtol=1e-3, atol=1e-4)
    for one, many in zip(found[1::2], found[2::2], strict=True):
        assert one[0] == many[0], one[3]
        assert (one[1] == many[1]).all()


def test_threads_and_kernel_are_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_THREADS", "3")
    assert default_threads() == 3
    for wrong in ("0", "many", "-1", "1025"):
        monkeypatch.setenv("TACIT_THREADS", wrong)
        with pytest.raises(InvalidInputError, match="TACIT_THREADS"):
            default_threads()
    monkeypatch.setenv("TACIT_KERNEL", "abacus")
    with pytest.raises(InvalidInputError, match=r"abacus.*numpy"):
        kernels.kernel_name()


@needs_compiled
def test_loading_the_kernels_leaves_floating_point_alone() -> None:
    code = """
import numpy as np
import tacit.learning.kernels as kernels
kernels.half_sweep
assert kernels._compiled()
tiny = np.array([np.finfo(np.float32).tiny], dtype=np.float32)
assert (tiny / 2)[0] > 0, "denormals are flushed to zero"
assert np.float32(1) / np.float32(3) * np.float32(3) == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@needs_compiled
def test_shapes_that_do_not_fit_are_refused() -> None:
    native = kernels._compiled()
    problem = Problem(1, 3, ridge=0.1)
    rows, solved = problem.rows, padded(problem.start)
    good = [
        rows.starts,
        rows.columns,
        rows.values,
        None,
        problem.fixed,
        solved,
        3,
        problem.ridge,
        [1.0],
        [1.0],
        True,
        1,
    ]

    def changed(at: int, value: object) -> list[object]:
        return [*good[:at], value, *good[at + 1 :]]

    native.half_sweep("baseline", *good)
    for at, wrong in [(0, rows.starts[:-1]), (2, rows.values[:-1]), (3, np.ones(3, dtype=np.float32)), (5, solved[:-1]),
                      (6, 17), (7, np.ones(4, dtype=np.float32)), (8, [0.5, 0.5]), (11, 0)]:  # fmt: skip
        with pytest.raises(ValueError, match=r".+"):
            native.half_sweep("baseline", *changed(at, wrong))
    with pytest.raises(ValueError, match="no kernel named v9"):
        native.half_sweep("v9", *good)
