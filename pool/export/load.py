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
    check_average,
    check_one,
    choose,
    diverged_members,
    left_out,
    members_of,
)
from pool.run_folder import strict_json
from pool.task.factory import MAX_MODEL_NBYTES, ModelTooLargeError, TensorBytesLimit, build_model, make_task
from pool.task.registry import is_bundled, load_task_module
from pool.task.start import KEY, model_class
from pool.task.task import Task


@dataclass(frozen=True)
class Trained:
    """A network with its weights and task, loaded from a checkpoint."""

    checkpoint: Path
    config: Mapping[str, Any]  # of its own run, from the checkpoint, so not to be trusted
    name: str  # of the task
    task: Task
    model: nn.Module
    description: str  # text of the file that the network was read from; "" if there was none
    who: str = ""  # which of the checkpoint's networks it is, as text; "" if there is no choice
    left_out: str = ""  # which members a mean leaves out, and why, as text

    def __str__(self) -> str:
        """Returns the path of the checkpoint, and which of its networks it is."""
        return f"{self.checkpoint}, {self.who}" if self.who else str(self.checkpoint)


def load_trained(where: Path, task: str | None, choice: Choice = NEWEST) -> Trained:
    """Loads the network of a checkpoint, or of the newest checkpoint of a run, for `pool export`.

    `task`: the task's name as the caller knows it, required unless the task is built in. Raises CheckpointError for
    a bad checkpoint, or if averaged weights are chosen and it has none. Raises ConfigError for another task, or if
    there are several members and none is chosen.
    """
    checkpoint = _Checkpoint(where, task, "export", averaged=choice.averaged)
    if choice.average:
        return checkpoint.average()
    if choice.member is not None:
        return checkpoint.chosen(choice.member)
    check_one(checkpoint.path, checkpoint.members)
    return checkpoint.member(0)


def load_members(where: Path, task: str | None, verb: str, choice: Choice = NEWEST) -> tuple[Trained, ...]:
    """Loads the chosen member of a checkpoint; without a choice all members that have not diverged.

    `verb`: name of the command, for messages. Raises as `load_trained`, but never because no member is chosen.
    """
    checkpoint = _Checkpoint(where, task, verb, averaged=choice.averaged)
    if choice.member is not None:
        return (checkpoint.chosen(choice.member),)
    others = left_out(checkpoint.diverged)
    return tuple(replace(checkpoint.member(m), left_out=others) for m in checkpoint.of_mean)


def first_model(trained: Trained) -> nn.Module | None:
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


def described(members: Sequence[Trained]) -> str:
    """Names the networks that a command uses, for the user."""
    first = members[0]
    if len(members) == 1:
        return f"{first}{first.left_out}"
    return f"{first.checkpoint}, the mean of {len(members)} members{first.left_out}"


