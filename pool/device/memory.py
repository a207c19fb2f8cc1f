"""Recognizes errors by which torch and its libraries say that memory of the machine or of a device has run out."""

from __future__ import annotations

import contextlib

import torch

from loader.plugins.error_text import format_error_with_location

_PHRASES = (
    "can't allocate memory",  # torch's allocator for CPUs, which has no exception of its own
    "error: out of memory",  # CUDA's, without torch's allocator: a context, a kernel's local memory
    "STATUS_ALLOC_FAILED",  # cuBLAS', cuDNN's, cuSPARSE's
    "CUBLAS_STATUS_NOT_INITIALIZED",  # cuBLAS', if there is no memory for its handle
)


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether an error says that memory of the machine or of a device has run out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(phrase in format_error_with_location(error) for phrase in _PHRASES)


def describe_free_memory() -> str:
    """Returns a phrase for an error message about the free memory of the current device. Empty if the device does not
    report it."""
    with contextlib.suppress(Exception):
        free, total = torch.accelerator.get_memory_info()
        return f"; {free >> 20:,} of the device's {total >> 20:,} MiB are free"
    return ""
