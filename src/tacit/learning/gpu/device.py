"""The device that computes: which one, how much of its memory, and how precisely."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from tacit.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

_CUDA = "cuda"


def chosen_device() -> torch.device:
    """Return the device that `TACIT_GPU_DEVICE` names, or refuse one that is not there."""
    name = os.environ.get("TACIT_GPU_DEVICE", "") or _CUDA
    if not re.fullmatch(r"cpu|cuda(:[0-9]{1,3})?", name):
        raise EngineError(f"TACIT_GPU_DEVICE is {name[:40]!r}; set it to cuda, cuda:1 and so on, or cpu")
    device = torch.device(name)
    there = torch.cuda.device_count() if device.type == _CUDA else 1
    if there == 0:
        msg = "PyTorch finds no CUDA device here; use the local engine, or set TACIT_GPU_DEVICE=cpu for a trial"
        raise EngineError(msg)
    if device.type == _CUDA and (device.index or 0) >= there:
        raise EngineError(f"TACIT_GPU_DEVICE is {name!r}, but there are {there} devices; set it to cuda:{there - 1}")
    return device


def memory_limit(device: torch.device) -> int:
    """Return how many bytes may be used: `TACIT_GPU_MEMORY`, or all that is free."""
    asked = os.environ.get("TACIT_GPU_MEMORY", "")
    if not asked:
        return _free_memory(device)
    if not re.fullmatch(r"[1-9][0-9]{0,14}", asked):
        raise EngineError(f"TACIT_GPU_MEMORY is {asked[:40]!r}; set it to a number of bytes, as 8000000000")
    return min(int(asked), _free_memory(device))


def device_name(device: torch.device) -> str:
    """Say in words what computes."""
    return torch.cuda.get_device_name(device) if device.type == _CUDA else "the processor, with PyTorch"


def _free_memory(device: torch.device) -> int:
    if device.type == _CUDA:
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # kept by PyTorch, for us
        return int(torch.cuda.mem_get_info(device)[0] + unused)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def computing(device: torch.device) -> Iterator[None]:
    """Compute on a device, products in single precision whatever shorter numbers the program around has allowed.

    If memory runs out all the same, somebody else has taken it since the plan was made.
    """
    try:
        with torch.no_grad(), torch.cuda.device(device) if device.type == _CUDA else nullcontext(), _full_products():
            yield
    except torch.OutOfMemoryError as error:
        msg = "the device ran out of memory that was free before; end what else runs there, or lower TACIT_GPU_MEMORY"
        raise EngineError(msg) from error


@contextmanager
def _full_products() -> Iterator[None]:
    """Multiply matrices in single precision; PyTorch has two ways to say so, and only the newer sees both."""
    kinds: list[Any] = [torch.backends.cuda.matmul, torch.backends.mkldnn]
    if not all(hasattr(kind, "fp32_precision") for kind in kinds):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
        return
    matmuls = [kinds[0], kinds[1].matmul]
    allowed = [each.fp32_precision for each in matmuls]
    try:
        for each in matmuls:
            each.fp32_precision = "ieee"
        yield
    finally:
        for each, precision in zip(matmuls, allowed, strict=True):
            each.fp32_precision = precision


_SQUARED_AT_ONCE = 1 << 22


def squares(rows: Tensor) -> Tensor:
    """Sum up squares in doubles, of so many numbers at a time: PyTorch would make a copy of all of them."""
    at_once = max(1, _SQUARED_AT_ONCE // max(1, rows.shape[1]))
    found = torch.zeros((), dtype=torch.float64, device=rows.device)
    for part in rows.split(at_once):
        found += torch.linalg.vector_norm(part, dtype=torch.float64).square()
    return found
