"""The plan made real: torch views of parameters, gradients and buffers in a piece of memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pool.buckets import plan as plans
from pool.nn.sparse_linear import SparseLinear


def torch_dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype), name
    return dtype


def views(memory: npt.NDArray[np.uint8], tensors: Iterable[plans.Tensor]) -> list[torch.Tensor]:
    """Zero-copy tensors of the given places in `memory` (uint8, Plan.nbytes)."""
    return views_of(torch.from_numpy(memory), tensors)


def views_of(whole: torch.Tensor, tensors: Iterable[plans.Tensor]) -> list[torch.Tensor]:
    """The same in memory of any device (uint8, Plan.nbytes)."""
    return [whole[t.offset : t.offset + t.nbytes].view(torch_dtype(t.dtype)).view(t.shape) for t in tensors]


def rows_of(tensor: torch.Tensor, bucket: plans.Bucket) -> torch.Tensor:
    """The part of a parameter-shaped tensor that the bucket holds."""
    return tensor if bucket.rows is None else tensor[bucket.rows[0] : bucket.rows[1]]


def trained(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Parameters that the optimizer changes."""
    return ((name, p) for name, p in model.named_parameters() if p.requires_grad)


def carried(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """What else the weights consist of: buffers, and parameters that are not trained."""
    yield from ((name, p) for name, p in model.named_parameters() if not p.requires_grad)
    yield from model.named_buffers()


def row_sparse_tables(model: nn.Module) -> Iterator[SparseLinear]:
    """Layers whose gradient travels as the rows that a batch touched; the native reduction knows float32."""
    for module in model.modules():
        if isinstance(module, SparseLinear) and module.weight.dtype == torch.float32:
            yield module


def specs(model: nn.Module) -> tuple[list[plans.TensorSpec], list[plans.TensorSpec]]:
    """What the plan has to know: trained parameters and carried tensors."""
    tables = {id(module.weight): module.field for module in row_sparse_tables(model)}

    def spec(name: str, tensor: torch.Tensor) -> plans.TensorSpec:
        dtype = str(tensor.dtype).removeprefix("torch.")
        return plans.TensorSpec(name, tuple(tensor.shape), dtype, tensor.element_size(), tables.get(id(tensor)))

    return [spec(*item) for item in trained(model)], [spec(*item) for item in carried(model)]


def replace_tensors(model: nn.Module, named: Sequence[tuple[str, torch.Tensor]]) -> None:
    """Gives a model that was built on the meta device real tensors; a tensor known by two names stays one."""
    for name, tensor in named:
        old = model.get_parameter(name) if _is_parameter(model, name) else model.get_buffer(name)
        new = nn.Parameter(tensor, requires_grad=old.requires_grad) if isinstance(old, nn.Parameter) else tensor
        for module in model.modules():
            tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
            for table in tables:
                for key, value in table.items():
                    if value is old:
                        table[key] = new


def _is_parameter(model: nn.Module, name: str) -> bool:
    owner, _, leaf = name.rpartition(".")
    return leaf in model.get_submodule(owner)._parameters
