"""The trial of the fused kernels before a fit is given to them, in Triton's interpreter unless there is a GPU."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any

import pytest

if None in map(importlib.util.find_spec, ("torch", "triton")) and not os.environ.get("TACIT_NO_SKIPS"):
    pytest.skip("PyTorch and Triton are not both installed; install tacit[engines]", allow_module_level=True)

import torch

from tacit.errors import EngineError
from tacit.learning.gpu import plain, trial
from tacit.learning.gpu.device import computing
from tacit.learning.gpu.trial import Kind, half_sweep_for, try_out

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

DEVICE = torch.device(os.environ.get("TACIT_GPU_DEVICE", "cpu"))  # tests are for the processor unless it says else
GPU = torch.device("cuda")
KIND = Kind(10, (True,) * 10, torch.uint8, components=4)

shortened = pytest.mark.filterwarnings("ignore:(overflow|divide|invalid):RuntimeWarning")  # of rows that are singular


@pytest.fixture(scope="module")
def fused() -> ModuleType:
    if DEVICE.type == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are imported
    return importlib.import_module("tacit.learning.gpu.fused")


@pytest.fixture(autouse=True)
def _chosen_anew() -> Iterator[None]:
    half_sweep_for.cache_clear()
    yield
    half_sweep_for.cache_clear()


@shortened
@pytest.mark.parametrize(
    ("coordinates", "pulled"),
    [
        (1, (False,)),
        (2, (True,)),
        (10, (True,) * 10),
        (22, (False,) * 21),
        (22, (True,) * 20 + (False,)),
        (70, (True,) * 70),
    ],
)
def test_all_kernels_of_a_fit_are_tried(
    fused: ModuleType, monkeypatch: pytest.MonkeyPatch, coordinates: int, pulled: tuple[bool, ...]
) -> None:
    tried: set[tuple[str, int, bool]] = set()
    solve_systems = fused._Pass._solve_systems

    def spied(self: Any, run: slice, *asked: Any, few: bool) -> None:
        _, tasks, equations, precision = asked
        before = self.irregular.clone()
        solve_systems(self, run, *asked, few=few)
        rows = tasks.solved[run].long()
        if not precision.again or bool((before[rows] != 0).any()):
            tried.add((str(precision.kind), equations.rights.shape[1], few))

    monkeypatch.setattr(fused._Pass, "_solve_systems", spied)
    values = {1: torch.float32, 10: torch.int32}.get(coordinates, torch.uint8)
    try_out(fused.half_sweep, DEVICE, Kind(coordinates, pulled, values, components=3))
    width = max(16, 1 << (coordinates - 1).bit_length())
    sizes = {size for size in (16, 32, 64, 128) if size // 2 < len(pulled) - 1 or (size == 16 and len(pulled) > 1)}
    everywhere, nowhere = all(pulled), not any(pulled)
    expected = {("torch.float32", width, False), ("torch.float64", width, False)}
    if everywhere:
        expected |= {("torch.float32", size, True) for size in sizes}
    if everywhere or nowhere:
        expected |= {("torch.float64", size, True) for size in sizes}
    if len(pulled) == 1:
        expected = {("torch.float32", width, False)}  # one unknown is never badly determined
    assert tried == expected


@shortened
@pytest.mark.parametrize("values", [torch.uint8, torch.int32, torch.float32], ids=str)
@pytest.mark.parametrize("coordinates", [2, 3, 4, 9, 11, 19])
def test_kernels_that_are_right_are_found_to_be(fused: ModuleType, coordinates: int, values: torch.dtype) -> None:
    try_out(fused.half_sweep, DEVICE, Kind(coordinates, (True,) * coordinates, values, components=4))


def test_kernels_that_compute_something_else_are_found_out() -> None:
    def wrong(rows: Any, fixed: Any, solved: Any, sweep: Any) -> Any:
        sums, irregular = plain.half_sweep(rows, fixed, solved, sweep)
        solved[3, 0] *= 2
        return sums, irregular

    def miscounting(rows: Any, fixed: Any, solved: Any, sweep: Any) -> Any:
        sums, irregular = plain.half_sweep(rows, fixed, solved, sweep)
        return 1.1 * sums, irregular

    try_out(plain.half_sweep, DEVICE, KIND)
    for half_sweep in (wrong, miscounting):
        with pytest.raises(RuntimeError, match="what its kernels compute is wrong"):
            try_out(half_sweep, DEVICE, KIND)


@pytest.mark.usefixtures("fused")
def test_plain_pytorch_takes_over_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("at 57:17:\n    tl.dot(left, right)\nUnsupported lhs dtype fp64\n")

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(trial, "try_out", fail)
    with pytest.warns(UserWarning, match=r"Triton is of no use here \(Unsupported lhs dtype fp64\); plain PyTorch"):
        assert half_sweep_for(GPU, KIND) is plain.half_sweep
    half_sweep_for.cache_clear()
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    with pytest.warns(UserWarning, match=r"compute capability 8\.0 or later, and this has 7\.5\); plain PyTorch"):
        assert half_sweep_for(GPU, KIND) is plain.half_sweep


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError(), RuntimeError("Triton Error [CUDA]: out of memory")], ids=str
)
def test_memory_that_is_taken_just_now_is_no_reason_to_be_slow_for_ever(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        with computing(DEVICE):
            raise error

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(trial, "try_out", fail)
    with pytest.raises(EngineError, match="ran out of memory"):
        half_sweep_for(GPU, KIND)
    monkeypatch.setattr(trial, "try_out", lambda *_: None)
    assert half_sweep_for(GPU, KIND) is not plain.half_sweep


def test_fused_kernels_are_taken_where_nothing_is_wrong(fused: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(trial, "try_out", lambda *asked: tried.append(asked))
    assert half_sweep_for(GPU, KIND) is fused.half_sweep
    assert half_sweep_for(GPU, KIND) is fused.half_sweep
    assert tried == [(fused.half_sweep, GPU, KIND)]
    assert half_sweep_for(torch.device("cpu"), KIND) is plain.half_sweep
