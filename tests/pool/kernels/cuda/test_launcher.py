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
from enum import IntEnum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pool._native import grid, pack_arguments, structure
from pool.device.precision import apply_arithmetic
from pool.errors import RunError
from pool.kernels import backend
from pool.kernels.backend import backend_of
from pool.kernels.cuda import launcher
from pool.kernels.cuda.compiler import CompileError, Compiler, Kernel, Source, kernel_cache_folder
from pool.kernels.cuda.launcher import CudaLauncher, Extent, Pointer, UInt32
from pool.kernels.sparse import forward
from pool.protocol.identity import WORKER, Peer
from pool.protocol.messages import Assignment
from pool.worker.worker import Worker
from tests.pool.kernels.sparse_inputs import random_input

SOURCE = Source.of("column_sums.cu", BFLOAT16=0, WIDTH=4)


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_INVALID_IMAGE = 200
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class Driver(ModuleType):
    CUresult = Status

    def __init__(self) -> None:
        super().__init__("cuda.bindings.driver")
        self.loaded: list[bytes] = []
        self.functions: list[str] = []  # by number from 1
        self.launched: list[tuple[Any, ...]] = []
        self.status = Status.CUDA_SUCCESS
        self.refused = 0  # programs, from now on
        self.contexts = {threading.get_ident(): 110}  # that are current, by thread
        self.entries: dict[bytes, Any] = {
            b"cuCtxGetCurrent": ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_uint64))(self._current),
            b"cuLaunchKernel": ctypes.CFUNCTYPE(
                ctypes.c_int, ctypes.c_uint64, *[ctypes.c_uint] * 7, *[ctypes.c_uint64] * 3
            )(self._launch),
        }

    def cuGetProcAddress(self, name: bytes, version: int, flags: int) -> tuple[Any, ...]:  # noqa: N802
        assert (version, flags) == (12_000, 0)
        return Status.CUDA_SUCCESS, ctypes.cast(self.entries[name], ctypes.c_void_p).value, 0

    def cuModuleLoadData(self, image: bytes) -> tuple[Any, ...]:  # noqa: N802
        self.loaded.append(image)
        self.refused -= 1
        return (Status.CUDA_ERROR_INVALID_IMAGE,) if self.refused >= 0 else (Status.CUDA_SUCCESS, "module")

    def cuModuleGetFunction(self, module: str, name: bytes) -> tuple[Any, ...]:  # noqa: N802
        self.functions.append(f"{module}.{name.decode()}")
        return Status.CUDA_SUCCESS, len(self.functions)

    def cuCtxGetCurrent(self) -> tuple[Any, ...]:  # noqa: N802
        return Status.CUDA_SUCCESS, self.contexts.get(threading.get_ident(), 0)

    def cuDeviceGet(self, index: int) -> tuple[Any, ...]:  # noqa: N802
        return Status.CUDA_SUCCESS, 10 + index

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, ...]:  # noqa: N802
        return Status.CUDA_SUCCESS, 10 * device

    def cuCtxSetCurrent(self, context: Any) -> tuple[Any, ...]:  # noqa: N802
        self.contexts[threading.get_ident()] = context
        return (Status.CUDA_SUCCESS,)

    def _current(self, context: Any) -> int:
        context[0] = self.contexts.get(threading.get_ident(), 0)
        return Status.CUDA_SUCCESS

    def _launch(self, function: int, *rest: int) -> int:
        *grid, pointers, _extra = rest
        values = (ctypes.c_void_p * 4).from_address(pointers)
        kinds: tuple[Any, ...] = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32)
        read = [kind.from_address(value or 0).value for kind, value in zip(kinds, values, strict=True)]
        self.launched.append((self.functions[function - 1], *grid, read))
        return self.status


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
    monkeypatch.setattr(Compiler, "is_cached", lambda *_: False)
    monkeypatch.setattr(Compiler, "get_program", lambda _, source: f"program of {source}".encode())
    return made


@pytest.fixture
def forgets() -> Iterator[None]:
    """Which devices have kernels is found out anew."""
    launcher.launcher.cache_clear()
    yield
    launcher.launcher_factories.pop("cpu", None)
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
    assert mixed == Kernel(64, "PIsfQP")
    tensor = torch.zeros(8)
    pair = structure(at=(Pointer, [None, tensor]), n=(UInt32, [9]))
    words, sizes = pack_arguments(mixed.parameters, [tensor, 7, pair, 0.5, 1 << 40, None])
    assert sizes == [8, 4, 24, 4, 8, 8]
    address = tensor.data_ptr()
    assert struct.unpack("<Q I4x 2QI4x f4x Q Q", words) == (address, 7, 0, address, 9, 0.5, 1 << 40, 0)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("I"), st.lists(st.integers(0, 2**32 - 1), max_size=5)),
            st.tuples(st.sampled_from("PQ"), st.lists(st.integers(0, 2**64 - 1), max_size=5)),
            st.tuples(st.just("f"), st.lists(st.floats(width=32), max_size=5)),
        ),
        max_size=6,
    )
)
def test_a_structure_lies_as_in_c(members: list[tuple[str, list[Any]]]) -> None:
    form = "".join(f"{len(values)}{code}" for code, values in members)
    wide = "0Q" if any(code in "PQ" for code, _ in members) else ""
    values = [value for _, own in members for value in own]
    named = {f"m{number}": member for number, member in enumerate(members)}
    assert structure(**named) == struct.Struct(form + wide).pack(*values)


