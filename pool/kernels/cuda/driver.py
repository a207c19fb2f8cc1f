"""Calls NVIDIA's driver through cuda-bindings, turns its errors into those of torch, and binds its context to
threads."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

_ADDRESSES_OF = 12_000  # CUDA version whose functions are meant: some have changed their parameters since


class Calls(Protocol):
    """What the pool needs of NVIDIA's driver: one way to call its functions."""

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a function of the driver. Returns the first thing that the function gives, None if it gives nothing.

        Raises RuntimeError for every status other than success.
        """


class Driver:
    """Implements `Calls` for the CUDA devices of this process."""

    INVALID_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT

    def __init__(self) -> None:
        """Loads cuda-bindings. Raises ImportError if it is not installed."""
        self.types: Any = importlib.import_module("cuda.bindings.driver")  # functions, structures and enumerations
        self._success = self.types.CUresult.CUDA_SUCCESS

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a function of the driver, as `Calls.call`.

        The text of an error is torch's for too little memory, by which `pool.device.memory` knows it. For any other
        error it is the driver's own name, by which `pool.device.lost` knows it.
        """
        status, *values = getattr(self.types, name)(*arguments)
        self.check(name, status)
        return values[0] if values else None

    def check(self, name: str, status: Any) -> None:
        """Raises RuntimeError, as `call` does, if `status` is not success. `name`: the function that has returned
        it."""
        if status == self._success:
            return
        if status == self.types.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise RuntimeError(f"CUDA error: out of memory ({name})")
        raise RuntimeError(f"CUDA error: {self.types.CUresult(status).name} ({name})")

    def address(self, name: str) -> int:
        """Returns the address of a driver's function, for native code that calls it. Raises RuntimeError if the driver
        lacks it."""
        return int(self.call("cuGetProcAddress", name.encode(), _ADDRESSES_OF, 0))


class PrimaryContext:
    """The CUDA context of a device that torch uses, too."""

    def __init__(self, driver: Calls, device: int) -> None:
        """Does not make the context yet. `device`: the device's index in this process."""
        self._driver = driver
        self._device = device
        self._handle: int | None = None

    def bind(self) -> None:
        """Makes the context current in a thread that has none, as autograd's thread in backward.

        `torch.cuda.device` leaves that to CUDA's runtime, and the driver does not do it by itself (pytorch issue
        195256).
        """
        if int(self._driver.call("cuCtxGetCurrent")) == 0:
            self._driver.call("cuCtxSetCurrent", self.handle)

    @property
    def handle(self) -> int:
        if self._handle is None:
            device = self._driver.call("cuDeviceGet", self._device)
            self._handle = int(self._driver.call("cuDevicePrimaryCtxRetain", device))
        return self._handle
