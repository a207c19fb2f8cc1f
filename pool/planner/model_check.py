"""Refuses models that the runtime can't train, before a run begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from loader.batch.schema import BatchSchema
from pool.buckets.tensors import carried, trained
from pool.checkpoint.store import DTYPES
from pool.errors import ConfigError
from pool.nn.sparse_linear import SparseLinear
from pool.protocol.codec import MAX_ITEMS


def check_model(model: Any, schema: BatchSchema) -> None:
    """`model`: what the task's build_model has returned; `schema`: of the run's batches. Raises ConfigError that names
    the tensor or the layer."""
    if not isinstance(model, nn.Module):
        raise ConfigError(f"task: build_model must return a torch.nn.Module, and returned {type(model).__name__}")
    for problem in (*_problems(model), *_unknown_fields(model, schema)):
        raise ConfigError(f"task: {problem}")


def _problems(model: nn.Module) -> Iterator[str]:
    parameters = list(trained(model))
    if not parameters:
        yield "there is nothing to train: no parameter of the model has requires_grad"
    if len(parameters) > MAX_ITEMS:
        yield f"the model has {len(parameters)} parameters, and at most {MAX_ITEMS} can be trained: join some"
    for name, parameter in parameters:
        if isinstance(parameter, UninitializedParameter):
            yield f"parameter {name} has no shape before the first batch (a lazy module): say its shape"
        elif parameter.numel() == 0:
            yield f"parameter {name} has no elements, its shape is {tuple(parameter.shape)}: leave it out of the model"
    for name, tensor in (*parameters, *carried(model)):
        if tensor.dtype not in DTYPES:
            known = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
            yield f"{name} is {tensor.dtype}, which a checkpoint can't hold; allowed: {known}"
        if tensor.layout != torch.strided:
            yield f"{name} is {tensor.layout}; only dense tensors can be shared between processes"


def _unknown_fields(model: nn.Module, schema: BatchSchema) -> Iterator[str]:
    fields = [entry.name for entry in schema.sparse]
    known = ", ".join(fields) or "none"
    for name, layer in model.named_modules():
        if isinstance(layer, SparseLinear) and layer.field not in fields:
            called = name or type(layer).__name__
            yield f"layer {called}: the data have no sparse field {layer.field!r}; there are {known}"
