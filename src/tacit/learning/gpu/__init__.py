"""The GPU engine: reports and factors on one device, the sweeps over them in PyTorch and Triton.

`TACIT_GPU_DEVICE` names the device, `cuda` by default; `cpu` computes the same with PyTorch on the processor, for tests
and trials. `TACIT_GPU_MEMORY` is how many bytes of the device's memory may be used, by default what is free.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from tacit.errors import EngineError

if TYPE_CHECKING:
    import torch

    from tacit.learning.gpu.engine import GpuEngine
    from tacit.learning.matrix import ReportMatrix

_SHOWN = 200


def gpu_found() -> tuple[bool, str]:
    """Say whether there is a GPU that can be used, and which one, or why not; refuse a device that cannot be."""
    if importlib.util.find_spec("torch") is None:
        return False, "PyTorch is not installed"
    try:
        from tacit.learning.gpu.device import (  # noqa: PLC0415 - PyTorch is heavy
            chosen_device,
            device_count,
            device_name,
            named_device,
            refuse_idle,
        )
    except (ImportError, OSError) as error:
        return False, _broken(error)
    if named_device().type == "cpu":
        return False, "TACIT_GPU_DEVICE is cpu"
    if device_count() == 0:
        return False, "there is no GPU that PyTorch can use"
    device = chosen_device()
    try:
        refuse_idle(device)
    except EngineError as error:
        return False, str(error)
    return True, f"there is {device_name(device)}"


def gpu_engine(matrix: ReportMatrix) -> GpuEngine:
    """Return the engine for a report matrix on the chosen device, or say why there is none."""
    device, limit = _device_and_limit()
    from tacit.learning.gpu.engine import GpuEngine  # noqa: PLC0415 - PyTorch is heavy
    from tacit.learning.gpu.trial import half_sweep_for  # noqa: PLC0415 - as above

    return GpuEngine(matrix, device, limit, half_sweep_for)


def check_gpu() -> None:
    """Refuse what an engine would refuse, before any reports are read for it."""
    _device_and_limit()


def _device_and_limit() -> tuple[torch.device, int]:
    if importlib.util.find_spec("torch") is None:
        raise EngineError("the gpu engine needs PyTorch, which is not installed; install tacit[gpu]")
    try:
        from tacit.learning.gpu.device import chosen_device, memory_limit, refuse_idle  # noqa: PLC0415 - PyTorch is heavy
    except (ImportError, OSError) as error:
        raise EngineError(f"{_broken(error)}; install tacit[gpu] again") from error
    device = chosen_device()
    refuse_idle(device)
    return device, memory_limit(device)


def _broken(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"PyTorch is installed and cannot be loaded ({lines[0][:_SHOWN]})"
