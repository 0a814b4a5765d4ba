"""The device that computes: which one, how much of its memory, and how precisely."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from tacit.errors import EngineError
from tacit.learning.memory import available_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

_CUDA = "cuda"
_SHOWN = 200
# Memory for what is solved at once: on a GPU enough to keep all of it busy, on a processor little more than its caches.
_SCRATCH_ON_PROCESSOR = 1 << 25
_PINNED_SHARE = 0.5  # of the memory that is to be had: it cannot be swapped, and others need some
# What is said by PyTorch, by CUDA (through PyTorch, or through Triton) and by its libraries where memory is short.
_OUT_OF_MEMORY = re.compile(r"out of memory|not enough memory|_ALLOC_FAILED", re.IGNORECASE)
# What is said where a device, its driver or their libraries fail: by PyTorch, or by Triton.
_FAULT = re.compile(r"\bCUDA (driver )?error|CUBLAS_STATUS_|CUSOLVER_STATUS_")
_FAULT_OF_TRITON = re.compile(r"\bTriton Error \[CUDA\]")
_LEAST_SCRATCH, _MOST_SCRATCH, _SCRATCH_SHARE = 1 << 29, 1 << 31, 32


def named_device() -> torch.device:
    """Return the device that `TACIT_GPU_DEVICE` names, there or not."""
    name = os.environ.get("TACIT_GPU_DEVICE", "") or _CUDA
    if not re.fullmatch(r"cpu|cuda(:[0-9]{1,3})?", name):
        raise EngineError(f"TACIT_GPU_DEVICE is {name[:40]!r}; set it to cuda, cuda:1 and so on, or cpu")
    return torch.device(name)


def chosen_device() -> torch.device:
    """Return the device that `TACIT_GPU_DEVICE` names, or refuse one that is not there."""
    device = named_device()
    if device.type != _CUDA:
        return device
    if (there := device_count()) == 0:
        msg = "PyTorch finds no CUDA device here; use the local engine, or set TACIT_GPU_DEVICE=cpu for a trial"
        raise EngineError(msg)
    if (device.index or 0) >= there:
        named = f"TACIT_GPU_DEVICE is {str(device)!r}, but there are {there} devices"
        raise EngineError(f"{named}; set it to cuda:{there - 1}")
    return device


def refuse_idle(device: torch.device) -> None:
    """Refuse a device that is there and does not compute: its driver is too old, say, or PyTorch has no code for it."""
    try:
        torch.zeros(1, device=device).add_(1).item()
    except RuntimeError as error:
        msg = f"{device} is there, but PyTorch cannot compute on it ({_first_line(error)})"
        raise EngineError(f"{msg}; mend that, or use the local engine") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:_SHOWN]


def device_count() -> int:
    """Return how many CUDA devices PyTorch finds."""
    return int(torch.cuda.device_count())


def memory_limit(device: torch.device) -> int:
    """Return how many bytes may be used: `TACIT_GPU_MEMORY`, or all that is free."""
    asked = os.environ.get("TACIT_GPU_MEMORY", "")
    if not asked:
        return _free_memory(device)
    if not re.fullmatch(r"[1-9][0-9]{0,14}", asked):
        raise EngineError(f"TACIT_GPU_MEMORY is {asked[:40]!r}; set it to a number of bytes, as 8000000000")
    return min(int(asked), _free_memory(device))


def scratch_memory(device: torch.device) -> int:
    """Return how many bytes are best for what is solved at once: of what the device has, whoever else is using it.

    What is solved together is rounded together, so that this decides on a model's last bits.
    """
    if device.type != _CUDA:
        return _SCRATCH_ON_PROCESSOR
    share = int(torch.cuda.get_device_properties(device).total_memory) // _SCRATCH_SHARE
    return min(max(1 << share.bit_length() - 1, _LEAST_SCRATCH), _MOST_SCRATCH)


def pinnable_memory(device: torch.device) -> int | None:
    """Return how many bytes of this machine's memory may be kept for a device to read by itself, None if it is one."""
    return int(_PINNED_SHARE * available_memory()) if device.type == _CUDA else None


def device_name(device: torch.device) -> str:
    """Say in words what computes."""
    return torch.cuda.get_device_name(device) if device.type == _CUDA else "the processor, with PyTorch"


def _free_memory(device: torch.device) -> int:
    if device.type == _CUDA:
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # kept by PyTorch, for us
        return int(torch.cuda.mem_get_info(device)[0] + unused)
    return available_memory()


@contextmanager
def computing(device: torch.device, *, on_trial: bool = False) -> Iterator[None]:
    """Compute on a device, products in single precision whatever shorter numbers the program around has allowed.

    If memory runs out all the same, somebody else has taken it since the plan was made. What Triton makes of a device
    that fails is for a trial to hear: plain PyTorch may do without.
    """
    try:
        with torch.no_grad(), torch.cuda.device(device) if device.type == _CUDA else nullcontext(), _full_products():
            yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or _OUT_OF_MEMORY.search(str(error)):
            msg = (
                "the device ran out of memory that was free before; end what else runs there, or lower TACIT_GPU_MEMORY"
            )
            raise EngineError(msg) from error
        if _FAULT.search(str(error)) or (_FAULT_OF_TRITON.search(str(error)) and not on_trial):
            raise EngineError(
                f"{device} failed in the middle of a fit ({_first_line(error)}); fit again, with --checkpoint, or use "
                "the local engine"
            ) from error
        raise


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
