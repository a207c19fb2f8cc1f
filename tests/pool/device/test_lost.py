"""What a driver says of a device that can't be used, and what it says of a kernel."""

from __future__ import annotations

import pytest
import torch

from pool.device.lost import is_device_lost
from pool.device.startup import naming_lost_devices, open_device
from pool.errors import LostDeviceError

# Each as torch says it, and as the driver does where this project calls it.
LOST = (
    "CUDA error: system not yet initialized",
    "CUDA error: CUDA_ERROR_SYSTEM_NOT_READY (cuDevicePrimaryCtxRetain)",
    "CUDA error: the MPS client has been terminated by the server",
    "CUDA error: CUDA_ERROR_MPS_CLIENT_TERMINATED (cuLaunchKernel)",
    "CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server",
    "CUDA error: CUDA_ERROR_MPS_CONNECTION_FAILED (cuDevicePrimaryCtxRetain)",
    "CUDA error: the remote procedural call between the MPS server and the MPS client failed",
    "CUDA error: CUDA_ERROR_MPS_RPC_FAILURE (cuLaunchKernel)",
    "CUDA error: MPS server is not ready to accept new MPS client requests",
    "CUDA error: CUDA_ERROR_MPS_SERVER_NOT_READY (cuDevicePrimaryCtxRetain)",
    "CUDA error: context is destroyed",
    "CUDA error: CUDA_ERROR_CONTEXT_IS_DESTROYED (cuLaunchKernel)",
    "CUDA error: uncorrectable ECC error encountered",
)
WRONG = (
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: CUDA_ERROR_INVALID_CONTEXT (cuLaunchKernel)",
    "CUDA error: out of memory (cuLaunchKernel)",
)
AMBIGUOUS = (
    "CUDA error: unspecified launch failure",
    "CUDA error: CUDA_ERROR_LAUNCH_FAILED (cuLaunchKernel)",
)


@pytest.mark.parametrize("text", LOST)
def test_a_lost_device_is_known(text: str) -> None:
    assert is_device_lost(RuntimeError(text))


@pytest.mark.parametrize("text", WRONG + AMBIGUOUS)
def test_a_wrong_kernel_is_no_lost_device(text: str) -> None:
    assert not is_device_lost(RuntimeError(text))


def failing_device(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    def fail(_: int) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(torch.accelerator, "set_device_index", fail)


@pytest.mark.parametrize("text", LOST + AMBIGUOUS)
def test_a_card_whose_first_operation_fails_in_a_new_process_is_lost(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it fails in words that a wrong kernel has, too: none of the run's has been launched there."""
    failing_device(monkeypatch, text)
    said = "cuda:1 can't be used: RuntimeError: CUDA error"
    with pytest.raises(LostDeviceError, match=said) as error, naming_lost_devices("cuda:1"):
        open_device(torch.device("cuda:0"), "worker 1", "cuda:1", "name another")
    assert error.value.suspects == ("cuda:1",)


def test_another_error_of_the_first_operation_is_nothing_of_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_device(monkeypatch, WRONG[0])
    with pytest.raises(RuntimeError, match="illegal memory access"), naming_lost_devices("cuda:1"):
        open_device(torch.device("cuda:0"), "worker 1", "cuda:1", "name another")
