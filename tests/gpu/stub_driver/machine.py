"""A machine with the stub driver, and what torch's CUDA build does of the calling thread's context."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.driver import Driver
from pool.kernels.cuda.launcher import CudaLauncher, Extent
from tests.pool.kernels.cuda import toolkit
from tests.support.paths import ROOT

FILL = Source.of(ROOT / "tests/gpu/stub_driver/fill.cu", BFLOAT16=0, WIDTH=1)


class Machine:
    def __init__(self, devices: int, room: int) -> None:
        """`room`: bytes of each device. None can use another's memory."""
        toolkit.require()
        self.stub = ctypes.CDLL("libcuda.so.1")
        self.stub.stub_begin(devices, ctypes.c_size_t(room))
        self.driver = Driver()
        self.driver.call("cuInit", 0)
        self._thread = threading.local()

    def use(self, device: int) -> None:
        """Does in the calling thread what any operation of torch there does: the runtime makes the context current."""
        self.driver.call("cuCtxSetCurrent", self.driver.call("cuDevicePrimaryCtxRetain", device))
        self._thread.device = device

    def fail(self, function: str, status: int, *, sticks: bool = False) -> None:
        """Has the next call of the function fail; `sticks`: and every call of its context from then on."""
        self.stub.stub_fail(function.encode(), status, int(sticks))

    def fill(self, launcher: CudaLauncher, address: int, value: int, nbytes: int = 16) -> None:
        launcher.launch(FILL, "fill", Extent(nbytes, 1), [address, nbytes, value])

    def read(self, address: int, nbytes: int = 16) -> bytes:
        """Reads memory as the current device."""
        found = ctypes.create_string_buffer(nbytes)
        self.driver.call("cuMemcpyDtoH", ctypes.addressof(found), address, nbytes)
        return found.raw

    @contextlib.contextmanager
    def in_place_of_torchs(self) -> Iterator[None]:
        """Until the end, torch.cuda is this machine's."""
        names: dict[str, Any] = {
            "device": self._guard,
            "get_device_capability": lambda _: (9, 0),
        }
        stream = mock.patch.object(torch._C, "_cuda_getCurrentRawStream", create=True, return_value=0)
        with stream, mock.patch.multiple(torch.cuda, **names), mock.patch.object(torch, "as_tensor", _tensor):
            yield

    @contextlib.contextmanager
    def _guard(self, device: torch.device) -> Iterator[None]:
        """As torch.cuda.device: it asks the runtime for the thread's device, which is 0 at first, and does nothing
        where that is the one wanted (pytorch issue 195256)."""
        before = getattr(self._thread, "device", 0)
        if device.index != before:
            self.use(device.index)
        yield
        if device.index != before:
            self.use(before)


def _tensor(mapped: Any, device: torch.device) -> Tensor:  # noqa: ARG001
    """Returns the memory as a tensor on the CPU, at its own address."""
    interface = mapped.__cuda_array_interface__
    (nbytes,), (address, _) = interface["shape"], interface["data"]
    return torch.frombuffer((ctypes.c_ubyte * nbytes).from_address(address), dtype=torch.uint8)
