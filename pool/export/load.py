"""The networks of a checkpoint with their task, as the run would make them again.

A checkpoint may be somebody else's. Nothing that it names is imported but a task that comes with this program, or that
the caller names too.
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

from loader.plugins.error_text import error_line
from loader.section import Section
from pool.checkpoint.compare_tensors import first_difference, forms_in, forms_of
from pool.checkpoint.folder import locate
from pool.checkpoint.state import STATE
from pool.checkpoint.store import load_weights
from pool.errors import CheckpointError, ConfigError, PoolError
from pool.exchange.layout import prefix
from pool.exchange.tensors import all_tensors, replace_tensors, specs
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
from pool.task.factory import MOST_NUMBERS, Allowance, TooManyNumbersError, build_model, make_task
from pool.task.registry import is_bundled, task_module
from pool.task.start import KEY, model_class
from pool.task.task import Task


@dataclass(frozen=True)
class Trained:
    """One network."""

    checkpoint: Path
    config: Mapping[str, Any]  # of its own run, as the checkpoint has it: to be believed as little as the rest
    name: str  # of the task
    task: Task
    model: nn.Module
    description: str  # text that its file had, if it was read from one; else empty
    who: str = ""  # which of the checkpoint's networks it is, in words; empty if there is no choice
    left_out: str = ""  # which others are no part of a mean with it, and why, in words

    def __str__(self) -> str:
        return f"{self.checkpoint}, {self.who}" if self.who else str(self.checkpoint)


def load_trained(where: Path, task: str | None, choice: Choice = NEWEST) -> Trained:
    """Loads the network of a checkpoint, or of the newest of a run's folder, for `pool export`.

    `task`: the caller's name for the task, needed unless it is built in. Raises CheckpointError for a bad checkpoint,
    or one without averaged weights where they are chosen, ConfigError for another task, and if several members are
    there and none is chosen."""
    checkpoint = _Checkpoint(where, task, "export", averaged=choice.averaged)
    if choice.average:
        return checkpoint.average()
    if choice.member is not None:
        return checkpoint.chosen(choice.member)
    check_one(checkpoint.path, checkpoint.members)
    return checkpoint.member(0)


def load_members(where: Path, task: str | None, verb: str, choice: Choice = NEWEST) -> tuple[Trained, ...]:
    """Does as `load_trained`, for the command `verb`; loads all members that have not diverged if none is chosen."""
    checkpoint = _Checkpoint(where, task, verb, averaged=choice.averaged)
    if choice.member is not None:
        return (checkpoint.chosen(choice.member),)
    others = left_out(checkpoint.diverged)
    return tuple(replace(checkpoint.member(m), left_out=others) for m in checkpoint.of_mean)


def first_model(trained: Trained) -> nn.Module | None:
    """Builds the model with the weights that its run began with; None where they can't be known: of a run that took
    other ones than its task draws, and of models too large to build twice for a note."""
    settings = trained.config.get("model")
    if isinstance(settings, Mapping) and settings.get(KEY):
        return None
    seed = _model_seed(trained.config)
    try:
        with Allowance(MOST_NUMBERS):
            model = build_model(trained.task, seed)
        with torch.no_grad():
            trained.task.initialize(model)
    except Exception:  # code of the task: it has built this model before
        return None
    return model


def described(members: Sequence[Trained]) -> str:
    """Names for people the networks that were asked."""
    first = members[0]
    if len(members) == 1:
        return f"{first}{first.left_out}"
    return f"{first.checkpoint}, the mean of {len(members)} members{first.left_out}"


class _Checkpoint:
    """The networks of a checkpoint."""

    def __init__(self, where: Path, task: str | None, verb: str, *, averaged: bool) -> None:
        self.path = locate(where)
        self._averaged = averaged
        self._weights = load_weights(self.path, averaged=averaged)
        config = self._weights.state.config
        self._name = _task_name(config, task, self.path, verb)
        self.members = members_of(self.path, self._weights.state)
        self.diverged = diverged_members(self._weights.state)
        begins = tuple(prefix(m, len(self.members)) for m in range(len(self.members)))
        if odd := [name for name in self._weights.tensors if not name.startswith(begins)]:
            raise CheckpointError(
                f"{self.path}: {strict_json.printable(min(odd))}: a tensor of no member of the config"
            )

    @property
    def of_mean(self) -> list[int]:
        """The members that a mean is of: those that have not diverged, or all."""
        return [m for m in range(len(self.members)) if m not in self.diverged]

    def chosen(self, member: MemberId) -> Trained:
        """Returns one member."""
        return self.member(*choose(self.path, self._weights.state, member))

    def member(self, m: int, why: str = "") -> Trained:
        """Returns one member; `why` it is that one, in words."""
        who = f"member {m}" if len(self.members) > 1 else ""
        words = [who, why, "averaged weights" if self._averaged else ""]
        return self._made(m, self._tensors_of(m), ", ".join(filter(None, words)))

    def average(self) -> Trained:
        """Returns the average of all members. Raises ConfigError if they have none."""
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
        begin = prefix(m, len(self.members))
        tensors = self._weights.tensors
        own = {name.removeprefix(begin): tensor for name, tensor in tensors.items() if name.startswith(begin)}
        if self._averaged and not own:
            raise CheckpointError(f"{self.path}: member {m} has no averaged weights: it stopped before the first")
        return own

    def _made(self, m: int, tensors: Mapping[str, Tensor], who: str) -> Trained:
        task, model = self._model(m)
        self._check(m, tensors, model)
        replace_tensors(model, [tensors[name] for name, _ in all_tensors(model)])
        description = self._weights.state.description.encode("latin-1").decode("utf-8", "surrogateescape")
        return Trained(self.path, self.members[m], self._name, task, model, description, who)

    def _model(self, m: int) -> tuple[Task, nn.Module]:
        """Returns the model as the run has made it. Raises CheckpointError."""
        module = task_module(self._name)
        config = self.members[m]
        seed = _model_seed(config)
        model, loss = (
            _section(cls, config.get(section), f"{self.path / STATE}: config.{section}")
            for cls, section in ((model_class(module), "model"), (module.LossConfig, "loss"))
        )
        try:
            task = make_task(self._name, model, loss, seed)
            try:
                with Allowance(MOST_NUMBERS):
                    return task, build_model(task, seed)
            except TooManyNumbersError:
                return task, build_model(task, seed, on_meta=True)
        except PoolError:
            raise
        except Exception as error:  # code of the task, given what the checkpoint says
            raise CheckpointError(
                f"{self.path}: the task can't build the model of its config: {error_line(error)}"
            ) from None

    def _check(self, m: int, tensors: Mapping[str, Tensor], model: nn.Module) -> None:
        """Checks that the tensors are the model's. Raises CheckpointError."""
        begin = prefix(m, len(self.members))
        header = {name: self._weights.header[begin + name] for name in tensors}
        parameters, buffers = specs(model)
        if difference := first_difference(forms_in(header), forms_of((*parameters, *buffers))):
            who = f"member {m}: " if begin else ""
            raise CheckpointError(f"{self.path}: {who}{difference}")


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    """Adds in double precision, in the order of the members; of what is no real or complex number returns the first."""
    first = tensors[0]
    if not (first.is_floating_point() or first.is_complex()):
        return first
    total = first.to(torch.promote_types(first.dtype, torch.float64))
    for tensor in tensors[1:]:
        total = total + tensor
    return (total / len(tensors)).to(first.dtype)


def _task_name(config: Mapping[str, Any], trusted: str | None, checkpoint: Path, verb: str) -> str:
    name = config.get("task")
    if not isinstance(name, str):
        raise strict_json.not_ours(checkpoint / STATE, "config.task: a name is expected")
    if trusted is not None and trusted != name:
        raise ConfigError(f"--task {trusted}: the task of {checkpoint} is {strict_json.printable(name)}")
    if trusted is None and not is_bundled(name):
        raise ConfigError(
            f"the task of {checkpoint} is the module {strict_json.printable(name)}; {verb} imports it, and so runs it, "
            f"only if you name it too: --task {strict_json.printable(name)}"
        )
    return name


def _model_seed(config: Mapping[str, Any]) -> int:
    """Returns the seed of the member's run; 0 if the config has none."""
    run = config.get("run")
    seeds = [run.get(key) for key in ("model_seed", "seed")] if isinstance(run, Mapping) else []
    return next((seed for seed in seeds if isinstance(seed, int) and seed >= 0), 0)


def _section(cls: type[Section], values: Any, where: str) -> Section:
    try:
        return cls.model_validate_json(json.dumps(values))
    except ValidationError as error:
        raise CheckpointError(f"{where}: {strict_json.explained(error)}") from None
