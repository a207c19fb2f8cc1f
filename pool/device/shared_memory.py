"""Shares memory of a device between two processes: one allocates and exports it, the other maps it by a descriptor.

Whoever maps memory may write all of it. Which process owns which part is agreed upon (I4), not enforced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from pool.device.cuda_memory import CudaMemory
from pool.device.installation import is_mps_running, read_driver_version
from pool.device.proof import Setup


@dataclass(frozen=True)
class MemoryHandle:
    """A piece of device memory as it is sent to another process. The receiver owns `fd`."""

    fd: int
    offset: int  # where it begins, in bytes, in the memory that the descriptor stands for
    nbytes: int


class SharedMemory(Protocol):
    """Shares memory of one kind of device between processes."""

    def setup(self, device: torch.device) -> Setup:
        """Returns the card and software for which sharing has to be seen to work."""

    def allocate(self, device: torch.device, nbytes: int) -> Tensor:
        """Returns new device memory, uint8 [nbytes], which can be exported and is never freed. Raises the device's
        error if there is too little."""

    def export(self, memory: Tensor) -> MemoryHandle:
        """Exports memory that `allocate` has returned, all of it."""

    def open(self, device: torch.device, exported: MemoryHandle) -> Tensor:
        """Maps another process's memory in this process. Returns uint8 [nbytes]. Closes the descriptor."""


class _OfCuda:
    """Implements `SharedMemory` for CUDA devices."""

    def __init__(self) -> None:
        """Loads the driver's bindings. Raises ImportError without cuda-bindings."""
        self._memory = CudaMemory()

    def setup(self, device: torch.device) -> Setup:
        driver = read_driver_version() or f"of CUDA {self._memory.read_cuda_version()}"  # WSL2 has no files that say it
        return Setup(torch.cuda.get_device_properties(device).name, driver, is_mps_running())

    def allocate(self, device: torch.device, nbytes: int) -> Tensor:
        return self._memory.allocate(device, nbytes)

    def export(self, memory: Tensor) -> MemoryHandle:
        return MemoryHandle(self._memory.export(memory), 0, memory.nbytes)

    def open(self, device: torch.device, exported: MemoryHandle) -> Tensor:
        return self._memory.open(device, exported.fd, exported.nbytes)


factories: dict[str, Callable[[], SharedMemory]] = {"cuda": _OfCuda}  # by kind of device


@cache
def get_shared_memory(kind: str) -> SharedMemory | None:
    """Returns what shares memory of this kind of device, or None if it can't be shared."""
    try:
        return factories[kind]() if kind in factories else None
    except ImportError:
        return None
