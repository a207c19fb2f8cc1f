"""Sets the arithmetic that a user may choose for devices (pool.own_kernels, pool.dense_products), and reads torch's
settings.

The settings of torch that are read belong to this process, may be changed by a task's code, and change bits.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import Literal

import torch

from pool.kernels.cuda.launcher import disable_kernels

DenseProducts = Literal["float32", "tf32", "bfloat16"]


def apply_arithmetic(*, own_kernels: bool, dense_products: DenseProducts) -> None:
    """Applies the settings to this process. Call before anything is computed."""
    if not own_kernels:
        disable_kernels()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dense_products == "tf32"


def autocast_forward(device: torch.device, dense_products: DenseProducts) -> AbstractContextManager[object]:
    """Returns the context manager for a forward pass, which autocasts to bfloat16 if that is chosen for the device.

    Its backward follows outside the context. Parameters and their gradients stay float32.
    """
    if device.type == "cpu" or dense_products != "bfloat16":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


_PRECISIONS = ("fp32_precision", *(f"mkldnn.{part}.fp32_precision" for part in ("matmul", "conv", "rnn")))
_CUDA = "cuda.matmul.fp32_precision"
_USUAL = ("none", "ieee")
_LEAST_NORMAL, _DENORMAL = sys.float_info.min, sys.float_info.min / 4


def read_arithmetic_settings() -> dict[str, str]:
    """Returns, by name, torch's settings in this process for the precision of float32 products and for denormal
    numbers."""
    names = (*_PRECISIONS, _CUDA)
    precisions = {f"backends.{name}": str(attrgetter(name)(torch.backends)) for name in names}
    return {**precisions, "flush denormal": str(_flushes_denormals())}


def describe_changed_arithmetic(dense_products: DenseProducts) -> str:
    """Returns the names and values of settings that are neither torch's defaults nor follow from pool.dense_products.
    Empty if none is."""
    usual = {f"backends.{_CUDA}": "tf32"} if dense_products == "tf32" else {}
    return ", ".join(
        f"{name} = {value}"
        for name, value in read_arithmetic_settings().items()
        if value not in (*_USUAL, "False", usual.get(name))
    )


def _flushes_denormals() -> bool:
    """Returns whether this thread's processor mode turns denormal numbers to zero.

    It computes with Python's numbers, which obey the same mode as torch's.
    """
    return _LEAST_NORMAL * 0.5 == 0.0 or _DENORMAL * 2.0 == 0.0
