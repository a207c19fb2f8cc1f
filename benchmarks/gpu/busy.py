"""Work of some seconds that changes the first bytes of a device's memory all the time."""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.atomic import HERE
from pool.kernels.cuda.compiler import Compiler, Source
from pool.kernels.cuda.launcher import packed_arguments

_CYCLES = 1 << 30
_KERNELS = 16
_ADDITIONS = 20_000


def keep_busy(memory: Tensor) -> None:
    """Queues it. Raises ImportError, CompileError, RuntimeError."""
    if memory.device.type == "cuda":
        _count_up(memory)
    else:
        for _ in range(_ADDITIONS):
            memory[:16].add_(1)


def _count_up(memory: Tensor) -> None:
    driver: Any = importlib.import_module("cuda.bindings.driver")
    architecture = "sm_{}{}".format(*torch.cuda.get_device_capability(memory.device))
    program = Compiler(architecture, None).compile(Source.of(HERE / "busy.cu"))
    stream = torch.cuda.current_stream(memory.device).cuda_stream
    packed = packed_arguments([memory, _CYCLES])
    function = _call(driver, "cuModuleGetFunction", _call(driver, "cuModuleLoadData", program), b"count_up")
    for _ in range(_KERNELS):
        _call(driver, "cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, ctypes.addressof(packed), 0)


def _call(driver: Any, function: str, *arguments: Any) -> Any:
    status, *values = getattr(driver, function)(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{function}: {status.name}")
    return values[0] if values else None
