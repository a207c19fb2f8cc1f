"""Page-locks memory that a device copies from and to, so that copies are quick and run beside kernels.

Without it copies are slower, never wrong. So a refusal is logged and the run goes on.
"""

from __future__ import annotations

import logging

import torch

from pool.shm.segment import Segment

log = logging.getLogger(__name__)


def page_lock(segment: Segment) -> bool:
    """Page-locks a whole segment, by registering it with the current device's driver until this process ends. Returns
    False if the driver refuses.

    The segment must be mapped for writing. To register memory that may only be read needs an attribute that many
    devices do not have.
    """
    device = torch.accelerator.current_accelerator()
    runtime = torch.get_device_module(device).cudart()
    error = int(runtime.cudaHostRegister(segment.array.ctypes.data, segment.size, 0))
    if error == 0:
        return True
    log.warning("memory is not page-locked, copies to and from the device are slower: CUDA error %d", error)
    _clear_error(torch.device(f"{device}:{torch.accelerator.current_device_index()}"))
    return False


def _clear_error(device: torch.device) -> None:
    """Makes a call whose only purpose is to receive an ignored error, which CUDA reports at the next call, whatever
    that is."""
    try:
        torch.zeros(1, device=device).add_(1)
        torch.accelerator.synchronize(device)
    except RuntimeError as error:
        log.debug("cleared: %s", error)
