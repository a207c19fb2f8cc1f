"""Page-locks memory that a CUDA device copies from, so that copies are quick and can run beside kernels.

Not having it costs speed, never correctness: a refusal is logged and the run goes on.
"""

from __future__ import annotations

import logging

import torch

from pool.shm.segment import Segment

log = logging.getLogger(__name__)

_READ_ONLY = 0x08  # cudaHostRegisterReadOnly: without it a read-only mapping is refused


def page_lock(segment: Segment, device: torch.device) -> bool:
    """Registers a whole segment with CUDA, in this process, until it ends. False if CUDA refuses."""
    with torch.cuda.device(device):
        torch.cuda.init()  # type: ignore[no-untyped-call]
        address = segment.array.ctypes.data
        flags = 0 if segment.writable else _READ_ONLY
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        error = runtime.cudaHostRegister(address, segment.size, flags)
        if int(error) == 0:
            return True
        log.warning("memory is not page-locked, copies to %s are slower: CUDA error %d", device, int(error))
        _clear_error(device)
        return False


def _clear_error(device: torch.device) -> None:
    """CUDA reports an ignored error at the next call, whatever that is; let it be this one."""
    try:
        torch.zeros(1, device=device).add_(1)
        torch.cuda.synchronize(device)
    except RuntimeError as error:
        log.debug("cleared: %s", error)