@pytest.mark.parametrize(("wrong", "said"), [
    ([None, 0.5, b"12345678", 0.5, 1, None], "'float' object cannot be interpreted as an integer"),
    ([None, -1, b"12345678", 0.5, 1, None], "-1 is not in 0 .. 4294967295"),
    ([None, 1 << 32, b"12345678", 0.5, 1, None], "4294967296 is not in 0 .. 4294967295"),
    ([None, 1, b"12345678", 0.5, 1 << 64, None], "18446744073709551616 is not in 0 .. 18446744073709551615"),
    ([None, 1, b"12345678", 1e39, 1, None], r"1e\+39 is no float32"),
    ([None, 1, 5, 0.5, 1, None], "argument 2 is no structure"),
    ([None, 1, b"12345678", 0.5, 1], "5 arguments for 6 parameters"),
    ([torch.zeros(2, 2).t(), 1, b"12345678", 0.5, 1, None], "a tensor is not contiguous"),
])  # fmt: skip
def test_what_a_kernel_does_not_take_is_refused(mixed: Kernel, wrong: list[Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        pack_arguments(mixed.parameters, wrong)


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
    assert launch() == 110
    assert len(driver.launched) == 2


def test_nothing_is_launched_in_another_context(driver: Driver) -> None:
    """Which nothing of torch's has made current, so that it stays."""
    driver.contexts[threading.get_ident()] = 7
    with pytest.raises(RuntimeError, match=r"CUDA error: CUDA_ERROR_INVALID_CONTEXT \(cuLaunchKernel\)"):
        CudaLauncher(torch.device("cuda:1")).launch(SOURCE, "column_sums", Extent(1, 1), [None, None, 5, 6])
    assert not driver.launched


def test_nothing_to_do_is_not_launched(driver: Driver) -> None:
    CudaLauncher(torch.device("cuda:1")).launch(SOURCE, "column_sums", Extent(0, 200), [])
    assert not driver.launched


def test_an_error_of_the_driver_is_named(driver: Driver) -> None:
    made = CudaLauncher(torch.device("cuda:1"))
    driver.status = Status.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(RuntimeError, match=r"CUDA error: CUDA_ERROR_ILLEGAL_ADDRESS \(cuLaunchKernel\)"):
        made.launch(SOURCE, "column_sums", Extent(1, 1), [None, None, 5, 6])


def test_a_kept_program_that_the_driver_refuses_is_compiled_anew(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[Source] = []
    monkeypatch.setattr(Compiler, "is_cached", lambda *_: True)
    monkeypatch.setattr(Compiler, "drop_cached", lambda _, source: forgotten.append(source))
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
    error = CompileError("reduce.cu LEAVES=4 for sm_90: NVRTC 13.0: reduce.cu(3): error: no")
    with pytest.raises(RunError) as raised:
        Worker._report_failure(cast("Worker", worker), error, cast("Assignment", None))
    (line,) = str(raised.value).splitlines()
    assert line.startswith(
        "worker 1 (cuda:1): a kernel can't be compiled: CompileError: reduce.cu LEAVES=4 for sm_90: "
    )
    assert "; pool.own_kernels = false computes with torch's own operations; all that was said is in " in line


@pytest.mark.parametrize(("items", "groups", "blocks", "threads"), [
    (10, 1, (1, 1), (1, 128)),
    (1000, 2, (16, 1), (2, 64)),
    (1000, 100, (1000, 1), (128, 1)),
    (7, 256, (7, 2), (128, 1)),
    (129, 3, (5, 1), (4, 32)),
])  # fmt: skip
def test_narrow_rows_share_a_block(items: int, groups: int, blocks: tuple[int, int], threads: tuple[int, int]) -> None:
    assert grid(Extent(items, groups), 128) == (blocks, threads)


def test_a_grid_has_an_end() -> None:
    said = r"^274877906816 items of 2 groups take 4294967294 x 1 blocks of 128 threads; a grid has 2147483647 x 65535$"
    with pytest.raises(ValueError, match=said):
        grid(Extent(128 * (2**31 - 1), 2), 128)
    assert grid(Extent(64 * (2**31 - 1), 2), 128) == ((2**31 - 1, 1), (2, 64))


@pytest.mark.usefixtures("forgets")
@pytest.mark.parametrize("error", [ImportError("No module named 'cuda'"), CompileError("libnvrtc.so.13 is not there")])
def test_without_a_compiler_torchs_operations_serve_and_one_line_says_so(
    error: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: torch.device) -> CudaLauncher:
        raise error

    monkeypatch.setattr(backend, "NATIVE", "none")
    launcher.launcher_factories["cpu"] = refuse
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
    monkeypatch.setattr(launcher, "launcher_factories", {"cpu": lambda _: SimpleNamespace(version="NVRTC 13.0")})
    assert launcher.describe_kernels_of(cpu) == "kernels compiled by NVRTC 13.0"
    apply_arithmetic(own_kernels=False, dense_products="tf32")
    assert launcher.describe_kernels_of(cpu) == "torch's own operations"
    assert torch.backends.cuda.matmul.allow_tf32
    apply_arithmetic(own_kernels=True, dense_products="float32")
    assert [torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32] == [False, False]


def test_programs_are_kept_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kernel_cache_folder() == tmp_path / "sparsepool/kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kernel_cache_folder() == tmp_path / ".cache/sparsepool/kernels"
