"""Memory that processes share, by the real cuda-bindings."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from pool.device import shared_memory
from pool.device.cuda_memory import CudaMemory
from pool.device.memory import is_out_of_memory
from pool.kernels.cuda.launcher import CudaLauncher
from tests.gpu.stub_driver.machine import Machine
from tests.gpu.stub_driver.second_process import DEVICE, second_process

NBYTES = (2 << 20) + 1
FIRST, SECOND = 0x5A, 0xA5


def test_a_second_process_reads_and_writes_what_this_one_has_made(machine: Machine) -> None:
    machine.use(0)
    shared, launcher = CudaMemory(), CudaLauncher(DEVICE)
    memory = shared.allocate(DEVICE, NBYTES)
    assert memory.nbytes == NBYTES
    machine.fill(launcher, memory.data_ptr(), FIRST)
    with second_process() as other:
        other.open(shared.export(memory), NBYTES)
        assert other.read() == bytes([FIRST]) * 16
        other.fill(SECOND)
    assert machine.read(memory.data_ptr()) == bytes([SECOND]) * 16


def test_this_process_reads_and_writes_what_another_one_has_made(machine: Machine) -> None:
    """And closes the descriptor."""
    machine.use(0)
    with second_process() as other:
        fd = other.make(NBYTES)
        other.fill(FIRST)
        memory = CudaMemory().open(DEVICE, fd, NBYTES)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
        assert machine.read(memory.data_ptr()) == bytes([FIRST]) * 16
        machine.fill(CudaLauncher(DEVICE), memory.data_ptr(), SECOND)
        assert other.read() == bytes([SECOND]) * 16


@pytest.mark.usefixtures("machine")
def test_a_driver_whose_version_no_file_says_is_known_by_its_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in WSL2."""
    monkeypatch.setattr(shared_memory, "read_driver_version", lambda: "")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(name="A100"))
    shared = shared_memory.get_shared_memory("cuda")
    assert shared is not None
    assert str(shared.setup(DEVICE)) == "A100, driver of CUDA 13.0"


@pytest.mark.usefixtures("machine")
def test_a_thread_in_which_nothing_of_torch_has_run_shares_memory() -> None:
    """As one that answers a worker."""

    def share() -> int:
        shared = CudaMemory()
        fd = shared.export(shared.allocate(DEVICE, 1))
        return shared.open(DEVICE, fd, 1).nbytes

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(share).result() == 1


def test_too_little_memory_is_known_and_less_can_be_had(machine: Machine) -> None:
    machine.use(0)
    shared = CudaMemory()
    with pytest.raises(RuntimeError) as error:
        shared.allocate(DEVICE, 65 << 20)
    assert str(error.value) == "CUDA error: out of memory (cuMemCreate)"
    assert is_out_of_memory(error.value)
    assert shared.allocate(DEVICE, 64 << 20).nbytes == 64 << 20


def test_no_other_device_has_access(machine: Machine) -> None:
    """So copies between devices go by memory of torch's (`DeviceStore.fetch`, `send`)."""
    machine.use(0)
    memory = CudaMemory().allocate(DEVICE, 16)
    machine.use(1)
    with pytest.raises(RuntimeError, match="INVALID_VALUE"):
        machine.read(memory.data_ptr())
    machine.fill(CudaLauncher(torch.device("cuda:1")), memory.data_ptr(), 1)
    with pytest.raises(RuntimeError, match="ILLEGAL_ADDRESS"):
        machine.driver.call("cuCtxSynchronize")


def test_what_is_no_memory_of_a_device_is_refused_and_its_descriptor_closed(machine: Machine) -> None:
    machine.use(0)
    fd = os.open("/dev/null", os.O_RDONLY)
    with pytest.raises(RuntimeError, match=r"INVALID_VALUE \(cuMemImportFromShareableHandle\)"):
        CudaMemory().open(DEVICE, fd, 16)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
