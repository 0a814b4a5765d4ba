"""The GPU engine: reports and factors on one device, the sweeps over them in PyTorch and Triton.

`TACIT_GPU_DEVICE` names the device, `cuda` by default; `cpu` computes the same with PyTorch on the processor, for tests
and trials. `TACIT_GPU_MEMORY` is how many bytes of the device's memory may be used, by default what is free.
"""

from __future__ import annotations

import importlib.util
import warnings
from typing import TYPE_CHECKING

from tacit.errors import EngineError

if TYPE_CHECKING:
    import torch

    from tacit.learning.gpu.engine import GpuEngine
    from tacit.learning.gpu.sweep import HalfSweep
    from tacit.learning.matrix import ReportMatrix


def gpu_found() -> str | None:
    """Name the GPU that would be used, None if there is none or PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    from tacit.learning.gpu.device import chosen_device, device_name  # noqa: PLC0415 - PyTorch is heavy

    try:
        device = chosen_device()
    except EngineError:
        return None
    return device_name(device) if device.type == "cuda" else None


def gpu_engine(matrix: ReportMatrix) -> GpuEngine:
    """Return the engine for a report matrix on the chosen device, or say why there is none."""
    try:
        from tacit.learning.gpu.device import chosen_device, memory_limit  # noqa: PLC0415 - PyTorch is heavy, and
        from tacit.learning.gpu.engine import GpuEngine  # noqa: PLC0415 - not everybody has it
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise EngineError("the gpu engine needs PyTorch, which is not installed; install tacit[gpu]") from error
    device = chosen_device()
    return GpuEngine(matrix, device, memory_limit(device), half_sweep_for(device))


def half_sweep_for(device: torch.device) -> HalfSweep:
    """Return the fused kernels for a GPU where Triton can compile them, else plain PyTorch, with a word of why."""
    from tacit.learning.gpu import plain  # noqa: PLC0415 - PyTorch is heavy

    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return plain.half_sweep
    try:
        from tacit.learning.gpu import fused  # noqa: PLC0415 - Triton is heavy, and not everywhere

        fused.refuse_older(device)
        fused.try_out(device)
    except Exception as error:  # noqa: BLE001 - no C compiler, an old GPU, wrong results: the other way works
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        warnings.warn(f"Triton is of no use here ({reason}); plain PyTorch does the same, slower", stacklevel=2)
        return plain.half_sweep
    return fused.half_sweep
