"""Gaussian row posteriors: every kernel against the equations, written out densely in double precision."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.learning import kernels
from tacit.learning.kernels import padded, posterior_sweep
from tacit.learning.matrix import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

COMPILED = kernels._compiled().builds() if kernels._compiled() else []
ALL = [*COMPILED, "numpy"]
SEGMENT = 1 << 14  # kSegment
COLUMNS = 90

needs_compiled = pytest.mark.skipif(
    not COMPILED and not os.environ.get("TACIT_NO_SKIPS"), reason="tacit was installed without its compiled kernels"
)


@pytest.fixture(params=ALL)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TACIT_KERNEL", request.param)
    return str(request.param)


class Posterior(NamedTuple):
    """What a sweep finds."""

    solved: NDArray[Any]
    variances: NDArray[Any]
    squares: float


class Problem:
    """One posterior sweep, for any kernel, and the answer by the book."""

    def __init__(  # noqa: PLR0913 - what can vary
        self,
        free: int,
        *,
        held: int = 0,
        uncertain: int | None = None,
        centred: bool = False,
        kind: type = np.uint8,
        counts: tuple[int, ...] = (70, 0, 1, 9, 64, 65, 63, 128, 5, 40, 0),
        seed: int = 0,
    ) -> None:
        rng = np.random.default_rng(seed)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        columns = rng.integers(0, COLUMNS, starts[-1]).astype(np.int32)
        self.rows = Rows(starts, columns, rng.integers(0, 5, starts[-1]).astype(kind))
        self.table = None if kind is np.float32 else np.array([-2, -1, 0.5, 1, 3], dtype=np.float32)
        self.weights = np.array([0.7] if self.table is None else [0.2, 0.5, 1, 2, 4], dtype=np.float32)
        self.coordinates = free + held
        self.fixed = padded(rng.standard_normal((COLUMNS, self.coordinates)))
        self.start = padded(rng.standard_normal((len(counts), self.coordinates)))
        self.precision = rng.uniform(0.5, 3, free).astype(np.float32)
        self.centres = rng.standard_normal((len(counts), free)).astype(np.float32) if centred else None
        sizes = None if uncertain is None else (COLUMNS, uncertain)
        self.fixed_variances = None if sizes is None else rng.uniform(0, 2, sizes).astype(np.float32)

    def solve(self, threads: int = 1) -> Posterior:
        solved = padded(self.start)
        variances = np.full((len(self.rows), len(self.precision)), np.nan, dtype=np.float32)
        squares = posterior_sweep(
            self.rows, self.table, self.weights, self.fixed, solved, variances,
            coordinates=self.coordinates, precision=self.precision, centres=self.centres,
            fixed_variances=self.fixed_variances, threads=threads,
        )  # fmt: skip
        return Posterior(solved, variances, squares)

    def by_the_book(self) -> Posterior:
        """Solve dense matrices: sums of weights, and of weighted values, for each pair of a row and a column."""
        free, values = len(self.precision), self.rows.values
        codes = np.zeros(len(values), dtype=int) if self.table is None else values
        noise = self.weights.astype(np.float64)[codes]
        targets = (values if self.table is None else self.table[values]).astype(np.float64)
        pairs = (np.repeat(np.arange(len(self.rows)), self.rows.counts()), self.rows.columns)
        weights, weighted = np.zeros((2, len(self.rows), COLUMNS))
        np.add.at(weights, pairs, noise)
        np.add.at(weighted, pairs, noise * targets)
        other, own = self.fixed.astype(np.float64), self.start.astype(np.float64)
        design, centres = other[:, :free], np.zeros((len(own), free)) if self.centres is None else self.centres
        weighted -= weights * (own[:, free:] @ other[:, free:].T)
        diagonals = np.tile(self.precision.astype(np.float64), (len(own), 1))
        if self.fixed_variances is not None:
            diagonals[:, free - self.fixed_variances.shape[1] :] += weights @ self.fixed_variances.astype(np.float64)
        matrices = np.einsum("rc,ca,cb->rab", weights, design, design, optimize=True)
        matrices += diagonals[:, :, None] * np.eye(free)
        right = weighted @ design + self.precision * centres
        own[:, :free] = np.linalg.solve(matrices, right[:, :, None])[:, :, 0]
        squares = noise @ (targets - (own @ other.T)[pairs]) ** 2
        return Posterior(own, np.diagonal(np.linalg.inv(matrices), axis1=1, axis2=2), float(squares))


def assert_same(found: Posterior, expected: Posterior, tolerance: float = 1e-4, kernel: str = "") -> None:
    scale = 1 + np.abs(expected.solved).max(axis=1, keepdims=True)
    np.testing.assert_allclose(found.solved / scale, expected.solved / scale, rtol=0, atol=tolerance, err_msg=kernel)
    np.testing.assert_allclose(found.variances, expected.variances, rtol=tolerance, err_msg=kernel)
    assert found.squares == pytest.approx(expected.squares, rel=tolerance), kernel


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("free", [1, 17, 64, 100])
def test_a_sweep_finds_the_posteriors(kernel: str, free: int, kind: type) -> None:
    problem = Problem(free, held=2, uncertain=(free + 1) // 2, centred=True, kind=kind, seed=free)
    found = problem.solve()
    assert_same(found, problem.by_the_book())
    assert (found.solved[:, free:] == problem.start[:, free:]).all(), kernel


@settings(max_examples=25)
@given(
    data=st.data(), seed=st.integers(0, 10**6), free=st.integers(1, 40), held=st.integers(0, 3), centred=st.booleans()
)
def test_any_sweep_finds_the_posteriors(data: st.DataObject, seed: int, free: int, held: int, centred: bool) -> None:
    uncertain = data.draw(st.none() | st.sampled_from([0, free]) | st.integers(0, free))
    problem = Problem(free, held=held, uncertain=uncertain, centred=centred, seed=seed)
    expected = problem.by_the_book()
    with pytest.MonkeyPatch.context() as patch:
        for name in ALL:
            patch.setenv("TACIT_KERNEL", name)
            assert_same(problem.solve(), expected, kernel=name)


def test_a_row_without_reports_has_its_prior(kernel: str) -> None:
    for centred in (False, True):
        problem = Problem(6, centred=centred, counts=(0, 3, 0))
        found = problem.solve()
        for row in (0, 2):
            centre = np.zeros(6) if problem.centres is None else problem.centres[row]
            assert (found.solved[row, :6] == centre).all(), kernel
            np.testing.assert_allclose(found.variances[row], 1 / problem.precision, rtol=1e-6)


def test_the_highest_rank_has_room(kernel: str) -> None:
    problem = Problem(257, held=1, uncertain=256, counts=(80, 0, 120), seed=1)
    assert_same(problem.solve(), problem.by_the_book(), kernel=kernel)


def test_a_long_row_keeps_its_accuracy(kernel: str) -> None:
    problem = Problem(5, held=1, uncertain=3, counts=(SEGMENT, 3 * SEGMENT + 70, SEGMENT + 1), seed=2)
    problem.fixed[:, :6] = 1 + 0.3 * problem.fixed[:, :6]
    expected = problem.by_the_book()
    problem.start = problem.solve().solved
    found = problem.solve()
    assert_same(found, expected, 5e-4)  # variances carry the error of sums in single precision
    np.testing.assert_allclose(found.solved, expected.solved, rtol=1e-5, atol=1e-5, err_msg=kernel)  # means do not


@pytest.mark.parametrize("uncertain", [None, 4])
def test_rows_next_to_singular_are_solved_in_doubles(kernel: str, uncertain: int | None) -> None:
    problem = Problem(12, held=1, uncertain=uncertain, centred=True, seed=3)
    problem.weights[:] = 1e4
    problem.precision[:] = 1e-3
    problem.fixed[:, 1] = problem.fixed[:, 0]  # only the prior tells them apart
    problem.fixed[:, 2] = 0.0
    if problem.fixed_variances is not None:
        problem.fixed_variances *= 1e-6
    found, expected = problem.solve(), problem.by_the_book()
    assert_same(found, expected)
    assert found.variances[0, 0] == pytest.approx(500, rel=1e-3), kernel


def test_a_second_sweep_changes_nothing_but_rounding(kernel: str) -> None:
    problem = Problem(20, uncertain=20, centred=True, seed=4)
    expected = problem.by_the_book()
    problem.start = problem.solve().solved
    assert_same(problem.solve(), expected, 1e-5, kernel)


def test_a_report_without_weight_says_nothing(kernel: str) -> None:
    problem = Problem(4, uncertain=2, centred=True, counts=(30, 2))
    problem.weights[:] = 0.0
    found = problem.solve()
    np.testing.assert_allclose(found.solved[:, :4], problem.centres, rtol=1e-6)
    np.testing.assert_allclose(found.variances, np.tile(1 / problem.precision, (2, 1)), rtol=1e-6)
    assert found.squares == 0.0, kernel


@pytest.mark.parametrize("threads", [2, 3])
def test_the_number_of_threads_changes_nothing(kernel: str, threads: int) -> None:
    problem = Problem(9, uncertain=8, centred=True, counts=(500,) * 100, seed=5)
    one, many = problem.solve(), problem.solve(threads)
    assert (one.solved == many.solved).all(), kernel
    assert (one.variances == many.variances).all()
    assert one.squares == many.squares


@pytest.mark.parametrize("where", ["table", "fixed"])
def test_not_a_number_is_never_hidden(kernel: str, where: str) -> None:
    problem = Problem(6, held=1, uncertain=3, counts=(200, 0, 200))
    getattr(problem, where)[3] = np.nan
    found = problem.solve()
    assert np.isnan(found.solved[[0, 2], :6]).all(), kernel
    assert np.isfinite(found.solved[1]).all()
    assert np.isnan(found.squares)


@needs_compiled
def test_what_does_not_fit_is_refused() -> None:
    native = kernels._compiled()
    problem = Problem(3, uncertain=2, centred=True)
    rows, solved, variances = problem.rows, padded(problem.start), np.zeros((11, 3), dtype=np.float32)
    good: dict[str, Any] = {
        "starts": rows.starts, "columns": rows.columns, "values": rows.values, "table": problem.table,
        "weights": problem.weights, "fixed": problem.fixed, "solved": solved, "variances": variances,
        "coordinates": 3, "precision": problem.precision, "centres": problem.centres,
        "fixed_variances": problem.fixed_variances, "threads": 1,
    }  # fmt: skip
    native.posterior_sweep("baseline", **good)
    wide = np.ones((COLUMNS, 4), dtype=np.float32)
    wrong: list[tuple[str, Any, str]] = [
        ("starts", rows.starts[:-2], "last start"),
        ("values", rows.values[:-1], "do not fit together"),
        ("table", None, "codes need a table"),
        ("weights", problem.weights[:-1], "one weight for each symbol"),
        ("weights", -problem.weights, "negative"),
        ("solved", solved[:-1], "two sides"),
        ("variances", variances[:-1], "variances or centres"),
        ("variances", variances[:, :2].copy(), "variances or centres"),
        ("coordinates", 2, "free coordinates"),
        ("coordinates", 17, "padded"),
        ("precision", problem.precision[:0], "free coordinates"),
        ("precision", 0 * problem.precision, "positive"),
        ("centres", variances[1:], "variances or centres"),
        ("fixed_variances", wide, "other side's variances"),
        ("fixed_variances", wide[1:, :2].copy(), "other side's variances"),
        ("threads", 0, "threads"),
    ]
    for name, value, reason in wrong:
        with pytest.raises(ValueError, match=reason):
            native.posterior_sweep("baseline", **good | {name: value})
    with pytest.raises(TypeError):
        native.posterior_sweep("baseline", **good | {"variances": variances.astype(np.float64)})
