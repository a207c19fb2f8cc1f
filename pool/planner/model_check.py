"""Rejects models that the runtime can't train, before a run begins."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from loader.stream.schema import BatchSchema
from pool.checkpoint.store import DTYPES
from pool.errors import ConfigError
from pool.exchange.tensors import (
    all_tensors,
    count_hooks,
    find_row_sparse_tables,
    trained_parameters,
    untrained_tensors,
)
from pool.nn.sparse_linear import SparseLinear
from pool.protocol.codec import MAX_ITEMS
from pool.task.attributes import find_attributes, select_tensors


def check_model(model: Any, schema: BatchSchema) -> None:
    """Raises ConfigError, with the tensor or layer, if a model can't be trained by the runtime.

    `model`: what the task's build_model has returned. `schema`: of the run's batches.
    """
    if not isinstance(model, nn.Module):
        raise ConfigError(f"task: build_model must return a torch.nn.Module, and returned {type(model).__name__}")
    problems = itertools.chain(
        _find_parameter_problems(model),
        _find_tensor_problems(model),
        _find_lost_hooks(model),
        _find_shared_memory(model),
        _find_unknown_fields(model, schema),
    )
    for problem in problems:
        raise ConfigError(f"task: {problem}")


def _find_parameter_problems(model: nn.Module) -> Iterator[str]:
    """Yields the problems of a model's number and shapes of parameters, as text."""
    parameters = list(trained_parameters(model))
    if not parameters:
        yield "there is nothing to train: no parameter of the model has requires_grad"
    if len(parameters) > MAX_ITEMS:
        yield f"the model has {len(parameters)} parameters, and at most {MAX_ITEMS} can be trained: join some"
    for name, parameter in parameters:
        if isinstance(parameter, UninitializedParameter):
            yield f"parameter {name} has no shape before the first batch (a lazy module): say its shape"
        elif parameter.numel() == 0:
            yield f"parameter {name} has no elements, its shape is {tuple(parameter.shape)}: leave it out of the model"


def _find_tensor_problems(model: nn.Module) -> Iterator[str]:
    """Yields the parameters and buffers whose dtype or layout the runtime can't handle, as text."""
    for name, tensor in (*trained_parameters(model), *untrained_tensors(model)):
        if tensor.dtype not in DTYPES:
            allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
            yield f"{name} is {tensor.dtype}, which a checkpoint can't hold; allowed: {allowed}"
        if tensor.layout != torch.strided:
            yield f"{name} is {tensor.layout}; only dense tensors can be shared between processes"


def _find_lost_hooks(model: nn.Module) -> Iterator[str]:
    """Yields the tables with hooks for their gradients, which the runtime does not call, as text."""
    hooked = {id(table.weight) for table in find_row_sparse_tables(model) if any(count_hooks(table.weight))}
    for name, parameter in trained_parameters(model):
        if id(parameter) in hooked:
            yield (
                f"parameter {name} has a hook for its gradient, of which there are but the rows that a batch touches, "
                "and no hook gets them: scale what the layer gives, or freeze it in build_model (requires_grad_(False))"
            )


def _find_shared_memory(model: nn.Module) -> Iterator[str]:
    """Yields the parameters and buffers that overlap in memory with other tensors, as text.

    In a run each tensor has memory of its own, so a change of one would not change the others.
    """
    model_tensors = all_tensors(model)
    model_names = {name for name, _ in model_tensors}
    attributes = [(each.path, each.value) for each in select_tensors(find_attributes(None, model))]
    by_storage = defaultdict[int, list[tuple[str, Tensor]]](list)
    for name, tensor in (*model_tensors, *attributes):
        if not isinstance(tensor, UninitializedParameter) and tensor.layout == torch.strided and tensor.numel():
            by_storage[tensor.untyped_storage()._cdata].append((name, tensor))
    for tensors in by_storage.values():
        for (name, tensor), (other_name, other_tensor) in itertools.combinations(tensors, 2):
            if name not in model_names or not _overlap(tensor, other_tensor):
                continue
            if other_name in model_names:
                advice = "share the parameter itself (b.weight = a.weight, not its data), or make one a clone()"
            else:
                advice = "make the view in forward, or a clone()"
            yield f"{name} and {other_name} lie in the same memory, and in a run they would be two: {advice}"


def _overlap(first: Tensor, second: Tensor) -> bool:
    """Returns whether two views of the same memory have a byte in common."""
    (first_begin, first_end), (second_begin, second_end) = _byte_range(first), _byte_range(second)
    if first_end <= second_begin or second_end <= first_begin:
        return False
    if first.is_contiguous() and second.is_contiguous():
        return True
    begin, end = min(first_begin, second_begin), max(first_end, second_end)
    is_used = torch.zeros(end - begin, dtype=torch.uint8, device="cpu")
    _view_bytes(first, is_used, begin).fill_(1)
    return bool(_view_bytes(second, is_used, begin).any())


def _byte_range(tensor: Tensor) -> tuple[int, int]:
    """Returns the first byte of a tensor in its storage, and the byte after its last one."""
    begin = int(tensor.storage_offset())
    last = begin + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin * tensor.element_size(), (last + 1) * tensor.element_size()


def _view_bytes(tensor: Tensor, memory: Tensor, begin: int) -> Tensor:
    """Returns a view of a tensor's bytes in `memory`, which represents its storage from byte `begin` on.

    Expanded dimensions (stride 0) are in the view once.
    """
    size = tensor.element_size()
    shape = [1 if stride == 0 else length for length, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    strides = [stride * size for stride in tensor.stride()]
    return memory.as_strided((*shape, size), (*strides, 1), _byte_range(tensor)[0] - begin)


def _find_unknown_fields(model: nn.Module, schema: BatchSchema) -> Iterator[str]:
    """Yields the sparse layers whose field the batches do not have, as text."""
    fields = [field.name for field in schema.sparse]
    listed = ", ".join(fields) or "none"
    for name, layer in model.named_modules():
        if isinstance(layer, SparseLinear) and layer.field not in fields:
            layer_name = name or type(layer).__name__
            yield f"layer {layer_name}: the data have no sparse field {layer.field!r}; there are {listed}"
