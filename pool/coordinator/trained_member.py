"""The model and the optimizer of one member (network of an ensemble): made or restored, stepped bucket by bucket,
frozen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import nn

from loader.plugins.error_text import PluginError, definition_location
from pool.checkpoint.compare_tensors import first_difference
from pool.checkpoint.store import tensor_specs
from pool.config.tree import Config
from pool.coordinator.scheduler.actions import CopyBuffers
from pool.coordinator.update.bucket_steps import create_bucket_steps
from pool.coordinator.update.stopwatch import Stopwatch
from pool.coordinator.update.weight_average import WeightAverage
from pool.ensemble.bindings import Bindings
from pool.ensemble.member import Member
from pool.errors import CheckpointError
from pool.exchange.interface import CoordinatorExchange
from pool.exchange.plan import Bucket, Plan
from pool.exchange.tensors import (
    all_tensors,
    find_tied_names,
    find_transient_buffers,
    replace_tensors,
    trained_parameters,
    untrained_tensors,
)
from pool.nn.generators import seed_for_purpose
from pool.optim.buckets import BucketOptimizers
from pool.optim.joined_state import State
from pool.task.attributes import find_attributes, move_to_device
from pool.task.task import Task


class TrainedMember:
    """Owns one member's model and its optimizer. Version t of its weights lies in half t mod 2 of its memory."""

    def __init__(
        self,
        config: Config,
        member: Member,
        plan: Plan,
        exchange: CoordinatorExchange,
        stopwatch: Stopwatch,
        *,
        prefix: str = "",
    ) -> None:
        """Makes the member's optimizer and the objects that step its parameters. `config`, `plan`, `exchange`: the
        member's own. `prefix`: what the names of its tensors begin with in checkpoints."""
        self._task = member.task
        self._seed = member.seed
        self._generators = member.initial_generators
        # in host memory, to draw or load weights; None after `start`
        self._initial_model: nn.Module | None = member.model
        self._model = _create_stepped_model(member, exchange)
        self._prefix = prefix
        # tied: second names of tensors, with the name in `named`. transient: buffers that state_dict leaves out
        self.tied = {prefix + name: prefix + first for name, first in find_tied_names(self._model).items()}
        self.transient = [prefix + name for name in find_transient_buffers(self._model)]
        self._exchange = exchange
        self._parameters = _trained_parameters(self._model)
        self._buffers = _untrained_tensors(self._model)
        elsewhere = self._weights_on_other_devices(plan)
        self.optimizers = BucketOptimizers(plan, self._parameters, config.optimizer, config.run_schedule, elsewhere)
        self.steps = create_bucket_steps(config, plan, self.optimizers, exchange, stopwatch)
        self.average: WeightAverage | None = None
        if config.train.average.kind is not None:
            names = [prefix + name for name, _ in all_tensors(self._model)]
            self.average = WeightAverage(config.train.average, names, exchange.average(), len(self._parameters))
        self._has_new_buffers = False  # the next version's buffers were copied from a worker
        self.frozen_at: int | None = None  # the step before which it was frozen

    def _weights_on_other_devices(self, plan: Plan) -> dict[tuple[Bucket, int], torch.Tensor]:
        """Returns the memory of each bucket's part of a parameter that is stepped on another device than the model's,
        by bucket and parameter index."""
        elsewhere = {}
        for bucket in plan.buckets:
            for index in bucket.parameters:
                weights = self._exchange.shard(bucket, index).weights(0)
                if weights.device != self._parameters[index].device:
                    elsewhere[bucket, index] = weights
        return elsewhere

    @property
    def named_tensors(self) -> dict[str, torch.Tensor]:
        """The model's parameters and buffers by name. The next step changes them."""
        return self._name_tensors(self._model)

    def initialize(self, start: Mapping[str, torch.Tensor] | None = None) -> None:
        """Draws the initial weights by the task's `initialize`, or copies them from `start`, the weights of another
        run's checkpoint by name. Raises CheckpointError if they don't fit, PluginError if the task has changed the
        model in a way that the run can't carry on."""
        if self._generators is not None:
            self._generators.restore()  # random generators, so that the task's draws don't depend on other members
        assert self._initial_model is not None
        with torch.no_grad():
            bindings = Bindings(self._initial_model, weights_change=True)
            buffers = [buffer.detach() for buffer in _untrained_tensors(self._initial_model)]
            weights = [parameter.detach() for parameter in _trained_parameters(self._initial_model)]
            self._task.initialize(self._initial_model)
            _undo_replacements(bindings, buffers, weights, self._task.initialize)
            if start is not None:
                self._load_weights(start)

    def restore(
        self,
        weights: Mapping[str, torch.Tensor],
        optimizer: State,
        frozen_at: int | None,
        average: tuple[int, Mapping[str, torch.Tensor]],
    ) -> None:
        """Loads the weights and the optimizer state of a run that is resumed.

        `frozen_at`: the step before which the member was frozen, None if it is trained. `average`: how many versions
        were averaged, and their average by name. Raises CheckpointError if they don't fit.
        """
        with torch.no_grad():
            self._load_weights(weights)
        if self.average is not None:
            self.average.restore(*average)
        self.optimizers.load_state(*optimizer)
        self.frozen_at = frozen_at

    def start(self, step: int) -> None:
        """Copies the model's weights into the half of memory for version `step`, and lets the model use that memory
        from now on."""
        assert self._initial_model is not None
        initial = [*_trained_parameters(self._initial_model), *_untrained_tensors(self._initial_model)]
        for memory, tensor in zip(self._memory_of(step), initial, strict=True):
            memory.copy_(tensor.detach())
        self._initial_model = None
        held = find_attributes(self._task, self._model)
        move_to_device(held, self._parameters[0].device)
        self._bindings = Bindings(self._model, held, weights_change=True)
        for part in self.steps.parts:
            part.mark_overwritten()
        self._bind_memory(step)
        if self.frozen_at is not None:
            self._copy_version(step)

    def copy_buffers(self, action: CopyBuffers) -> None:
        """Copies the model's buffers to version step + 1 from where the worker of the step's first batch has left them.
        If the action names no source, version step + 1 will have the buffers of version `step`."""
        self._has_new_buffers = action.source is not None
        if action.source is not None:
            self._write_buffers(self._exchange.contribution_buffers(action.source), action.step + 1)

    def freeze(self, step: int) -> None:
        """Ends the member's training. Both halves of the weights' memory hold version `step` from now on."""
        self.frozen_at = step
        self._copy_version(step)

    def _copy_version(self, step: int) -> None:
        """Copies version `step` of the weights into the memory of the next one."""
        for new, old in zip(self._memory_of(step + 1), self._memory_of(step), strict=True):
            new.copy_(old)

    def complete_version(self, step: int) -> None:
        """Writes what is still missing of version step + 1: the buffers, and the buckets that are stepped all at once.
        What the task does after a step is left to `commit`. Does nothing for a frozen member."""
        if self.frozen_at is not None:
            return
        if not self._has_new_buffers:
            self._write_buffers(self._exchange.buffers(step), step + 1)
        self._has_new_buffers = False
        if self.steps.global_norm_step is not None:
            self.steps.global_norm_step.step(step)
        self._exchange.gather_version()

    def commit(self, step: int) -> None:
        """Runs the task's `after_step`, which may change version step + 1, and moves the learning rate schedule on.
        Does nothing for a frozen member."""
        if self.frozen_at is not None:
            return
        self._bind_memory(step + 1)
        self._run_after_step(step + 1)
        self.optimizers.end_step(step)

    def copy_early(self, version: int) -> None:
        """Copies to the next version of the weights what can be copied before its gradients are there, while the
        workers compute with `version`. Does nothing for a frozen member."""
        if self.frozen_at is None:
            for part in self.steps.parts:
                part.copy_early(version)

    def update_average(self, version: int) -> None:
        """Adds a complete version of the weights to the running average, if there is one and the member is not
        frozen."""
        if self.average is not None and self.frozen_at is None:
            self.average.add_version(version, self._memory_of(version))

    def prepare_average(self, version: int) -> None:
        """Prepares the running average of the weights to be validated together with `version`."""
        if self.average is not None:
            self.average.fill_if_empty(self._memory_of(version))

    @property
    def _tensors(self) -> list[torch.Tensor]:
        return [*self._parameters, *self._buffers]

    def _memory_of(self, version: int) -> list[torch.Tensor]:
        """Returns the memory of a version's parameters and buffers, in the order of `_tensors`."""
        return [*self._exchange.weights(version), *self._exchange.buffers(version)]

    def _name_tensors(self, model: nn.Module) -> dict[str, torch.Tensor]:
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        return {self._prefix + name: tensor for name, tensor in tensors.items()}

    def _load_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Copies weights by name into the model that was made. Raises CheckpointError if names, shapes or dtypes
        differ."""
        assert self._initial_model is not None
        tensors = self._name_tensors(self._initial_model)
        if difference := first_difference(tensor_specs(weights), tensor_specs(tensors)):
            raise CheckpointError(f"weights are not the model's: {difference}")
        for name, tensor in tensors.items():
            tensor.copy_(weights[name])

    def _run_after_step(self, version: int) -> None:
        """Lets the task change the weights of a version (`Task.after_step`). Every row of a parameter that the task
        writes counts as changed. Raises PluginError if the task has changed the model in a way that the run can't carry
        on."""
        after_step = self._task.after_step
        if getattr(after_step, "__func__", None) is Task.after_step:  # does nothing, and workers wait for this
            return
        counts = [parameter._version for parameter in self._parameters]  # torch's count of changes in place
        seed_for_purpose(self._seed, f"step {version}", torch.device("cpu"))  # seeding a device would wait for it
        with torch.no_grad():
            after_step(self._model)
        _undo_replacements(self._bindings, self._exchange.buffers(version), self._exchange.weights(version), after_step)
        for part in self.steps.parts:
            if self._parameters[part.index]._version != counts[part.index]:
                part.mark_overwritten()

    def _write_buffers(self, source: Iterable[torch.Tensor], version: int) -> None:
        for buffer, new in zip(self._exchange.buffers(version), source, strict=True):
            buffer.copy_(new)

    def _bind_memory(self, version: int) -> None:
        """Lets the model's tensors use the memory in which a version of the weights lies."""
        for memory, tensor in zip(self._memory_of(version), self._tensors, strict=True):
            tensor.data = memory


def _undo_replacements(
    bindings: Bindings, buffers: Sequence[torch.Tensor], weights: Sequence[torch.Tensor], method: Callable[..., object]
) -> None:
    """Undoes the replacement of tensors by a method of the task: writes a new tensor's numbers into the memory of the
    one that it has replaced. `buffers`, `weights`: that memory. Raises PluginError for a change that the run can't
    carry on."""
    if problem := bindings.restore_tensors(buffers, weights):
        raise PluginError(f"{method.__name__} {problem} ({definition_location(method)})")


def _create_stepped_model(member: Member, exchange: CoordinatorExchange) -> nn.Module:
    """Returns the model whose weights the optimizer steps: the member's own in host memory, or a second one whose
    tensors lie on the device of the exchange."""
    weights = [*exchange.weights(0), *exchange.buffers(0)]
    if weights[0].device.type == "cpu":
        return member.model
    model = member.build_meta_copy()
    replace_tensors(model, [tensor.data for tensor in weights])
    return model


def _trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for _, parameter in trained_parameters(model)]


def _untrained_tensors(model: nn.Module) -> list[torch.Tensor]:
    return [tensor for _, tensor in untrained_tensors(model)]
