"""Recognizes errors by which a driver says that a device can't be used any more, or not by this process: broken, gone
or taken."""

from __future__ import annotations

from loader.plugins.error_text import format_error_with_location

_LOST_PHRASES = (
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
    "system not yet initialized",  # of cards with NVSwitch, while their fabric manager does not run
    "CUDA_ERROR_SYSTEM_NOT_READY",
    "the MPS client has been terminated by the server",  # for what another process on the card has done
    "CUDA_ERROR_MPS_CLIENT_TERMINATED",
    "MPS client failed to connect",
    "CUDA_ERROR_MPS_CONNECTION_FAILED",
    "the remote procedural call between the MPS server and the MPS client failed",
    "CUDA_ERROR_MPS_RPC_FAILURE",
    "MPS server is not ready",
    "CUDA_ERROR_MPS_SERVER_NOT_READY",
    "context is destroyed",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED",
)
# Both a wrong kernel and a card that breaks cause these.
_AMBIGUOUS_PHRASES = ("unspecified launch failure", "CUDA_ERROR_LAUNCH_FAILED")


def is_device_lost(error: BaseException) -> bool:
    """Returns whether an error is the fault of a device, not of a wrong kernel, which would be wrong on every device.

    An error that may be either (a failed launch) counts as the kernel's. The worker that had it ends, and another
    process computes the batch once more. If the card is at fault, that process finds out when it opens the card
    (`is_lost_when_opened`).
    """
    return _contains_any(error, _LOST_PHRASES)


def is_lost_when_opened(error: BaseException) -> bool:
    """Returns whether an error of the first operation in a new context, such as a failed launch, is the fault of the
    device.

    No kernel of the run can have caused it then.
    """
    return _contains_any(error, _AMBIGUOUS_PHRASES)


def _contains_any(error: BaseException, phrases: tuple[str, ...]) -> bool:
    return isinstance(error, RuntimeError) and any(phrase in format_error_with_location(error) for phrase in phrases)
