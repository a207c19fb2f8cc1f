"""NVIDIA's driver, called by cuda-bindings: its errors in torch's words, and the context in which a thread calls it."""

from __future__ import annotations

import importlib
from typing import Any, Protocol


class Calls(Protocol):
    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a function of the driver and returns the first thing that it gives, None if it gives nothing. Raises
        RuntimeError for every other status than success."""


class Driver:
    """The driver of this process' CUDA devices, a `Calls`."""

    def __init__(self) -> None:
        """Raises ImportError without cuda-bindings."""
        self.types: Any = importlib.import_module("cuda.bindings.driver")  # its structures and enumerations, too
        self._success = self.types.CUresult.CUDA_SUCCESS

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls as `Calls.call` says. The words for too little memory are torch's, for `pool.device.memory`; any other
        error is called by the driver's own name of it, for `pool.device.lost`."""
        status, *values = getattr(self.types, name)(*arguments)
        if status == self._success:
            return values[0] if values else None
        if status == self.types.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise RuntimeError(f"CUDA error: out of memory ({name})")
        raise RuntimeError(f"CUDA error: {status.name} ({name})")


class PrimaryContext:
    """The context of a device that torch uses, too."""

    def __init__(self, driver: Calls, device: int) -> None:
        """`device`: its index in this process."""
        self._driver = driver
        self._device = device
        self._handle: int | None = None

    @property
    def is_current(self) -> bool:
        """Tells whether it is what the calling thread's calls of the driver are about."""
        return int(self._driver.call("cuCtxGetCurrent")) == self._retained()

    def bind(self) -> None:
        """Makes the context current in a thread that has none, as autograd's in backward: `torch.cuda.device` leaves
        that to the runtime, and the driver does not do it by itself (pytorch issue 195256)."""
        if int(self._driver.call("cuCtxGetCurrent")) == 0:
            self._driver.call("cuCtxSetCurrent", self._retained())

    def _retained(self) -> int:
        if self._handle is None:
            device = self._driver.call("cuDeviceGet", self._device)
            self._handle = int(self._driver.call("cuDevicePrimaryCtxRetain", device))
        return self._handle
