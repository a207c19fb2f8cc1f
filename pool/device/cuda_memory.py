"""Memory of a CUDA device that another process can map, by the driver's virtual memory management: a physical
allocation that is exported as a POSIX descriptor. Not tried on hardware."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class _Mapped:
    """The object from which torch makes a tensor of memory that lies there."""

    address: int
    nbytes: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False), "strides": None, "version": 3}


class CudaMemory:
    """In a process that has opened the device. RuntimeError for whatever the driver refuses."""

    def __init__(self) -> None:
        """Raises ImportError without cuda-bindings."""
        self._driver: Any = importlib.import_module("cuda.bindings.driver")
        self._handles: dict[int, tuple[Any, int]] = {}  # and lengths, by address

    def allocate(self, device: torch.device, nbytes: int) -> Tensor:
        """uint8 [nbytes], never freed."""
        length = self._whole(device, nbytes)
        handle = self._call("cuMemCreate", length, self._properties(device), 0)
        memory = self._mapped(device, handle, length, nbytes)
        self._handles[memory.data_ptr()] = handle, length
        return memory

    def export(self, memory: Tensor) -> int:
        """A descriptor of what `allocate` gave, whole."""
        handle, _ = self._handles[memory.data_ptr()]
        return int(self._call("cuMemExportToShareableHandle", handle, self._descriptor, 0))

    def open(self, device: torch.device, fd: int, nbytes: int) -> Tensor:
        """uint8 [nbytes]: what another process has exported. Closes the descriptor."""
        handle = self._call("cuMemImportFromShareableHandle", fd, self._descriptor)
        os.close(fd)
        return self._mapped(device, handle, self._whole(device, nbytes), nbytes)

    def _mapped(self, device: torch.device, handle: Any, length: int, nbytes: int) -> Tensor:
        address = self._call("cuMemAddressReserve", length, 0, 0, 0)
        self._call("cuMemMap", address, length, 0, handle, 0)
        access = self._driver.CUmemAccessDesc()
        access.location = self._properties(device).location
        access.flags = self._driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self._call("cuMemSetAccess", address, length, [access], 1)
        return torch.as_tensor(_Mapped(int(address), nbytes), device=device)

    def _whole(self, device: torch.device, nbytes: int) -> int:
        flag = self._driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        unit = int(self._call("cuMemGetAllocationGranularity", self._properties(device), flag))
        return -(-nbytes // unit) * unit

    def _properties(self, device: torch.device) -> Any:
        properties = self._driver.CUmemAllocationProp()
        properties.type = self._driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.requestedHandleTypes = self._descriptor
        properties.location.type = self._driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = device.index
        return properties

    @property
    def _descriptor(self) -> Any:
        return self._driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

    def _call(self, function: str, *arguments: Any) -> Any:
        status, *values = getattr(self._driver, function)(*arguments)
        if status == self._driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise RuntimeError(f"CUDA error: out of memory ({function})")
        if status != self._driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"CUDA error: {status.name} ({function})")
        return values[0] if values else None
