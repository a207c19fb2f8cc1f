"""Launches kernels by NVIDIA's driver, asynchronously, or by what tests put in the driver's place."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from pool._native import CudaKernel
from pool.kernels.cuda.compiler import CompileError, Compiler, Source, kernel_cache_folder, record_compile_time
from pool.kernels.cuda.driver import Driver, PrimaryContext

log = logging.getLogger(__name__)

# The driver's errors for a program that this device can't run.
_REFUSALS = (
    "CUDA_ERROR_INVALID_IMAGE",
    "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "CUDA_ERROR_INVALID_PTX",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    "CUDA_ERROR_INVALID_SOURCE",
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
)

Pointer, Float, UInt32, UInt64 = "P", "f", "I", "Q"  # codes of struct
Argument = Tensor | int | float | bytes | None


class Extent(NamedTuple):
    """The number of threads that a launch needs: for each item, one for each group of columns."""

    items: int
    groups: int


class Launcher(Protocol):
    """Compiles kernels at the first use and launches them on one device."""

    @property
    def version(self) -> str:
        """Returns the version of the compiler. Another version may give other bits."""

    def launch(self, source: Source, kernel: str, extent: Extent, arguments: Sequence[Argument]) -> None:
        """Queues a kernel on the device's current stream. Without items it does nothing.

        Arguments are as the source declares them. A pointer takes a contiguous tensor on that device, or None; a
        structure takes its bytes. Raises CompileError. Raises ValueError for more blocks than a grid has, and for
        arguments that the kernel does not take.
        """


class CudaLauncher:
    """Implements `Launcher` by NVIDIA's driver, for one device, in a process that may use it."""

    def __init__(self, device: torch.device) -> None:
        """Prepares to compile for the device. Raises ImportError without cuda-bindings, CompileError without an NVRTC
        for this device."""
        self._driver = Driver()
        self._device = device
        self._context = PrimaryContext(self._driver, device.index)
        self._architecture = "sm_{}{}".format(*torch.cuda.get_device_capability(device))
        self._compiler = Compiler(self._architecture, kernel_cache_folder())
        self._kernels: dict[tuple[Source, str], CudaKernel] = {}

    @property
    def version(self) -> str:
        return f"NVRTC {self._compiler.version}"

    def launch(self, source: Source, kernel: str, extent: Extent, arguments: Sequence[Argument]) -> None:
        if extent.items == 0:
            return
        loaded = self._kernels.get((source, kernel))
        stream = torch._C._cuda_getCurrentRawStream(self._device.index)
        status = self._driver.INVALID_CONTEXT if loaded is None else loaded.launch(stream, extent, arguments)
        if status == self._driver.INVALID_CONTEXT:
            with torch.cuda.device(self._device):
                self._context.bind()
                loaded = loaded or self._load(source, kernel)
                status = loaded.launch(stream, extent, arguments)
        if status:
            self._driver.check("cuLaunchKernel", status)

    def _load(self, source: Source, kernel: str) -> CudaKernel:
        """Compiles a source, or reads it from the cache, and loads all its kernels. Returns the one of that name.

        A cached program that the driver refuses is compiled again.
        """
        is_cached, begin = self._compiler.is_cached(source), time.monotonic()
        try:
            module = self._load_module(source)
        except CompileError:
            if not is_cached:
                raise
            self._compiler.drop_cached(source)
            is_cached, module = False, self._load_module(source)
        if not is_cached:
            seconds = time.monotonic() - begin
            log.info("%s: compiled %s in %.1f s", self._device, source, seconds)
            record_compile_time(seconds, source, self._architecture, kernel_cache_folder())
        functions = self._driver.address("cuCtxGetCurrent"), self._driver.address("cuLaunchKernel")
        for name, kernel_form in source.kernels.items():
            entry = int(self._driver.call("cuModuleGetFunction", module, name.encode()))
            parameters, threads = kernel_form.parameters, kernel_form.threads
            self._kernels[source, name] = CudaKernel(functions, self._context.handle, entry, parameters, threads)
        return self._kernels[source, kernel]

    def _load_module(self, source: Source) -> Any:
        """Loads a compiled source into the driver. Raises CompileError, also if the driver refuses the program."""
        program = self._compiler.get_program(source)
        try:
            return self._driver.call("cuModuleLoadData", program)
        except RuntimeError as error:
            if not any(name in str(error) for name in _REFUSALS):
                raise  # too little memory, or the error of an earlier launch
            raise CompileError(f"{source}: the driver refuses what {self.version} has compiled: {error}") from None


launcher_factories: dict[str, Callable[[torch.device], Launcher]] = {"cuda": CudaLauncher}  # by kind of device


def disable_kernels() -> None:
    """Turns our kernels off, so that torch's own operations compute on all devices of this process. Call before
    anything is computed."""
    launcher_factories.clear()
    launcher.cache_clear()


@cache
def launcher(device: torch.device) -> Launcher | None:
    """Returns the launcher of a device, or None if our kernels can't run there. The reason is logged, once."""
    if device.type not in launcher_factories:
        return None
    try:
        return launcher_factories[device.type](device)
    except (ImportError, CompileError) as error:
        log.warning("%s computes with torch's own operations, which is slower: %s", device, error)
        return None


def describe_kernels_of(device: torch.device) -> str:
    """Returns a description of the code that computes on a device, as far as bits depend on it. It goes into the
    fingerprint."""
    device_launcher = launcher(device)
    return "torch's own operations" if device_launcher is None else f"kernels compiled by {device_launcher.version}"


def launch_kernel(device: torch.device, source: Source, kernel: str, extent: Extent, *arguments: Argument) -> None:
    """Launches a kernel on a device that has a launcher (`Launcher.launch`)."""
    device_launcher = launcher(device)
    assert device_launcher is not None, f"no kernels on {device}"
    device_launcher.launch(source, kernel, extent, arguments)


def load_width(columns: int, first: Tensor, *others: Tensor | None) -> int:
    """Returns how many numbers a thread may load at a time from rows of so many columns: 16 bytes of the first
    tensor's, or one.

    It is one where rows or tensors are not aligned for more. Memory that torch has just allocated is always aligned.
    """
    width = 16 // first.element_size()
    if columns % width:
        return 1
    for tensor in (first, *others):
        if tensor is not None and tensor.data_ptr() % (width * tensor.element_size()):
            return 1
    return width
