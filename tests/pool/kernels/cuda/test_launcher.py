"""What the driver is told, by a driver that writes it down; and what happens without one."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import struct
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
import torch

from pool.device.precision import choose_computing
from pool.errors import RunError
from pool.kernels import backend
from pool.kernels.backend import backend_of
from pool.kernels.cuda import launcher
from pool.kernels.cuda.compiler import CompileError, Compiler, Kernel, Source, kept_in
from pool.kernels.cuda.launcher import ArgumentMemory, CudaLauncher, Extent, Pointer, UInt32, structure
from pool.kernels.sparse import forward
from pool.protocol.identity import WORKER, Peer
from pool.protocol.messages import Assignment
from pool.worker.worker import Worker
from tests.pool.kernels.sparse_inputs import random_input

SOURCE = Source.of("column_sums.cu", BFLOAT16=0, WIDTH=4)


class Driver(ModuleType):
    CUresult = SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_OUT_OF_MEMORY=2)

    def __init__(self) -> None:
        super().__init__("cuda.bindings.driver")
        self.loaded: list[bytes] = []
        self.launched: list[tuple[Any, ...]] = []
        self.status: Any = 0
        self.refused = 0  # programs, from now on
        self.contexts = {threading.get_ident(): 1}  # that are current, by thread

    def cuModuleLoadData(self, image: bytes) -> tuple[Any, ...]:  # noqa: N802
        self.loaded.append(image)
        self.refused -= 1
        return (SimpleNamespace(name="CUDA_ERROR_INVALID_IMAGE"),) if self.refused >= 0 else (0, "module")

    def cuModuleGetFunction(self, module: str, name: bytes) -> tuple[Any, ...]:  # noqa: N802
        return 0, f"{module}.{name.decode()}"

    def cuCtxGetCurrent(self) -> tuple[Any, ...]:  # noqa: N802
        return 0, self.contexts.get(threading.get_ident(), 0)

    def cuDeviceGet(self, index: int) -> tuple[Any, ...]:  # noqa: N802
        return 0, 10 + index

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, ...]:  # noqa: N802
        return 0, 10 * device

    def cuCtxSetCurrent(self, context: Any) -> tuple[Any, ...]:  # noqa: N802
        self.contexts[threading.get_ident()] = context
        return (0,)

    def cuLaunchKernel(self, function: str, *rest: Any) -> tuple[Any, ...]:  # noqa: N802
        assert self.contexts.get(threading.get_ident()), "no context is current"
        *grid, pointers, _extra = rest
        values = (ctypes.c_void_p * 4).from_address(pointers)
        kinds: tuple[Any, ...] = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32)
        read = [kind.from_address(value or 0).value for kind, value in zip(kinds, values, strict=True)]
        self.launched.append((function, *grid, read))
        return (self.status,)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", made)
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", ModuleType("cuda.bindings.nvrtc"))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.cuda, "device", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 77, raising=False)
    monkeypatch.setattr(Compiler, "__init__", lambda *_: None)
    monkeypatch.setattr(Compiler, "_version", "13.0", raising=False)
    monkeypatch.setattr(Compiler, "is_kept", lambda *_: False)
    monkeypatch.setattr(Compiler, "program", lambda _, source: f"program of {source}".encode())
    return made


@pytest.fixture
def forgets() -> Iterator[None]:
    """Which devices have kernels is found out anew."""
    launcher.launcher.cache_clear()
    yield
    launcher.makers.pop("cpu", None)
    launcher.launcher.cache_clear()


def test_a_launch_names_grid_stream_and_arguments(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    made = CudaLauncher(torch.device("cuda:1"))
    tensor = torch.zeros(8)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            made.launch(SOURCE, "column_sums", Extent(items=300, groups=200), [tensor, None, 5, 6])
    assert driver.loaded == [b"program of column_sums.cu BFLOAT16=0 WIDTH=4"]
    read = [tensor.data_ptr(), 0, 5, 6]
    assert driver.launched == [("module.column_sums", 300, 2, 1, 128, 1, 1, 0, 77, read)] * 2
    (line,) = caplog.messages
    assert line.startswith("cuda:1: compiled column_sums.cu BFLOAT16=0 WIDTH=4 in ")


@pytest.fixture
def mixed(tmp_path: Path) -> Kernel:
    file = tmp_path / "mixed.cu"
    file.write_text(
        """KERNEL(64, 8)
        mixed(const float* __restrict__ in, uint32 count, const Pair pair, float factor,
              uint64 size, SCORE* out) {}"""
    )
    return Source.of(file).kernels["mixed"]


def test_arguments_lie_as_the_source_declares_them(mixed: Kernel) -> None:
    assert mixed == Kernel(64, ("P", "I", "s", "f", "Q", "P"))
    tensor, memory = torch.zeros(8), ArgumentMemory(mixed.parameters)
    for _ in range(2):  # the second time in the same memory
        memory.put([tensor, 7, structure(at=(Pointer, [None, tensor]), n=(UInt32, [9])), 0.5, 1 << 40, None])
    assert memory.sizes == [8, 4, 24, 4, 8, 8]
    pointers = (ctypes.c_void_p * 6).from_address(memory.address)
    read = [ctypes.string_at(at or 0, size) for at, size in zip(pointers, memory.sizes, strict=True)]
    address = tensor.data_ptr()
    assert [struct.unpack(code, each) for code, each in zip(("P", "I", "2PI0Q", "f", "Q", "P"), read, strict=True)] == [
        (address,), (7,), (0, address, 9), (0.5,), (1 << 40,), (0,),
    ]  # fmt: skip


@pytest.mark.parametrize("wrong", [
    [None, 0.5, b"12345678", 0.5, 1, None],
    [None, -1, b"12345678", 0.5, 1, None],
    [None, 1, b"12345678", 0.5, 1 << 64, None],
    [None, 1, 5, 0.5, 1, None],
])  # fmt: skip
def test_what_a_kernel_does_not_take_is_refused(mixed: Kernel, wrong: list[Any]) -> None:
    with pytest.raises(struct.error):
        ArgumentMemory(mixed.parameters).put(wrong)


def test_arguments_that_are_too_many_or_no_rows_one_after_the_other_are_refused(mixed: Kernel) -> None:
    with pytest.raises(ValueError, match="argument 2 is longer"):
        ArgumentMemory(mixed.parameters[:1]).put([None, 1])
    with pytest.raises(AssertionError):
        ArgumentMemory(mixed.parameters[:1]).put([torch.zeros(2, 2).t()])


def test_each_thread_has_memory_of_its_own(mixed: Kernel) -> None:
    """While one launches, another may write the arguments of its own launch."""
    memory = ArgumentMemory(mixed.parameters)
    arguments: list[Any] = [None, 1, b"12345678", 0.5, 1, None]

    def address() -> int:
        memory.put(arguments)
        return memory.address

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(address).result() != address()


def test_the_same_source_is_the_same_object() -> None:
    assert Source.of("column_sums.cu", WIDTH=4, BFLOAT16=0) is SOURCE
    assert Source.of("column_sums.cu", WIDTH=1, BFLOAT16=0) is not SOURCE


def test_a_thread_without_a_context_gets_the_devices_own(driver: Driver) -> None:
    """As autograd's, in which nothing of torch has run before a kernel of ours."""
    made = CudaLauncher(torch.device("cuda:1"))

    def launch() -> object:
        made.launch(SOURCE, "column_sums", Extent(1, 1), [None, None, 5, 6])
        return driver.contexts[threading.get_ident()]

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(launch).result() == 110
    assert launch() == 1
    assert len(driver.launched) == 2


