"""How devices with memory of their own compute, where a user may choose: pool.own_kernels, pool.dense_products."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
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
