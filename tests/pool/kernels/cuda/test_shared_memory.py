"""What the driver is asked for, by one that writes it down; whether hardware does it nobody has seen."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from pool.device import shared_memory
from pool.device.cuda_memory import CudaMemory
from pool.device.installation import is_mps_running
from pool.device.memory import is_out_of_memory
from pool.device.proof import Setup
from pool.device.shared_memory import MemoryHandle

UNIT = 1 << 21
DEVICE = torch.device("cuda:1")
OUT_OF_MEMORY = SimpleNamespace(name="CUDA_ERROR_OUT_OF_MEMORY")


class Driver(ModuleType):
    """Allocations are numbered; address 1000 n is that of allocation n."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_OUT_OF_MEMORY=OUT_OF_MEMORY)
    CUmemAllocationProp = staticmethod(lambda: SimpleNamespace(location=SimpleNamespace()))
    CUmemAccessDesc = SimpleNamespace
    CUmemAllocationType = SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED="pinned")
    CUmemAllocationHandleType = SimpleNamespace(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR="descriptor")
    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE="device")
    CUmemAccess_flags = SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE="read and write")
    CUmemAllocationGranularity_flags = SimpleNamespace(CU_MEM_ALLOC_GRANULARITY_MINIMUM="minimum")

    def __init__(self) -> None:
        super().__init__("cuda.bindings.driver")
        self.mapped: list[tuple[Any, ...]] = []
        self.lengths: list[int] = []
        self.room = 8 * UNIT

    def cuDriverGetVersion(self) -> tuple[Any, ...]:  # noqa: N802
        return 0, 13000

    def cuCtxGetCurrent(self) -> tuple[Any, ...]:  # noqa: N802
        return 0, 1

    def cuMemGetAllocationGranularity(self, properties: Any, flag: str) -> tuple[Any, ...]:  # noqa: N802
        assert (properties.type, properties.requestedHandleTypes, flag) == ("pinned", "descriptor", "minimum")
        return 0, UNIT

    def cuMemCreate(self, length: int, properties: Any, flags: int) -> tuple[Any, ...]:  # noqa: N802
        assert (properties.location.type, properties.location.id, flags) == ("device", 1, 0)
        if length > self.room:
            return (OUT_OF_MEMORY, None)
        self.lengths.append(length)
        return 0, len(self.lengths)

    def cuMemAddressReserve(self, length: int, *zeros: int) -> tuple[Any, ...]:  # noqa: N802
        assert (length % UNIT, zeros) == (0, (0, 0, 0))
        return 0, 1000 * (1 + len(self.mapped))

    def cuMemMap(self, *arguments: Any) -> tuple[Any, ...]:  # noqa: N802
        self.mapped.append(arguments)
        return (0,)

    def cuMemSetAccess(self, address: int, length: int, access: list[Any], count: int) -> tuple[Any, ...]:  # noqa: N802
        assert (address, length, count) == (*self.mapped[-1][:2], 1)
        assert (access[0].flags, access[0].location.id) == ("read and write", 1)
        return (0,)

    def cuMemExportToShareableHandle(self, handle: int, kind: str, flags: int) -> tuple[Any, ...]:  # noqa: N802
        assert (handle, kind, flags) == (1, "descriptor", 0)
        return 0, os.open("/dev/null", os.O_RDONLY)

    def cuMemImportFromShareableHandle(self, fd: int, kind: str) -> tuple[Any, ...]:  # noqa: N802
        os.fstat(fd)
        assert kind == "descriptor"
        return 0, 77


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", made)
    monkeypatch.setattr(torch, "as_tensor", lambda mapped, device: _Tensor(mapped.__cuda_array_interface__, device))
    return made


class _Tensor(SimpleNamespace):
    def __init__(self, interface: Any, device: torch.device) -> None:
        super().__init__(interface=interface, device=device, nbytes=interface["shape"][0])

    def data_ptr(self) -> int:
        return int(self.interface["data"][0])


def test_memory_is_made_exported_and_mapped_by_another(driver: Driver) -> None:
    ours, theirs = CudaMemory(), CudaMemory()
    memory = ours.allocate(DEVICE, UNIT + 1)
    assert (memory.device, memory.nbytes, driver.lengths) == (DEVICE, UNIT + 1, [2 * UNIT])
    fd = ours.export(memory)
    opened = theirs.open(DEVICE, fd, memory.nbytes)
    assert driver.mapped == [(1000, 2 * UNIT, 0, 1, 0), (2000, 2 * UNIT, 0, 77, 0)]
    assert opened.data_ptr() == 2000
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_too_little_memory_is_known(driver: Driver) -> None:
    driver.room = 0
    with pytest.raises(RuntimeError, match="out of memory") as error:
        CudaMemory().allocate(DEVICE, 1)
    assert is_out_of_memory(error.value)


@pytest.mark.usefixtures("driver")
def test_it_serves_the_exchange_and_says_what_a_proof_of_it_holds_for(monkeypatch: pytest.MonkeyPatch) -> None:
    shared_memory.get_shared_memory.cache_clear()
    found = shared_memory.get_shared_memory("cuda")
    assert found is not None
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(name="A100"))
    for version, driver in (("580.1", "580.1"), ("", "of CUDA 13.0")):
        monkeypatch.setattr(shared_memory, "read_driver_version", lambda version=version: version)
        assert found.setup(DEVICE) == Setup("A100", driver, is_mps_running())
    exported = found.export(found.allocate(DEVICE, 5))
    assert exported == MemoryHandle(exported.fd, 0, 5)
    assert found.open(DEVICE, exported).nbytes == 5
    shared_memory.get_shared_memory.cache_clear()


def test_without_cuda_bindings_it_can_not_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    shared_memory.get_shared_memory.cache_clear()
    assert shared_memory.get_shared_memory("cuda") is None
    shared_memory.get_shared_memory.cache_clear()
