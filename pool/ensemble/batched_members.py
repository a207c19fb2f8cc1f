"""Computes the dense layers of all members of an ensemble together, with torch.func.vmap.

A member is one network. Each product of a layer becomes one batched product over the members' stacked weights. Sparse
tables are not stacked. Each member's own SparseLinear is called, with the same plan of the batch. Gradients arrive at
the parameters of their member, as if it had been computed alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from loader.plugins.error_text import format_error
from pool.device.memory import is_out_of_memory
from pool.ensemble.bindings import Bindings
from pool.ensemble.execution import Execution
from pool.ensemble.member import Member
from pool.nn.batch import SparseInput, TensorBatch
from pool.nn.generators import python_and_numpy_state
from pool.nn.sparse_linear import SparseLinear
from pool.task.attributes import comparable_values, find_attributes, move_to_device
from pool.task.task import Progress, Task

log = logging.getLogger(__name__)
_PREFIX = "model."  # of the names of the model's tensors within `_Loss`


class BatchedMembers:
    """An Execution that computes the losses of all members at once.

    A batch for which that fails is computed by another Execution, one member after the other. The choice is made for
    each batch, so that the bits of a batch depend only on the models, the batch and the step (invariant I2), and not
    on earlier batches.
    """

    def __init__(self, members: Sequence[Member], sequential: Execution) -> None:
        """Stacks members with equal settings. `sequential`: computes the batches that can't be computed for all at
        once."""
        groups = group_equal_members(members)
        self.stacks = [Stack(group, [members[index] for index in group]) for group in groups]
        stacked_order = torch.tensor([index for group in groups for index in group])
        self._order = stacked_order.argsort()  # where each member's loss is among those of all stacks
        self._one_by_one = sequential
        self._seed = members[0].seed
        self._warned = False

    def losses(self, batch: TensorBatch, progress: Progress, frozen: Collection[int] = ()) -> Iterator[Tensor]:
        """Yields one tensor [members] with the losses of all members.

        Frozen members are computed too, without gradients, because the bits of the others may depend on how many
        members there are.
        """
        try:
            losses = self.compute_together(batch, progress, frozen)
            for stack in self.stacks:
                stack.store_buffers(frozen)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            self._warn_once(batch, error)
            yield from self._one_by_one.losses(batch, progress, frozen)
            return
        yield losses

    def compute_together(self, batch: TensorBatch, progress: Progress, frozen: Collection[int] = ()) -> Tensor:
        """Returns the losses [members]. Buffers of the models are not changed.

        Raises the errors of torch for what can't be computed for all members at once. Random numbers are an example,
        because there is no common seed.
        """
        seeded = replace(progress, seed=self._seed)
        losses = torch.cat([stack.losses(batch, seeded, frozen) for stack in self.stacks])
        return losses[self._order.to(losses.device)]

    def _warn_once(self, batch: TensorBatch, error: Exception) -> None:
        """Logs, for the first such batch, that members are computed one after the other, and why."""
        if self._warned:
            return
        self._warned = True
        log.warning("batch %d: members are computed one after the other: %s", batch.number, format_error(error))


def group_equal_members(members: Sequence[Member]) -> list[list[int]]:
    """Groups the indices of members that have equal settings and attributes, in the order of first members."""
    groups: list[list[int]] = []
    settings = [(member.settings, comparable_values(member.attributes)) for member in members]
    for index in range(len(members)):
        for group in groups:
            if settings[group[0]] == settings[index]:
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


def sparse_parameters(model: nn.Module) -> Iterator[nn.Parameter]:
    """Yields the parameters of a model's SparseLinear layers."""
    for module in model.modules():
        if isinstance(module, SparseLinear):
            yield from module.parameters()


