"""Chooses the code that computes on a device: native code, our CUDA kernels, or torch's own operations."""

from __future__ import annotations

from typing import Literal

import torch

from pool.kernels.cuda.launcher import launcher

Backend = Literal["cpu", "cuda", "torch"]

NATIVE = "cpu"  # the kind of device that `pool._native` computes on


def backend_of(device: torch.device) -> Backend:
    """Returns which code computes on a device.

    It is "cpu" where native code serves, "cuda" where kernels of `pool.kernels.cuda` can be launched, and "torch" for
    all other devices, and while torch's exporter records operations. Native code and kernels know certain dtypes. For
    all other dtypes their callers use torch.
    """
    if torch.compiler.is_exporting():
        return "torch"
    if device.type == NATIVE:
        return "cpu"
    return "torch" if launcher(device) is None else "cuda"