def test_nothing_to_do_is_not_launched(driver: Driver) -> None:
    CudaLauncher(torch.device("cuda:1")).launch(SOURCE, "column_sums", Extent(0, 200), [])
    assert not driver.launched


def test_an_error_of_the_driver_is_named(driver: Driver) -> None:
    made = CudaLauncher(torch.device("cuda:1"))
    driver.status = SimpleNamespace(name="CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(RuntimeError, match=r"CUDA error: CUDA_ERROR_ILLEGAL_ADDRESS \(cuLaunchKernel\)"):
        made.launch(SOURCE, "column_sums", Extent(1, 1), [None, None, 5, 6])


def test_a_kept_program_that_the_driver_refuses_is_compiled_anew(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[Source] = []
    monkeypatch.setattr(Compiler, "is_kept", lambda *_: True)
    monkeypatch.setattr(Compiler, "forget", lambda _, source: forgotten.append(source))
    driver.refused = 1
    made = CudaLauncher(torch.device("cuda:1"))
    made.launch(SOURCE, "column_sums", Extent(1, 1), [None, None, 5, 6])
    assert (forgotten, len(driver.loaded), len(driver.launched)) == ([SOURCE], 2, 1)


def test_a_program_that_the_driver_refuses_is_named_with_its_compiler(driver: Driver) -> None:
    driver.refused = 1
    said = r"^column_sums.cu BFLOAT16=0 WIDTH=4: the driver refuses what NVRTC 13.0 has compiled: .*INVALID_IMAGE"
    with pytest.raises(CompileError, match=said):
        CudaLauncher(torch.device("cuda:1")).launch(SOURCE, "column_sums", Extent(1, 1), [None, None, 5, 6])


def test_a_kernel_that_does_not_compile_ends_the_run_with_one_line() -> None:
    worker = SimpleNamespace(_start=SimpleNamespace(peer=Peer(WORKER, 1), device="cuda:1"))
    error = CompileError("fold.cu LEAVES=4 for sm_90: NVRTC 13.0: fold.cu(3): error: no")
    with pytest.raises(RunError) as raised:
        Worker._ended_by(cast("Worker", worker), error, cast("Assignment", None))
    (line,) = str(raised.value).splitlines()
    assert line.startswith("worker 1 (cuda:1): a kernel can't be compiled: CompileError: fold.cu LEAVES=4 for sm_90: ")
    assert "; pool.own_kernels = false computes with torch's own operations; all that was said is in " in line


@pytest.mark.parametrize(("items", "groups", "blocks", "threads"), [
    (10, 1, (1, 1), (1, 128)),
    (1000, 2, (16, 1), (2, 64)),
    (1000, 100, (1000, 1), (128, 1)),
    (7, 256, (7, 2), (128, 1)),
    (129, 3, (5, 1), (4, 32)),
])  # fmt: skip
def test_narrow_rows_share_a_block(items: int, groups: int, blocks: tuple[int, int], threads: tuple[int, int]) -> None:
    assert Extent(items, groups).blocks(128) == (blocks, threads)


@pytest.mark.usefixtures("forgets")
@pytest.mark.parametrize("error", [ImportError("No module named 'cuda'"), CompileError("libnvrtc.so.13 is not there")])
def test_without_a_compiler_torchs_operations_serve_and_one_line_says_so(
    error: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: torch.device) -> CudaLauncher:
        raise error

    monkeypatch.setattr(backend, "NATIVE", "none")
    launcher.makers["cpu"] = refuse
    sparse = random_input(9, 5)
    for _ in range(3):
        assert backend_of(torch.device("cpu")) == "torch"
        assert forward(torch.zeros(5, 4).bfloat16(), None, sparse).shape == (9, 4)
    (line,) = caplog.messages
    assert line == f"cpu computes with torch's own operations, which is slower: {error}"


@pytest.mark.usefixtures("forgets")
def test_kernels_can_be_forgone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what computes is part of what two devices have in common (I2)."""
    cpu = torch.device("cpu")
    monkeypatch.setattr(launcher, "makers", {"cpu": lambda _: SimpleNamespace(version="NVRTC 13.0")})
    assert launcher.computing_with(cpu) == "kernels compiled by NVRTC 13.0"
    choose_computing(own_kernels=False, dense_products="tf32")
    assert launcher.computing_with(cpu) == "torch's own operations"
    assert torch.backends.cuda.matmul.allow_tf32
    choose_computing(own_kernels=True, dense_products="float32")
    assert [torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32] == [False, False]


def test_programs_are_kept_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept_in() == tmp_path / "sparsepool/kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kept_in() == tmp_path / ".cache/sparsepool/kernels"
