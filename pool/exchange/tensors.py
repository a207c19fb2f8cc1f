"""Makes torch tensors according to a plan: views of parameters, gradients and buffers in one block of memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pool.exchange import plan as plans
from pool.nn.sparse_linear import SparseLinear


def torch_dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype), name
    return dtype


def view_array_as_tensors(memory: npt.NDArray[np.uint8], tensors: Iterable[plans.Tensor]) -> list[torch.Tensor]:
    """Returns zero-copy tensors at the planned offsets in host memory (uint8, Plan.nbytes)."""
    return view_as_tensors(torch.from_numpy(memory), tensors)


def view_as_tensors(memory: torch.Tensor, tensors: Iterable[plans.Tensor]) -> list[torch.Tensor]:
    """Returns zero-copy tensors at the planned offsets in the memory of any device (uint8, Plan.nbytes)."""
    return [memory[t.offset : t.offset + t.nbytes].view(torch_dtype(t.dtype)).view(t.shape) for t in tensors]


def bucket_rows(tensor: torch.Tensor, bucket: plans.Bucket) -> torch.Tensor:
    """Returns the rows of a parameter-shaped tensor that the bucket holds, or all of the tensor if the bucket has no
    rows."""
    return tensor if bucket.rows is None else tensor[bucket.rows[0] : bucket.rows[1]]


def trained_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yields the names and parameters that the optimizer changes."""
    return ((name, p) for name, p in model.named_parameters() if p.requires_grad)


def untrained_tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the names and tensors that are not trained but belong to the weights: parameters without gradients, then
    buffers."""
    yield from ((name, p) for name, p in model.named_parameters() if not p.requires_grad)
    yield from model.named_buffers()


def all_tensors(model: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Returns all tensors of a model with their names, in the order of a plan: trained parameters, then what is not
    trained."""
    return [*trained_parameters(model), *untrained_tensors(model)]


def find_row_sparse_tables(model: nn.Module) -> Iterator[SparseLinear]:
    """Yields the sparse layers whose gradient travels as the rows that a batch touched.

    The native reduction of rows knows float32 only. Where the table is computed from other parameters (a
    parametrization), the gradients of those travel instead, whole.
    """
    for module in model.modules():
        if isinstance(module, SparseLinear) and "weight" in module._parameters and module.weight.dtype == torch.float32:
            yield module


def tensor_specs(model: nn.Module) -> tuple[list[plans.TensorSpec], list[plans.TensorSpec]]:
    """Returns the names, shapes and types from which a plan is made: of trained parameters, then of tensors that are
    not trained."""
    fields = {id(table.weight): table.field for table in find_row_sparse_tables(model)}

    def make_spec(name: str, tensor: torch.Tensor) -> plans.TensorSpec:
        dtype = str(tensor.dtype).removeprefix("torch.")
        sparse_field = fields.get(id(tensor))
        return plans.TensorSpec(name, tuple(tensor.shape), dtype, tensor.element_size(), sparse_field)

    parameters = [make_spec(name, parameter) for name, parameter in trained_parameters(model)]
    buffers = [make_spec(name, tensor) for name, tensor in untrained_tensors(model)]
    return parameters, buffers


def replace_tensors(model: nn.Module, tensors: Iterable[torch.Tensor]) -> None:
    """Gives a model's tensors the memory of other tensors, in the order of `all_tensors`.

    The tensors stay the same objects. So all names of one, its hooks and attributes, and whatever else in the model
    refers to it have the new memory.
    """
    for (_, tensor), source in zip(all_tensors(model), tensors, strict=True):
        _swap_memory(tensor, source)


def _swap_memory(tensor: torch.Tensor, source: torch.Tensor) -> None:
    """Gives a tensor the memory of another one and keeps its hooks.

    The implementations are swapped, since torch refuses `tensor.data = source` from the meta device.
    """
    implementation = source.data  # a tensor whose version counter is its own
    if isinstance(tensor, nn.Parameter):
        implementation.requires_grad_(tensor.requires_grad)
    hooks, later_hooks = tensor._backward_hooks, tensor._post_accumulate_grad_hooks
    torch._C._swap_tensor_impl(tensor, implementation)
    tensor._backward_hooks, tensor._post_accumulate_grad_hooks = hooks, later_hooks


def count_hooks(parameter: torch.Tensor) -> tuple[int, int]:
    """Returns how many hooks a parameter's gradient has: from register_hook, and from
    register_post_accumulate_grad_hook."""
    return len(parameter._backward_hooks or ()), len(parameter._post_accumulate_grad_hooks or ())


def find_tied_names(model: nn.Module) -> dict[str, str]:
    """Returns, for tensors with several names in the model, each further name with the tensor's first name."""
    named = *model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)
    first_names: dict[int, str] = {}
    tied: dict[str, str] = {}
    for name, tensor in named:
        first_name = first_names.setdefault(id(tensor), name)
        if name != first_name:
            tied[name] = first_name
    return tied


def find_transient_buffers(model: nn.Module) -> list[str]:
    """Returns the names of the buffers that the model's own state_dict leaves out of a checkpoint
    (persistent=False)."""
    modules = dict(model.named_modules())
    transient: list[str] = []
    for name, _ in model.named_buffers():
        path, _, leaf = name.rpartition(".")
        if leaf in modules[path]._non_persistent_buffers_set:
            transient.append(name)
    return transient
