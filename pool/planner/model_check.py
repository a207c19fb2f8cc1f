"""Rejects models that the runtime can't train, before a run begins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
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
    for problem in (*_problems(model), *_unknown_fields(model, schema)):
        raise ConfigError(f"task: {problem}")


def _problems(model: nn.Module) -> Iterator[str]:
    """Yields the problems of a model's parameters and buffers, as text."""
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
    for name, tensor in (*parameters, *untrained_tensors(model)):
        if tensor.dtype not in DTYPES:
            known = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
            yield f"{name} is {tensor.dtype}, which a checkpoint can't hold; allowed: {known}"
        if tensor.layout != torch.strided:
            yield f"{name} is {tensor.layout}; only dense tensors can be shared between processes"
    hooked = {id(table.weight) for table in find_row_sparse_tables(model) if any(count_hooks(table.weight))}
    for name, parameter in parameters:
        if id(parameter) in hooked:
            yield (
                f"parameter {name} has a hook for its gradient, of which there are but the rows that a batch touches, "
                "and no hook gets them: scale what the layer gives, or freeze it in build_model (requires_grad_(False))"
            )
    yield from _sharing(model)


def _sharing(model: nn.Module) -> Iterator[str]:
    """Yields the parameters and buffers that overlap in memory with other tensors, as text.

    In a run each has memory of its own, so a change of one would not reach the other.
    """
    own = all_tensors(model)
    others = [(each.path, each.value) for each in select_tensors(find_attributes(None, model))]
    of_memory = defaultdict[int, list[tuple[str, Tensor]]](list)
    for name, tensor in (*own, *others):
        if not isinstance(tensor, UninitializedParameter) and tensor.layout == torch.strided and tensor.numel():
            of_memory[tensor.untyped_storage()._cdata].append((name, tensor))
    names = {name for name, _ in own}
    for neighbours in of_memory.values():
        for (name, one), (other_name, other) in combinations(neighbours, 2):
            if name in names and _overlap(one, other):
                way_out = (
                    "share the parameter itself (b.weight = a.weight, not its data), or make one a clone()"
                    if other_name in names
                    else "make the view in forward, or a clone()"
                )
                yield f"{name} and {other_name} lie in the same memory, and in a run they would be two: {way_out}"


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Returns whether two views of the same memory have a byte in common."""
    (begin, end), (other_begin, other_end) = _span(one), _span(other)
    if end <= other_begin or other_end <= begin:
        return False
    if one.is_contiguous() and other.is_contiguous():
        return True
    begin, end = min(begin, other_begin), max(end, other_end)
    marks = torch.zeros(end - begin, dtype=torch.uint8, device="cpu")
    _bytes_of(one, marks, begin).fill_(1)
    return bool(_bytes_of(other, marks, begin).any())


def _span(tensor: Tensor) -> tuple[int, int]:
    """Returns the first byte of a tensor in its storage, and the byte after its last one."""
    begin = int(tensor.storage_offset())
    last = begin + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin * tensor.element_size(), (last + 1) * tensor.element_size()


def _bytes_of(tensor: Tensor, memory: Tensor, begin: int) -> Tensor:
    """Returns a view of a tensor's bytes in `memory`, which represents its storage from byte `begin` on.

    Expanded dimensions (stride 0) are in the view once.
    """
    size = tensor.element_size()
    shape = [1 if stride == 0 else length for length, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    strides = [stride * size for stride in tensor.stride()]
    return memory.as_strided((*shape, size), (*strides, 1), _span(tensor)[0] - begin)


def _unknown_fields(model: nn.Module, schema: BatchSchema) -> Iterator[str]:
    """Yields the sparse layers whose field the batches do not have, as text."""
    fields = [entry.name for entry in schema.sparse]
    known = ", ".join(fields) or "none"
    for name, layer in model.named_modules():
        if isinstance(layer, SparseLinear) and layer.field not in fields:
            called = name or type(layer).__name__
            yield f"layer {called}: the data have no sparse field {layer.field!r}; there are {known}"
