"""The device that computes: which one, how much of its memory, and how precisely."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import torch

from tacit.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def computing(device: torch.device) -> Iterator[None]:
    """Compute on a device, products in single precision whatever shorter numbers the program around has allowed.

    If memory runs out all the same, somebody else has taken it since the plan was made.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad(), torch.cuda.device(device) if device.type == _CUDA else nullcontext():
            yield
    except torch.OutOfMemoryError as error:
        msg = "the device ran out of memory that was free before; end what else runs there, or lower TACIT_GPU_MEMORY"
        raise EngineError(msg) from error
    finally:
        torch.set_float32_matmul_precision(before)
