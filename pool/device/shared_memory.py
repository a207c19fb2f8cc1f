"""Memory of a device that two processes use: one makes and exports it, the other maps it, by a descriptor.

Whoever maps it may write all of it: who owns which part is agreed upon (I4), not enforced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from pool.device.cuda_memory import CudaMemory
from pool.device.installation import driver_version, mps_serves
from pool.device.proof import Setup


@dataclass(frozen=True)
class Exported:
    """A piece of memory for another process. Who receives `fd` owns it."""

    fd: int
    offset: int  # bytes from the beginning of what the descriptor stands for
    nbytes: int


class SharedMemory(Protocol):
    """Shares memory of one kind of device."""

    def setup(self, device: torch.device) -> Setup:
        """The software and cards that it has to be seen to work with."""

    def allocate(self, device: torch.device, nbytes: int) -> Tensor:
        """uint8 [nbytes] that can be exported, never freed. Raises what the device says if there is too little."""

    def export(self, memory: Tensor) -> Exported:
        """Exports what `allocate` gave, whole."""

    def open(self, device: torch.device, exported: Exported) -> Tensor:
        """uint8 [nbytes]: another process's memory, in this one. Closes the descriptor."""


class _OfCuda:
    """A SharedMemory."""

    def __init__(self) -> None:
        """Raises ImportError without cuda-bindings."""
        self._memory = CudaMemory()

    def setup(self, device: torch.device) -> Setup:
        driver = driver_version() or f"of CUDA {self._memory.cuda_version()}"  # WSL2 has no files that say it
        return Setup(torch.cuda.get_device_properties(device).name, driver, mps_serves())

    def allocate(self, device: torch.device, nbytes: int) -> Tensor:
        return self._memory.allocate(device, nbytes)

    def export(self, memory: Tensor) -> Exported:
        return Exported(self._memory.export(memory), 0, memory.nbytes)

    def open(self, device: torch.device, exported: Exported) -> Tensor:
        return self._memory.open(device, exported.fd, exported.nbytes)


makers: dict[str, Callable[[], SharedMemory]] = {"cuda": _OfCuda}  # by kind of device


@cache
def shared_memory_of(kind: str) -> SharedMemory | None:
    """None if memory of such devices can't be shared."""
    try:
        return makers[kind]() if kind in makers else None
    except ImportError:
        return None
