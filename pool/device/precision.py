"""How devices with memory of their own compute, where a user may choose: pool.own_kernels, pool.dense_products; and the
settings of torch, of this process, that a task's code may change and that change bits."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import Literal

import torch

from pool.kernels.cuda.launcher import forgo_kernels

DenseProducts = Literal["float32", "tf32", "bfloat16"]


def choose_computing(*, own_kernels: bool, dense_products: DenseProducts) -> None:
    """For this process; before anything is computed."""
    if not own_kernels:
        forgo_kernels()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dense_products == "tf32"


def forward_pass(device: torch.device, dense_products: DenseProducts) -> AbstractContextManager[object]:
    """Returns the context of a forward pass; its backward follows it without one. Parameters and their gradients stay
    float32."""
    if device.type == "cpu" or dense_products != "bfloat16":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


_PRECISIONS = ("fp32_precision", *(f"mkldnn.{part}.fp32_precision" for part in ("matmul", "conv", "rnn")))
_CUDA = "cuda.matmul.fp32_precision"
_USUAL = ("none", "ieee")
_LEAST_NORMAL, _DENORMAL = sys.float_info.min, sys.float_info.min / 4


def arithmetic_settings() -> dict[str, str]:
    """Returns the settings of torch in this process that change how float32 numbers are multiplied and which small
    numbers there are, by name."""
    names = (*_PRECISIONS, _CUDA)
    precisions = {f"backends.{name}": str(attrgetter(name)(torch.backends)) for name in names}
    return {**precisions, "flush denormal": str(_flushes_denormals())}


def unusual_arithmetic(dense_products: DenseProducts) -> str:
    """Names those settings that are not torch's defaults, nor follow from pool.dense_products; empty if none is."""
    usual = {f"backends.{_CUDA}": "tf32"} if dense_products == "tf32" else {}
    return ", ".join(
        f"{name} = {value}"
        for name, value in arithmetic_settings().items()
        if value not in (*_USUAL, "False", usual.get(name))
    )


def _flushes_denormals() -> bool:
    """Computes with Python's numbers, which have the processor's mode of this thread, as torch's have."""
    return _LEAST_NORMAL * 0.5 == 0.0 or _DENORMAL * 2.0 == 0.0
