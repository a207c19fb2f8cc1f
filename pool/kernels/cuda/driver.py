"""NVIDIA's driver, called by cuda-bindings: its errors in torch's words, and the context in which a thread calls it."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

_ADDRESSES_OF = 12_000  # CUDA's version: functions of one name have changed their parameters


class Calls(Protocol):
    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a function of the driver and returns the first thing that it gives, None if it gives nothing. Raises
        RuntimeError for every other status than success."""


class Driver:
    """The driver of this process' CUDA devices, a `Calls`."""

    INVALID_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT

    def __init__(self) -> None:
        """Raises ImportError without cuda-bindings."""
        self.types: Any = importlib.import_module("cuda.bindings.driver")  # its structures and enumerations, too
        self._success = self.types.CUresult.CUDA_SUCCESS

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls as `Calls.call` says. The words for too little memory are torch's, for `pool.device.memory`; any other
        error is called by the driver's own name of it, for `pool.device.lost`."""
        status, *values = getattr(self.types, name)(*arguments)
        self.check(name, status)
        return values[0] if values else None

    def check(self, name: str, status: Any) -> None:
        """Raises what `call` does if a function has returned this."""
        if status == self._success:
            return
        if status == self.types.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise RuntimeError(f"CUDA error: out of memory ({name})")
        raise RuntimeError(f"CUDA error: {self.types.CUresult(status).name} ({name})")

    def address(self, name: str) -> int:
        """Returns where a function is, for native code that calls it. RuntimeError if the driver has none of it."""
        return int(self.call("cuGetProcAddress", name.encode(), _ADDRESSES_OF, 0))


class PrimaryContext:
    """The context of a device that torch uses, too."""

    def __init__(self, driver: Calls, device: int) -> None:
        """`device`: its index in this process."""
        self._driver = driver
        self._device = device
        self._handle: int | None = None

    def bind(self) -> None:
        """Makes the context current in a thread that has none, as autograd's in backward: `torch.cuda.device` leaves
        that to the runtime, and the driver does not do it by itself (pytorch issue 195256)."""
        if int(self._driver.call("cuCtxGetCurrent")) == 0:
            self._driver.call("cuCtxSetCurrent", self.handle)

    @property
    def handle(self) -> int:
        if self._handle is None:
            device = self._driver.call("cuDeviceGet", self._device)
            self._handle = int(self._driver.call("cuDevicePrimaryCtxRetain", device))
        return self._handle