class _Checkpoint:
    """The networks of a checkpoint. Raises ConfigError and CheckpointError when it is opened."""

    def __init__(self, where: Path, task: str | None, verb: str, *, averaged: bool) -> None:
        self.path = find_checkpoint(where)
        self._averaged = averaged
        self._weights = load_weights(self.path, averaged=averaged)
        config = self._weights.state.config
        self._name = _task_name(config, task, self.path, verb)
        self.members = members_of(self.path, self._weights.state)
        self.diverged = diverged_members(self._weights.state)
        begins = tuple(member_prefix(m, len(self.members)) for m in range(len(self.members)))
        if odd := [name for name in self._weights.tensors if not name.startswith(begins)]:
            raise CheckpointError(
                f"{self.path}: {strict_json.printable(min(odd))}: a tensor of no member of the config"
            )

    @property
    def of_mean(self) -> list[int]:
        """The numbers of the members over which a mean is taken: those that have not diverged, or all if all have."""
        return [m for m in range(len(self.members)) if m not in self.diverged]

    def chosen(self, member: MemberId) -> Trained:
        """Returns the member with a number, or the best one."""
        return self.member(*choose(self.path, self._weights.state, member))

    def member(self, m: int, why: str = "") -> Trained:
        """Returns the member with number `m`. `why`: text that explains why it was chosen."""
        who = f"member {m}" if len(self.members) > 1 else ""
        words = [who, why, "averaged weights" if self._averaged else ""]
        return self._made(m, self._tensors_of(m), ", ".join(filter(None, words)))

    def average(self) -> Trained:
        """Returns a network with the mean of all members' weights. Raises ConfigError if they can't be averaged."""
        check_average(self.path, self.members)
        each = {m: self._tensors_of(m) for m in self.of_mean}
        first = self.of_mean[0]
        if len(each) == 1:
            return self.member(first)
        for m, tensors in each.items():
            self._check(m, tensors, self._model(m)[1])
        tensors = {name: _mean([of_member[name] for of_member in each.values()]) for name in each[first]}
        return self._made(first, tensors, f"the average of {len(each)} members{left_out(self.diverged)}")

    def _tensors_of(self, m: int) -> dict[str, Tensor]:
        """Returns the tensors of a member, by their names in its model. Raises CheckpointError if it has no
        averaged weights."""
        begin = member_prefix(m, len(self.members))
        tensors = self._weights.tensors
        own = {name.removeprefix(begin): tensor for name, tensor in tensors.items() if name.startswith(begin)}
        if self._averaged and not own:
            raise CheckpointError(f"{self.path}: member {m} has no averaged weights: it stopped before the first")
        return own

    def _made(self, m: int, tensors: Mapping[str, Tensor], who: str) -> Trained:
        """Returns the network of a member, with these tensors loaded into its model. `who`: which network it is, as
        text."""
        task, model = self._model(m)
        self._check(m, tensors, model)
        replace_tensors(model, [tensors[name] for name, _ in all_tensors(model)])
        description = self._weights.state.description.encode("latin-1").decode("utf-8", "surrogateescape")
        return Trained(self.path, self.members[m], self._name, task, model, description, who)

    def _model(self, m: int) -> tuple[Task, nn.Module]:
        """Builds the task and model of a member as the run did. Raises CheckpointError."""
        module = load_task_module(self._name)
        config = self.members[m]
        seed = _model_seed(config)
        model, loss = (
            _section(cls, config.get(section), f"{self.path / STATE}: config.{section}")
            for cls, section in ((model_class(module), "model"), (module.LossConfig, "loss"))
        )
        try:
            task = make_task(self._name, model, loss, seed)
            try:
                with TensorBytesLimit(MAX_MODEL_NBYTES):
                    return task, build_model(task, seed)
            except ModelTooLargeError:
                return task, build_model(task, seed, on_meta=True)
        except PoolError:
            raise
        except Exception as error:  # the task's code may raise anything for a checkpoint's settings
            raise CheckpointError(
                f"{self.path}: the task can't build the model of its config: {format_error_with_location(error)}"
            ) from None

    def _check(self, m: int, tensors: Mapping[str, Tensor], model: nn.Module) -> None:
        """Raises CheckpointError if tensors do not match a model in name, dtype or shape."""
        begin = member_prefix(m, len(self.members))
        header = {name: self._weights.header[begin + name] for name in tensors}
        parameters, buffers = tensor_specs(model)
        if difference := first_difference(header_specs(header), model_specs((*parameters, *buffers))):
            who = f"member {m}: " if begin else ""
            raise CheckpointError(f"{self.path}: {who}{difference}")


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
    seeds = [run.get(key) for key in ("model_seed", "seed")] if isinstance(run, Mapping) else []
    return next((seed for seed in seeds if isinstance(seed, int) and seed >= 0), 0)


def _section(cls: type[Section], values: Any, where: str) -> Section:
    """Validates a section of a checkpoint's config. Raises CheckpointError."""
    try:
        return cls.model_validate_json(json.dumps(values))
    except ValidationError as error:
        raise CheckpointError(f"{where}: {strict_json.describe_validation_error(error)}") from None
