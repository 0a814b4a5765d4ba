"""Sums of dense rows that sparse rows name: every kernel against a dense product in double precision."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.learning import kernels
from tacit.learning.kernels import row_sums
from tacit.learning.matrix import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

COMPILED = kernels._compiled().builds() if kernels._compiled() else []
ALL = [*COMPILED, "numpy"]

needs_compiled = pytest.mark.skipif(
    not COMPILED and not os.environ.get("TACIT_NO_SKIPS"), reason="tacit was installed without its compiled kernels"
)


@pytest.fixture(params=ALL)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TACIT_KERNEL", request.param)
    return str(request.param)


def pattern_of(counts: Sequence[int], columns: int, rng: np.random.Generator) -> Rows:
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    named = rng.integers(0, columns, starts[-1]).astype(np.int32)
    return Rows(starts, named, np.zeros(len(named), dtype=np.uint8))


def by_the_book(rows: Rows, dense: NDArray[np.float32]) -> NDArray[np.float64]:
    pattern = np.zeros((len(rows), len(dense)))
    np.add.at(pattern, (np.repeat(np.arange(len(rows)), rows.counts()), rows.columns), 1.0)
    return pattern @ dense.astype(np.float64)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6), counts=st.lists(st.integers(0, 30), max_size=20), columns=st.integers(1, 50),
    width=st.integers(0, 140),
)  # fmt: skip
def test_sums_are_those_of_a_dense_product(seed: int, counts: list[int], columns: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    rows = pattern_of(counts, columns, rng)
    dense = rng.integers(-100, 100, (columns, width)).astype(np.float32)  # whole numbers: sums are exact
    with pytest.MonkeyPatch.context() as patch:
        for name in ALL:
            patch.setenv("TACIT_KERNEL", name)
            found = row_sums(rows, dense, threads=1)
            assert found.dtype == np.float32
            assert (found == by_the_book(rows, dense)).all()


def test_a_long_row_keeps_its_accuracy(kernel: str) -> None:
    rng = np.random.default_rng(1)
    rows, dense = pattern_of([200_000, 3], 400, rng), rng.uniform(0, 1, (400, 9)).astype(np.float32)
    np.testing.assert_allclose(row_sums(rows, dense, threads=1), by_the_book(rows, dense), rtol=1e-5, err_msg=kernel)


@pytest.mark.parametrize("threads", [2, 3])
def test_the_number_of_threads_changes_nothing(kernel: str, threads: int) -> None:
    rng = np.random.default_rng(2)
    rows = pattern_of([900] * 60, 300, rng)
    dense = rng.standard_normal((300, 67)).astype(np.float32)
    assert (row_sums(rows, dense, 1) == row_sums(rows, dense, threads)).all(), kernel


@needs_compiled
def test_what_does_not_fit_is_refused() -> None:
    native = kernels._compiled()
    rows = pattern_of([2, 3], 4, np.random.default_rng(3))
    dense, out = np.ones((4, 5), dtype=np.float32), np.ones((2, 5), dtype=np.float32)
    good: dict[str, Any] = {"starts": rows.starts, "columns": rows.columns, "dense": dense, "out": out, "threads": 1}
    native.row_sums("baseline", **good)
    wrong: list[tuple[str, Any]] = [
        ("starts", rows.starts[:-1]), ("starts", rows.starts[:0]), ("columns", rows.columns[:-1]),
        ("dense", dense[:, :4].copy()), ("out", out[1:]), ("threads", 0),
    ]  # fmt: skip
    for name, value in wrong:
        with pytest.raises(ValueError, match=r".+"):
            native.row_sums("baseline", **good | {name: value})
    with pytest.raises(TypeError):
        native.row_sums("baseline", **good | {"out": out.astype(np.float64)})
