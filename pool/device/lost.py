"""How a driver says that a device can't be used any more, or not by this process: broken, gone, or taken."""

from __future__ import annotations

from loader.plugins.error_text import error_line

_WORDS = (
    "busy or unavailable",  # cudaErrorDevicesUnavailable: also a card in exclusive mode that another process has
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
    "no CUDA-capable device is detected",
    "No CUDA GPUs are available",  # torch's, if the driver shows none
    "CUDA_ERROR_NO_DEVICE",
    "invalid device ordinal",  # it was there when the run began
    "CUDA driver initialization failed",
    "CUDA unknown error",  # torch's, of a driver that can't begin
    "CUDA error: unknown error",  # of a card that has fallen off the bus
    "CUDA_ERROR_UNKNOWN",
    "uncorrectable ECC error",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "uncorrectable NVLink error",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    "hardware stack error",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
)


def device_lost(error: BaseException) -> bool:
    """A wrong kernel (an illegal address, a failed launch) is no such error: it would be wrong on every device."""
    return isinstance(error, RuntimeError) and any(words in error_line(error) for words in _WORDS)
