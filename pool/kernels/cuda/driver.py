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

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls as `Calls.call` says. The words for too little memory are torch's, for `pool.device.memory`; any other
        error is called by the driver's own name of it, for `pool.device.lost`."""
        status, *values = getattr(self.types, name)(*arguments)
        if status == self.types.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise RuntimeError(f"CUDA error: out of memory ({name})")
        if status != self.types.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"CUDA error: {status.name} ({name})")
        return values[0] if values else None


class PrimaryContext:
    """The context of a device that torch uses, too."""

    def __init__(self, driver: Calls, device: int) -> None:
        """`device`: its index in this process."""
        self._driver = driver
        self._device = device
        self._context: Any = None

    def bind(self) -> None:
        """Makes the context current in a thread that has none, as autograd's in backward: `torch.cuda.device` leaves
        that to the runtime, and the driver does not do it by itself (pytorch issue 195256)."""
        if int(self._driver.call("cuCtxGetCurrent")) != 0:
            return
        if self._context is None:
            device = self._driver.call("cuDeviceGet", self._device)
            self._context = self._driver.call("cuDevicePrimaryCtxRetain", device)
        self._driver.call("cuCtxSetCurrent", self._context)
