"""Launches by the real cuda-bindings; programs are compiled by the real NVRTC."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from pool.device.cuda_memory import CudaMemory
from pool.device.lost import is_device_lost
from pool.device.memory import is_out_of_memory
from pool.kernels.cuda.compiler import CompileError, Compiler, Source
from pool.kernels.cuda.driver import PrimaryContext
from pool.kernels.cuda.launcher import CudaLauncher, Extent
from tests.gpu.stub_driver.machine import FILL, Machine

DEVICE = torch.device("cuda:0")
OUT_OF_MEMORY, ILLEGAL_ADDRESS, UNCORRECTABLE = 2, 700, 214


@pytest.fixture
def launcher(machine: Machine) -> CudaLauncher:
    """Of a device that the main thread has used, which has loaded the kernel `fill`."""
    machine.use(0)
    made = CudaLauncher(DEVICE)
    machine.fill(made, CudaMemory().allocate(DEVICE, 16).data_ptr(), 0)
    return made


@pytest.fixture(params=[True, False], ids=["bound", "not bound"])
def bound(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """False: the launcher leaves a thread as it is, as it did before the first card was tried."""
    if not request.param:
        monkeypatch.setattr(PrimaryContext, "bind", lambda _: None)
    return bool(request.param)


def test_a_thread_in_which_nothing_of_torch_has_run_launches(machine: Machine, bound: bool) -> None:
    machine.use(0)
    memory = CudaMemory().allocate(DEVICE, 16)
    with ThreadPoolExecutor(1) as thread:
        launch = thread.submit(machine.fill, CudaLauncher(DEVICE), memory.data_ptr(), 7)
        error = launch.exception()
    if bound:
        assert error is None
        assert machine.read(memory.data_ptr()) == bytes([7]) * 16
    else:
        assert str(error) == "CUDA error: CUDA_ERROR_INVALID_CONTEXT (cuModuleLoadData)"


def test_the_first_operation_of_backward_is_a_launch_in_autograds_thread(
    machine: Machine, launcher: CudaLauncher, bound: bool
) -> None:
    memory = CudaMemory().allocate(DEVICE, 16).data_ptr()

    class Filled(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(_: Any, *slopes: Tensor) -> Tensor:
            machine.fill(launcher, memory, 9)
            return slopes[0]

    out = Filled.apply(torch.zeros(1, requires_grad=True)).sum()  # type: ignore[no-untyped-call]
    with ThreadPoolExecutor(1) as thread:
        error = thread.submit(out.backward).exception()
    if bound:
        assert error is None
        assert machine.read(memory) == bytes([9]) * 16
    else:
        assert str(error) == "CUDA error: CUDA_ERROR_INVALID_CONTEXT (cuLaunchKernel)"


def test_a_thread_launches_on_another_device_than_its_own(machine: Machine, launcher: CudaLauncher) -> None:
    other = torch.device("cuda:1")
    memory = CudaMemory().allocate(other, 16).data_ptr()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(machine.fill, CudaLauncher(other), memory, 3).result()
        thread.submit(machine.fill, launcher, CudaMemory().allocate(DEVICE, 16).data_ptr(), 4).result()
    machine.use(1)
    assert machine.read(memory) == bytes([3]) * 16


@pytest.mark.parametrize("function", ["cuLaunchKernel", "cuModuleLoadData"])
def test_out_of_memory_is_known_and_the_next_launch_works(machine: Machine, function: str) -> None:
    machine.use(0)
    memory, launcher = CudaMemory().allocate(DEVICE, 16).data_ptr(), CudaLauncher(DEVICE)
    machine.fail(function, OUT_OF_MEMORY)
    with pytest.raises(RuntimeError) as error:
        machine.fill(launcher, memory, 1)
    assert str(error.value) == f"CUDA error: out of memory ({function})"
    assert is_out_of_memory(error.value)
    machine.fill(launcher, memory, 1)
    assert machine.read(memory) == bytes([1]) * 16


def test_a_wrong_address_is_said_late_and_by_every_further_call(machine: Machine, launcher: CudaLauncher) -> None:
    """Loading a program says it, too, and is not blamed on the compiler."""
    machine.fill(launcher, 4096, 1)
    for call in (
        lambda: machine.fill(launcher, 4096, 1),
        lambda: CudaMemory().allocate(DEVICE, 16),
        lambda: CudaLauncher(DEVICE).launch(FILL, "fill", Extent(1, 1), [None, 0, 0]),
    ):
        with pytest.raises(RuntimeError, match=r"^CUDA error: CUDA_ERROR_ILLEGAL_ADDRESS ") as error:
            call()
        assert not is_device_lost(error.value)
        assert not is_out_of_memory(error.value)
    machine.use(1)
    CudaMemory().allocate(torch.device("cuda:1"), 16)


def test_a_lost_card_is_known_whatever_is_called(machine: Machine, launcher: CudaLauncher) -> None:
    machine.fail("cuLaunchKernel", UNCORRECTABLE, sticks=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="ECC_UNCORRECTABLE") as error:
            machine.fill(launcher, 4096, 1)
        assert is_device_lost(error.value)


@pytest.mark.parametrize("grid", [(1, 65_536, 1), (1, 1, 65_536), (2**31, 1, 1), (0, 1, 1)])
def test_the_driver_refuses_a_grid_that_no_device_has(machine: Machine, grid: tuple[int, ...]) -> None:
    machine.use(0)
    program = machine.driver.call("cuModuleLoadData", Compiler("sm_90", None).get_program(FILL))
    function = machine.driver.call("cuModuleGetFunction", program, b"fill")
    with pytest.raises(RuntimeError, match=r"CUDA_ERROR_INVALID_VALUE \(cuLaunchKernel\)"):
        machine.driver.call("cuLaunchKernel", function, *grid, 128, 1, 1, 0, 0, 0, 0)


def test_the_largest_grids_of_the_launcher_are_accepted(launcher: CudaLauncher) -> None:
    """What is beyond them the launcher refuses itself, with the numbers."""
    sums = Source.of("column_sums.cu", BFLOAT16=0, WIDTH=4)
    for extent in (Extent(2**31 - 1, 128), Extent(1, 65_535 * 128)):
        launcher.launch(sums, "column_sums", extent, [None, None, 0, 0])
    with pytest.raises(ValueError, match="1 items of 8388481 groups take 1 x 65536 blocks of 128 threads; a grid"):
        launcher.launch(sums, "column_sums", Extent(1, 65_535 * 128 + 1), [None, None, 0, 0])


def test_a_program_that_is_none_is_blamed_on_its_compiler(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.use(0)
    monkeypatch.setattr(Compiler, "get_program", lambda *_: b"rubbish" * 100)
    monkeypatch.setattr(Compiler, "is_cached", lambda *_: False)
    with pytest.raises(CompileError, match=r"the driver refuses what NVRTC .* has compiled: .*INVALID_IMAGE"):
        machine.fill(CudaLauncher(DEVICE), 4096, 1)
