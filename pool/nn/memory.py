"""How torch says that memory has run out."""

from __future__ import annotations

import torch

from loader.plugins.words import told


def out_of_memory(error: BaseException) -> bool:
    """Torch's allocator for CPUs has no exception of its own."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in told(error)
