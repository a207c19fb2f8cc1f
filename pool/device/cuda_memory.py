"""Allocates memory of a CUDA device that another process can map.

It uses the driver's virtual memory management: a physical allocation is exported as a POSIX descriptor. Not tried on
hardware.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pool.device.installation import format_cuda_version
from pool.kernels.cuda.driver import Driver, PrimaryContext


@dataclass(frozen=True)
class _AddressRange:
    """An address range from which torch makes a tensor, uint8 [nbytes], without a copy."""

    address: int
    nbytes: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False), "strides": None, "version": 3}


class CudaMemory:
    """Allocates, exports and maps device memory, in a process that has opened the device. Raises RuntimeError for what
    the driver refuses."""

    def __init__(self) -> None:
        """Loads the driver's bindings. Raises ImportError without cuda-bindings."""
        self._driver = Driver()
        self._contexts: dict[int, PrimaryContext] = {}  # by device
        self._handles: dict[int, tuple[Any, torch.device]] = {}  # by address

    def read_cuda_version(self) -> str:
        """Returns the newest version of CUDA that the driver serves, such as 13.0."""
        return format_cuda_version(self._driver.call("cuDriverGetVersion"))

    def allocate(self, device: torch.device, nbytes: int) -> Tensor:
        """Returns new device memory, uint8 [nbytes], which is never freed. No other device has access to it."""
        self._bind_context(device)
        length = self._round_up(device, nbytes)
        handle = self._driver.call("cuMemCreate", length, self._properties(device), 0)
        memory = self._map(device, handle, length, nbytes)
        self._handles[memory.data_ptr()] = handle, device
        return memory

    def export(self, memory: Tensor) -> int:
        """Returns a descriptor of memory that `allocate` has returned, all of it."""
        handle, device = self._handles[memory.data_ptr()]
        self._bind_context(device)
        return int(self._driver.call("cuMemExportToShareableHandle", handle, self._descriptor, 0))

    def open(self, device: torch.device, fd: int, nbytes: int) -> Tensor:
        """Maps memory that another process has exported, uint8 [nbytes]. Closes the descriptor in any case."""
        try:
            self._bind_context(device)
            handle = self._driver.call("cuMemImportFromShareableHandle", fd, self._descriptor)
        finally:
            os.close(fd)
        return self._map(device, handle, self._round_up(device, nbytes), nbytes)

    def _bind_context(self, device: torch.device) -> None:
        if device.index not in self._contexts:
            self._contexts[device.index] = PrimaryContext(self._driver, device.index)
        self._contexts[device.index].bind()

    def _map(self, device: torch.device, handle: Any, length: int, nbytes: int) -> Tensor:
        """Maps a physical allocation of `length` bytes for this device. Returns its first `nbytes` bytes as a
        tensor."""
        address = self._driver.call("cuMemAddressReserve", length, 0, 0, 0)
        self._driver.call("cuMemMap", address, length, 0, handle, 0)
        access = self._driver.types.CUmemAccessDesc()
        access.location = self._properties(device).location
        access.flags = self._driver.types.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self._driver.call("cuMemSetAccess", address, length, [access], 1)
        return torch.as_tensor(_AddressRange(int(address), nbytes), device=device)

    def _round_up(self, device: torch.device, nbytes: int) -> int:
        """Rounds a size up to a multiple of the device's allocation granularity, in bytes."""
        flag = self._driver.types.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        unit = int(self._driver.call("cuMemGetAllocationGranularity", self._properties(device), flag))
        return -(-nbytes // unit) * unit

    def _properties(self, device: torch.device) -> Any:
        properties = self._driver.types.CUmemAllocationProp()
        properties.type = self._driver.types.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.requestedHandleTypes = self._descriptor
        properties.location.type = self._driver.types.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = device.index
        return properties

    @property
    def _descriptor(self) -> Any:
        return self._driver.types.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
