"""Launches kernels: by NVIDIA's driver, of which nothing is waited for, or by what tests put in its place."""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor

from pool.kernels.cuda.compiler import CompileError, Compiler, Source, kept_in, note_compiled
from pool.kernels.cuda.driver import Driver, PrimaryContext

log = logging.getLogger(__name__)

# How the driver says that a program is not one for this device.
_REFUSALS = (
    "CUDA_ERROR_INVALID_IMAGE",
    "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "CUDA_ERROR_INVALID_PTX",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    "CUDA_ERROR_INVALID_SOURCE",
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
)
_MOST_BLOCKS = (2**31 - 1, 65_535)  # of a grid, along x and y

Pointer, Float, UInt32, UInt64 = ctypes.c_void_p, ctypes.c_float, ctypes.c_uint32, ctypes.c_uint64
Argument = Tensor | int | float | ctypes.Structure | ctypes.c_uint64 | None


@dataclass(frozen=True)
class Extent:
    """How many threads are needed: for each item one for each group of columns."""

    items: int
    groups: int

    def blocks(self, most: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Returns blocks along x and y, and threads of a block, at most so many: along x groups, along y items. Raises
        ValueError for more blocks than a grid has: what there may be millions of are the items."""
        across = min(most, 1 << (self.groups - 1).bit_length())
        down = most // across
        blocks = -(-self.items // down), -(-self.groups // across)
        if blocks[0] > _MOST_BLOCKS[0] or blocks[1] > _MOST_BLOCKS[1]:
            raise ValueError(
                f"{self.items:,} items of {self.groups:,} groups take {blocks[0]:,} x {blocks[1]:,} blocks of {most} "
                f"threads; a grid has {_MOST_BLOCKS[0]:,} x {_MOST_BLOCKS[1]:,}"
            )
        return blocks, (across, down)


class Launcher(Protocol):
    @property
    def version(self) -> str:
        """The version of what compiles: others may give other bits."""

    def launch(self, source: Source, kernel: str, extent: Extent, arguments: Sequence[Argument]) -> None:
        """Queues a kernel on the device's current stream; nothing to do is no error. Tensors are on that device, and
        contiguous; int is uint32, float is float32. Raises CompileError."""


class CudaLauncher:
    """Launches kernels on one device, in a process that may use it."""

    def __init__(self, device: torch.device) -> None:
        """Raises ImportError without cuda-bindings, CompileError without an NVRTC for this device."""
        self._driver = Driver()
        self._device = device
        self._context = PrimaryContext(self._driver, device.index)
        self._architecture = "sm_{}{}".format(*torch.cuda.get_device_capability(device))
        self._compiler = Compiler(self._architecture, kept_in())
        self._programs: dict[Source, dict[str, Any]] = {}

    @property
    def version(self) -> str:
        return f"NVRTC {self._compiler.version}"

    def launch(self, source: Source, kernel: str, extent: Extent, arguments: Sequence[Argument]) -> None:
        if extent.items == 0:
            return
        with torch.cuda.device(self._device):
            self._context.bind()
            functions = self._programs.get(source) or self._load(source)
            blocks, threads = extent.blocks(source.kernels[kernel])
            packed = packed_arguments(arguments)
            stream = torch.cuda.current_stream(self._device).cuda_stream
            self._driver.call(
                "cuLaunchKernel", functions[kernel], *blocks, 1, *threads, 1, 0, stream, ctypes.addressof(packed), 0
            )

    def _load(self, source: Source) -> dict[str, Any]:
        is_kept, begin = self._compiler.is_kept(source), time.monotonic()
        try:
            program = self._module(source)
        except CompileError:
            if not is_kept:
                raise
            self._compiler.forget(source)
            is_kept, program = False, self._module(source)
        if not is_kept:
            seconds = time.monotonic() - begin
            log.info("%s: compiled %s in %.1f s", self._device, source, seconds)
            note_compiled(seconds, source, self._architecture, kept_in())
        functions = {name: self._driver.call("cuModuleGetFunction", program, name.encode()) for name in source.kernels}
        self._programs[source] = functions
        return functions

    def _module(self, source: Source) -> Any:
        """Raises CompileError, also if the driver refuses the program."""
        program = self._compiler.program(source)
        try:
            return self._driver.call("cuModuleLoadData", program)
        except RuntimeError as error:
            if not any(name in str(error) for name in _REFUSALS):
                raise  # no memory for it, or an error of something that was launched before
            raise CompileError(f"{source}: the driver refuses what {self.version} has compiled: {error}") from None


def structure(**fields: tuple[Any, Sequence[Any]]) -> ctypes.Structure:
    """Returns a structure that a kernel takes by value, laid out as in its source: arrays by name, each of a type and
    with its values; pointers are tensors, or None."""
    shape = tuple((name, kind, len(values)) for name, (kind, values) in fields.items())
    made = _structure_type(shape)()
    for name, (kind, values) in fields.items():
        getattr(made, name)[:] = [_address(value) for value in values] if kind is Pointer else values
    return made


def _address(tensor: Tensor | None) -> int:
    assert tensor is None or tensor.is_contiguous()
    return 0 if tensor is None else tensor.data_ptr()


@cache
def _structure_type(shape: tuple[tuple[str, Any, int], ...]) -> type[ctypes.Structure]:
    return type("Structure", (ctypes.Structure,), {"_fields_": [(name, kind * count) for name, kind, count in shape]})


def packed_arguments(arguments: Sequence[Argument]) -> ctypes.Array[ctypes.c_void_p]:
    """Returns pointers to the arguments, as cuLaunchKernel takes them."""
    values = [_packed(argument) for argument in arguments]
    pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    pointers.values = values  # type: ignore[attr-defined]  # kept as long as what points to them
    return pointers


def _packed(argument: Argument) -> Any:
    if argument is None:
        return ctypes.c_void_p(0)
    if isinstance(argument, Tensor):
        assert argument.is_contiguous()
        return ctypes.c_void_p(argument.data_ptr())
    if isinstance(argument, float):
        return ctypes.c_float(argument)
    return ctypes.c_uint32(argument) if isinstance(argument, int) else argument


makers: dict[str, Callable[[torch.device], Launcher]] = {"cuda": CudaLauncher}  # by kind of device


def forgo_kernels() -> None:
    """Lets torch's own operations serve on all devices of this process. To be called before anything is computed."""
    makers.clear()
    launcher.cache_clear()


@cache
def launcher(device: torch.device) -> Launcher | None:
    """Returns None if kernels can't be run there; why not is logged, once."""
    if device.type not in makers:
        return None
    try:
        return makers[device.type](device)
    except (ImportError, CompileError) as error:
        log.warning("%s computes with torch's own operations, which is slower: %s", device, error)
        return None


def computing_with(device: torch.device) -> str:
    """Says what computes there, as far as bits depend on it: for the fingerprint."""
    own = launcher(device)
    return "torch's own operations" if own is None else f"kernels compiled by {own.version}"


def run(device: torch.device, source: Source, kernel: str, extent: Extent, *arguments: Argument) -> None:
    """Launches a kernel on a device that has a launcher."""
    own = launcher(device)
    assert own is not None, f"no kernels on {device}"
    own.launch(source, kernel, extent, arguments)


def width_of(columns: int, *tensors: Tensor | None) -> int:
    """Returns how many numbers a thread may load at a time from rows of so many: 16 bytes of the first tensor's, else
    one."""
    present = [tensor for tensor in tensors if tensor is not None]
    width = 16 // present[0].element_size()
    apart = any(tensor.data_ptr() % (width * tensor.element_size()) for tensor in present)
    return 1 if columns % width or apart else width
