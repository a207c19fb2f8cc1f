"""The project's own kernels on the fake GPU: compiled for the host, run late in the order of a stream."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from pool._native import grid, pack_arguments
from pool.kernels.cuda import launcher
from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.driver import PrimaryContext
from pool.kernels.cuda.launcher import Argument, Extent
from tests.gpu.fake import fakegpu
from tests.pool.kernels.cuda.on_cpu import library


class _Driver:
    """A Calls: contexts are numbered from 1, as 0 is none."""

    def call(self, name: str, *arguments: Any) -> Any:
        match name, arguments:
            case "cuCtxGetCurrent", ():
                return torch.ops.fakegpu.context() + 1
            case "cuDeviceGet", (index,):
                return index
            case "cuDevicePrimaryCtxRetain", (device,):
                return device + 1
            case "cuCtxSetCurrent", (context,):
                return torch.ops.fakegpu.set_context(context - 1)
        raise AssertionError(name)


class FakeLauncher:
    """A Launcher of one device."""

    version = "g++"

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._context = PrimaryContext(_Driver(), device.index)
        self.launched: list[str] = []

    def launch(self, source: Source, kernel: str, extent: Extent, arguments: Sequence[Argument]) -> None:
        self.launched.append(kernel)
        if extent.items == 0:
            return
        form = source.kernels[kernel]
        blocks, threads = grid(extent, form.threads)
        words, sizes = pack_arguments(form.parameters, arguments)
        function = ctypes.cast(library(source, sanitized=False).launch, ctypes.c_void_p).value
        with torch.accelerator.device_index(self._device.index):
            self._context.bind()
            torch.ops.fakegpu.launch(
                self._device.index,
                function,
                kernel,
                [*blocks, *threads],
                torch.frombuffer(bytearray(words), dtype=torch.int64),
                sizes,
            )


def use() -> None:
    """From now on fake GPUs have kernels."""
    launcher.launcher_factories[fakegpu.NAME] = FakeLauncher
    launcher.launcher.cache_clear()


def launched(device: str) -> list[str]:
    """By name, since the device's first."""
    found = launcher.launcher(torch.device(device))
    assert isinstance(found, FakeLauncher)
    return found.launched
