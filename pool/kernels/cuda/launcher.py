"""Launches kernels: by NVIDIA's driver, of which nothing is waited for, or by what tests put in its place."""

from __future__ import annotations

import ctypes
import logging
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

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

Pointer, Float, UInt32, UInt64 = "P", "f", "I", "Q"  # codes of struct
Argument = Tensor | int | float | bytes | None


class Extent(NamedTuple):
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
        """Queues a kernel on the device's current stream; nothing to do is no error. Arguments are as the source
        declares them: of a pointer a tensor on that device, contiguous, or None; of a structure its bytes. Raises
        CompileError."""


class ArgumentMemory(threading.local):
    """The memory of a kernel's arguments, where cuLaunchKernel reads them. Each thread has its own; it is used again as
    soon as a launch has returned."""

    def __init__(self, parameters: Sequence[str]) -> None:
        """`parameters`: as in `Kernel`."""
        self._parameters = parameters
        self._layout = struct.Struct("")
        self._memory: Any = None
        self._pointers: Any = None
        self.sizes: list[int] = []  # of the arguments, in bytes
        self.address = 0  # of the pointers to them

    def put(self, arguments: Sequence[Argument]) -> None:
        """Writes them. Raises struct.error for what the kernel does not take."""
        values = [_value(argument) for argument in arguments]
        if self._memory is None:
            self._lay_out(arguments)
        self._layout.pack_into(self._memory, 0, *values)

    @property
    def words(self) -> bytes:
        """The arguments, each from a multiple of 8 bytes on."""
        return bytes(self._memory)

    def _lay_out(self, arguments: Sequence[Argument]) -> None:
        formats = [
            f"{len(argument)}s" if isinstance(argument, bytes) else code
            for code, argument in zip(self._parameters, arguments, strict=True)
        ]
        self.sizes = [struct.calcsize(each) for each in formats]
        room = [-(-size // 8) * 8 for size in self.sizes]
        padded = (f"{each}{whole - size}x" for each, whole, size in zip(formats, room, self.sizes, strict=True))
        self._layout = struct.Struct("".join(padded))
        self._memory = ctypes.create_string_buffer(self._layout.size)
        begin = ctypes.addressof(self._memory)
        self._pointers = (ctypes.c_void_p * len(room))(*(begin + at for at in accumulate([0, *room[:-1]])))
        self.address = ctypes.addressof(self._pointers)


@dataclass(frozen=True)
class _Loaded:
    """A kernel that can be launched."""

    function: Any
    threads: int
    memory: ArgumentMemory


class CudaLauncher:
    """Launches kernels on one device, in a process that may use it."""

    def __init__(self, device: torch.device) -> None:
        """Raises ImportError without cuda-bindings, CompileError without an NVRTC for this device."""
        self._driver = Driver()
        self._device = device
        self._context = PrimaryContext(self._driver, device.index)
        self._architecture = "sm_{}{}".format(*torch.cuda.get_device_capability(device))
        self._compiler = Compiler(self._architecture, kept_in())
        self._kernels: dict[tuple[Source, str], _Loaded] = {}

    @property
    def version(self) -> str:
        return f"NVRTC {self._compiler.version}"

    def launch(self, source: Source, kernel: str, extent: Extent, arguments: Sequence[Argument]) -> None:
        if extent.items == 0:
            return
        if self._context.is_current:
            self._launch(source, kernel, extent, arguments)
        else:
            with torch.cuda.device(self._device):
                self._context.bind()
                self._launch(source, kernel, extent, arguments)

    def _launch(self, source: Source, kernel: str, extent: Extent, arguments: Sequence[Argument]) -> None:
        loaded = self._kernels.get((source, kernel)) or self._load(source, kernel)
        (across, down), (columns, rows) = extent.blocks(loaded.threads)
        memory = loaded.memory
        memory.put(arguments)
        stream = torch._C._cuda_getCurrentRawStream(self._device.index)
        self._driver.call(
            "cuLaunchKernel", loaded.function, across, down, 1, columns, rows, 1, 0, stream, memory.address, 0
        )

    def _load(self, source: Source, kernel: str) -> _Loaded:
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
        for name, form in source.kernels.items():
            function = self._driver.call("cuModuleGetFunction", program, name.encode())
            self._kernels[source, name] = _Loaded(function, form.threads, ArgumentMemory(form.parameters))
        return self._kernels[source, kernel]

    def _module(self, source: Source) -> Any:
        """Raises CompileError, also if the driver refuses the program."""
        program = self._compiler.program(source)
        try:
            return self._driver.call("cuModuleLoadData", program)
        except RuntimeError as error:
            if not any(name in str(error) for name in _REFUSALS):
                raise  # no memory for it, or an error of something that was launched before
            raise CompileError(f"{source}: the driver refuses what {self.version} has compiled: {error}") from None


def structure(**members: tuple[str, Sequence[Any]]) -> bytes:
    """Returns a structure that a kernel takes by value, laid out as in its source: arrays by name, each of a type and
    with its values; pointers are tensors, or None."""
    values: list[Any] = []
    for code, own in members.values():
        values += map(_value, own) if code == Pointer else own
    return _layout_of(*((code, len(own)) for code, own in members.values())).pack(*values)


@cache
def _layout_of(*arrays: tuple[str, int]) -> struct.Struct:
    """Returns a layout whose size is a multiple of its alignment."""
    widest = "0Q" if any(code in (Pointer, UInt64) for code, _ in arrays) else ""
    return struct.Struct("".join(f"{count}{code}" for code, count in arrays) + widest)


def _value(argument: Argument) -> int | float | bytes:
    if isinstance(argument, Tensor):
        assert argument.is_contiguous()
        return argument.data_ptr()
    return 0 if argument is None else argument


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
