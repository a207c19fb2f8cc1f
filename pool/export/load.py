"""Loads the networks of a checkpoint with their task, built as the run built them.

A checkpoint may come from anybody. Of what it names, only tasks of this program are imported, and others only if the
caller names them too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from loader.plugins.error_text import format_error_with_location
from loader.section import Section
from pool.checkpoint.compare_tensors import first_difference, header_specs, model_specs
from pool.checkpoint.folder import find_checkpoint
from pool.checkpoint.state import STATE
from pool.checkpoint.store import load_weights
from pool.errors import CheckpointError, ConfigError, PoolError
from pool.exchange.layout import member_prefix
from pool.exchange.tensors import all_tensors, replace_tensors, tensor_specs
from pool.export.member import (
    NEWEST,
    Choice,
    MemberId,
    check_can_average,
    diverged_members,
    find_member,
    format_excluded,
    read_members,
    require_one_member,
)
from pool.run_folder import strict_json
from pool.task.factory import MAX_MODEL_NBYTES, ModelTooLargeError, TensorBytesLimit, build_model, make_task
from pool.task.registry import is_bundled, load_task_module
from pool.task.start import KEY, model_class
from pool.task.task import Task


@dataclass(frozen=True)
class TrainedNetwork:
    """Holds a network with its weights and task, loaded from a checkpoint."""

    checkpoint: Path
    config: Mapping[str, Any]  # of its own run, from the checkpoint, so not to be trusted
    name: str  # of the task
    task: Task
    model: nn.Module
    description: str  # text of the file that the network was read from; "" if there was none
    label: str = ""  # which of the checkpoint's networks this is; "" if there is no choice
    excluded: str = ""  # which members a mean excludes, and why, as text

    def __str__(self) -> str:
        """Returns the path of the checkpoint, and which of its networks it is."""
        return f"{self.checkpoint}, {self.label}" if self.label else str(self.checkpoint)


def load_network(path: Path, task: str | None, choice: Choice = NEWEST) -> TrainedNetwork:
    """Loads the network of a checkpoint, or of the newest checkpoint of a run, for `pool export`.

    `task`: the task's name as the caller knows it, required unless the task is built in. Raises CheckpointError for
    a bad checkpoint, or if averaged weights are chosen and it has none. Raises ConfigError for another task, or if
    there are several members and none is chosen.
    """
    checkpoint = _Checkpoint(path, task, "export", averaged=choice.averaged)
    if choice.average:
        return checkpoint.load_average()
    if choice.member is not None:
        return checkpoint.load_chosen(choice.member)
    require_one_member(checkpoint.path, checkpoint.members)
    return checkpoint.load_member(0)


def load_networks(path: Path, task: str | None, verb: str, choice: Choice = NEWEST) -> tuple[TrainedNetwork, ...]:
    """Loads the chosen member of a checkpoint; without a choice all members that have not diverged.

    `verb`: name of the command, for messages. Raises as `load_network`, but never because no member is chosen.
    """
    checkpoint = _Checkpoint(path, task, verb, averaged=choice.averaged)
    if choice.member is not None:
        return (checkpoint.load_chosen(choice.member),)
    excluded = format_excluded(checkpoint.diverged)
    return tuple(replace(checkpoint.load_member(index), excluded=excluded) for index in checkpoint.averaged_members)


def build_initial_model(trained: TrainedNetwork) -> nn.Module | None:
    """Builds the model with the weights with which its run began.

    Returns None if these are not known, because the run began with other weights than its task initializes, or if
    the model is too large to build twice.
    """
    settings = trained.config.get("model")
    if isinstance(settings, Mapping) and settings.get(KEY):
        return None
    seed = _model_seed(trained.config)
    try:
        with TensorBytesLimit(MAX_MODEL_NBYTES):
            model = build_model(trained.task, seed)
        with torch.no_grad():
            trained.task.initialize(model)
    except Exception:  # the task's code may fail, though it has built this model before
        return None
    return model


def describe_networks(members: Sequence[TrainedNetwork]) -> str:
    """Names the networks that a command uses, for the user."""
    first = members[0]
    if len(members) == 1:
        return f"{first}{first.excluded}"
    return f"{first.checkpoint}, the mean of {len(members)} members{first.excluded}"


class _Checkpoint:
    """Loads networks of a checkpoint. Raises ConfigError and CheckpointError when the checkpoint is opened."""

    def __init__(self, path: Path, task: str | None, verb: str, *, averaged: bool) -> None:
        self.path = find_checkpoint(path)
        self._averaged = averaged
        self._weights = load_weights(self.path, averaged=averaged)
        config = self._weights.state.config
        self._name = _task_name(config, task, self.path, verb)
        self.members = read_members(self.path, self._weights.state)
        self.diverged = diverged_members(self._weights.state)
        prefixes = tuple(member_prefix(index, len(self.members)) for index in range(len(self.members)))
        stray = [name for name in self._weights.tensors if not name.startswith(prefixes)]
        if stray:
            raise CheckpointError(
                f"{self.path}: {strict_json.printable(min(stray))}: a tensor of no member of the config"
            )

    @property
    def averaged_members(self) -> list[int]:
        """Returns the members over which a mean is computed: those that have not diverged, or all if all have."""
        return [index for index in range(len(self.members)) if index not in self.diverged]

    def load_chosen(self, member: MemberId) -> TrainedNetwork:
        """Returns the member with a number, or the best one."""
        return self.load_member(*find_member(self.path, self._weights.state, member))

    def load_member(self, index: int, reason: str = "") -> TrainedNetwork:
        """Returns a member by its index. `reason`: text that explains the choice."""
        name = f"member {index}" if len(self.members) > 1 else ""
        texts = [name, reason, "averaged weights" if self._averaged else ""]
        label = ", ".join(text for text in texts if text)
        return self._build_network(index, self._member_tensors(index), label)

    def load_average(self) -> TrainedNetwork:
        """Returns a network with the mean of all members' weights. Raises ConfigError if they can't be averaged."""
        check_can_average(self.path, self.members)
        members = {index: self._member_tensors(index) for index in self.averaged_members}
        first = self.averaged_members[0]
        if len(members) == 1:
            return self.load_member(first)
        for index, tensors in members.items():
            _, model = self._build_model(index)
            self._check_tensors(index, tensors, model)
        means = {name: _mean([tensors[name] for tensors in members.values()]) for name in members[first]}
        label = f"the average of {len(members)} members{format_excluded(self.diverged)}"
        return self._build_network(first, means, label)

    def _member_tensors(self, index: int) -> dict[str, Tensor]:
        """Returns the tensors of a member, by their names in its model. Raises CheckpointError if it has no
        averaged weights."""
        prefix = member_prefix(index, len(self.members))
        tensors = {
            name.removeprefix(prefix): tensor
            for name, tensor in self._weights.tensors.items()
            if name.startswith(prefix)
        }
        if self._averaged and not tensors:
            raise CheckpointError(f"{self.path}: member {index} has no averaged weights: it stopped before the first")
        return tensors

    def _build_network(self, index: int, tensors: Mapping[str, Tensor], label: str) -> TrainedNetwork:
        """Returns the network of a member, with these tensors loaded into its model."""
        task, model = self._build_model(index)
        self._check_tensors(index, tensors, model)
        replace_tensors(model, [tensors[name] for name, _ in all_tensors(model)])
        description = self._weights.state.description.encode("latin-1").decode("utf-8", "surrogateescape")
        return TrainedNetwork(self.path, self.members[index], self._name, task, model, description, label)

    def _build_model(self, index: int) -> tuple[Task, nn.Module]:
        """Builds the task and model of a member as the run did. Raises CheckpointError."""
        module = load_task_module(self._name)
        config = self.members[index]
        seed = _model_seed(config)
        location = f"{self.path / STATE}: config"
        model = _parse_section(model_class(module), config.get("model"), f"{location}.model")
        loss = _parse_section(module.LossConfig, config.get("loss"), f"{location}.loss")
        try:
            task = make_task(self._name, model, loss, seed)
            return task, _build_model_of(task, seed)
        except PoolError:
            raise
        except Exception as error:  # the task's code may raise anything for a checkpoint's settings
            raise CheckpointError(
                f"{self.path}: the task can't build the model of its config: {format_error_with_location(error)}"
            ) from None

    def _check_tensors(self, index: int, tensors: Mapping[str, Tensor], model: nn.Module) -> None:
        """Raises CheckpointError if tensors do not match a model in name, dtype or shape."""
        prefix = member_prefix(index, len(self.members))
        header = {name: self._weights.header[prefix + name] for name in tensors}
        parameters, buffers = tensor_specs(model)
        if difference := first_difference(header_specs(header), model_specs((*parameters, *buffers))):
            member = f"member {index}: " if prefix else ""
            raise CheckpointError(f"{self.path}: {member}{difference}")


def _build_model_of(task: Task, seed: int) -> nn.Module:
    """Builds a task's model, on torch's meta device if the model is too large to be built with values."""
    try:
        with TensorBytesLimit(MAX_MODEL_NBYTES):
            return build_model(task, seed)
    except ModelTooLargeError:
        return build_model(task, seed, on_meta=True)


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    """Returns the mean of tensors, summed in double precision in the order of members.

    Of tensors that are neither real nor complex (integers) the first is returned.
    """
    first = tensors[0]
    if not (first.is_floating_point() or first.is_complex()):
        return first
    total = first.to(torch.promote_types(first.dtype, torch.float64))
    for tensor in tensors[1:]:
        total = total + tensor
    return (total / len(tensors)).to(first.dtype)


def _task_name(config: Mapping[str, Any], trusted: str | None, checkpoint: Path, verb: str) -> str:
    """Returns the name of a checkpoint's task. Raises ConfigError unless it is built in or the caller names it too."""
    name = config.get("task")
    if not isinstance(name, str):
        raise strict_json.foreign_content_error(checkpoint / STATE, "config.task: a name is expected")
    if trusted is not None and trusted != name:
        raise ConfigError(f"--task {trusted}: the task of {checkpoint} is {strict_json.printable(name)}")
    if trusted is None and not is_bundled(name):
        raise ConfigError(
            f"the task of {checkpoint} is the module {strict_json.printable(name)}; {verb} imports it, and so runs it, "
            f"only if you name it too: --task {strict_json.printable(name)}"
        )
    return name


def _model_seed(config: Mapping[str, Any]) -> int:
    """Returns the seed of a member's initial weights; 0 if the config has none."""
    run = config.get("run")
    if not isinstance(run, Mapping):
        return 0
    for seed in (run.get("model_seed"), run.get("seed")):
        if isinstance(seed, int) and seed >= 0:
            return seed
    return 0


def _parse_section(cls: type[Section], values: Any, location: str) -> Section:
    """Validates a section of a checkpoint's config. Raises CheckpointError."""
    try:
        return cls.model_validate_json(json.dumps(values))
    except ValidationError as error:
        raise CheckpointError(f"{location}: {strict_json.describe_validation_error(error)}") from None