class Stack:
    """Computes a group of members of equal structure and settings, as a function of their stacked tensors."""

    def __init__(self, indices: Sequence[int], members: Sequence[Member]) -> None:
        """Builds the stacked model of these members. `indices`: theirs in the run."""
        self._indices = indices
        models = [member.model for member in members]
        task = members[0].task
        self.model = members[0].build_meta_copy()  # its weights have no values; each call passes them
        constants = find_attributes(task, self.model)
        move_to_device(constants, next(models[0].parameters()).device)
        self.model.train()
        self._loss = _Loss(task, self.model)
        self._shapes: dict[str, Tensor] = {}
        self._parameters: dict[str, list[Tensor]] = {}
        sparse = {id(parameter) for parameter in sparse_parameters(self.model)}
        for name, parameter in self.model.named_parameters():
            if id(parameter) in sparse:  # only the shape is used; the members' own layers are called
                self._shapes[_PREFIX + name] = parameter.detach().expand(len(models), *parameter.shape)
            else:
                self._parameters[_PREFIX + name] = [model.get_parameter(name) for model in models]
        self._layers = [
            (layer, [_sparse_layer(model, name) for model in models])
            for name, layer in self.model.named_modules()
            if isinstance(layer, SparseLinear)
        ]
        self._buffers = {
            _PREFIX + name: [model.get_buffer(name) for model in models] for name, _ in self.model.named_buffers()
        }
        self._new_buffers: Mapping[str, Tensor] = {}
        self._bindings = Bindings(self.model, constants)

    def losses(self, batch: TensorBatch, progress: Progress, frozen: Collection[int]) -> Tensor:
        """Returns the losses [members] of a batch for this group. Raises what the task or torch raises."""
        is_trained = [index not in frozen for index in self._indices]
        parameters = {
            name: torch.stack(_detach_frozen(tensors, is_trained)) for name, tensors in self._parameters.items()
        }
        buffers = {name: torch.stack(tensors) for name, tensors in self._buffers.items()}
        for layer, member_layers in self._layers:
            layer.members = [
                member_layer if grad else _without_gradient(member_layer)
                for member_layer, grad in zip(member_layers, is_trained, strict=True)
            ]
        tensors = {**self._shapes, **parameters, **buffers}

        def member_loss(tensors: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            loss: Tensor = functional_call(self._loss, tensors, (batch, progress))
            return loss.reshape(()), {name: tensors[name] for name in buffers}  # buffers after the call

        generators = python_and_numpy_state()
        losses: Tensor
        losses, self._new_buffers = vmap(member_loss, randomness="error")(tensors)
        if python_and_numpy_state() != generators:
            raise RuntimeError("a random operation: of Python's generator or numpy's")
        problem = self._bindings.find_problem()
        if problem:
            raise RuntimeError(f"loss {problem}")
        self._check_buffers(buffers)
        if torch.is_grad_enabled() and any(is_trained) and not losses.requires_grad:
            raise RuntimeError("the losses have no gradient")
        for name, parameter in parameters.items():
            if parameter._version:
                raise RuntimeError(f"{name.removeprefix(_PREFIX)} is changed in place")
        return losses

    def _check_buffers(self, buffers: Mapping[str, Tensor]) -> None:
        """Raises RuntimeError if a buffer's new value has another shape or dtype."""
        for name, buffer in buffers.items():
            new = self._new_buffers[name]
            if new.shape != buffer.shape or new.dtype != buffer.dtype:
                raise RuntimeError(f"{name.removeprefix(_PREFIX)} changes its shape or dtype")

    @torch.no_grad()
    def store_buffers(self, frozen: Collection[int]) -> None:
        """Copies the buffers' new values, from the last call of `losses`, to the buffers of each member that is not
        frozen."""
        for name, stacked in self._new_buffers.items():
            for index, buffer, new in zip(self._indices, self._buffers[name], stacked, strict=True):
                if index not in frozen:
                    buffer.copy_(new)


class _Loss(nn.Module):
    """Wraps a task's loss as a module, so that `functional_call` can replace the tensors of its model."""

    def __init__(self, task: Task, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._task = task

    def forward(self, batch: TensorBatch, progress: Progress) -> Tensor:
        return self._task.loss(self.model, batch, progress)


def _detach_frozen(parameters: Sequence[Tensor], is_trained: Sequence[bool]) -> list[Tensor]:
    """Returns the parameters of the members, detached for those that are not trained."""
    return [tensor if grad else tensor.detach() for tensor, grad in zip(parameters, is_trained, strict=True)]


def _without_gradient(layer: SparseLinear) -> Callable[[SparseInput], Tensor]:
    """Wraps a layer so that it is called without recording gradients."""
    return torch.no_grad()(layer)


def _sparse_layer(model: nn.Module, name: str) -> SparseLinear:
    layer = model.get_submodule(name)
    assert isinstance(layer, SparseLinear)
    return layer
