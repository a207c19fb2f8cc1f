"""The model of a checkpoint with its task, as the run would make them again.

A checkpoint may be somebody else's. Nothing that it names is imported but a task that comes with this program, or that
the caller names too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import nn

from loader.plugins.words import told
from loader.section import Section
from pool.buckets.tensors import carried, replace_tensors, specs, trained
from pool.checkpoint.disk import plain
from pool.checkpoint.fit import first_difference
from pool.checkpoint.folder import locate
from pool.checkpoint.state import STATE
from pool.checkpoint.store import load_weights
from pool.errors import CheckpointError, ConfigError, PoolError
from pool.tasks.making import make_task
from pool.tasks.registry import is_bundled, task_module
from pool.tasks.start import model_class
from pool.tasks.task import Task


@dataclass(frozen=True)
class Trained:
    checkpoint: Path
    config: Mapping[str, Any]  # of the run, as the checkpoint has it: to be believed as little as the rest
    name: str  # of the task
    task: Task
    model: nn.Module


def load_trained(where: Path, task: str | None, verb: str = "export") -> Trained:
    """The model of a checkpoint, or of the newest of a run's folder.

    `task`: the caller's name for the task, needed unless it is built in; `verb`: the command that asks. Raises
    CheckpointError for a bad checkpoint, ConfigError for another task.
    """
    checkpoint = locate(where)
    weights = load_weights(checkpoint)
    name = _task_name(weights.config, task, checkpoint, verb)
    module = task_module(name)
    sections = [
        _section(cls, weights.config.get(section), f"{checkpoint / STATE}: config.{section}")
        for cls, section in ((model_class(module), "model"), (module.LossConfig, "loss"))
    ]
    try:
        made = make_task(name, *sections)
        with torch.device("meta"):
            model = made.build_model()
    except PoolError:
        raise
    except Exception as error:  # code of the task, given what the checkpoint says
        raise CheckpointError(f"{checkpoint}: the task can't build the model of its config: {told(error)}") from None
    parameters, buffers = specs(model)
    if (difference := first_difference(weights.header, (*parameters, *buffers))) is not None:
        raise CheckpointError(f"{checkpoint}: {difference}")
    names = [name for name, _ in (*trained(model), *carried(model))]
    replace_tensors(model, [(name, weights.tensors[name]) for name in names])
    return Trained(checkpoint, weights.config, name, made, model)


def _task_name(config: Mapping[str, Any], given: str | None, checkpoint: Path, verb: str) -> str:
    name = config.get("task")
    if not isinstance(name, str):
        raise plain.not_ours(checkpoint / STATE, "config.task: a name is expected")
    if given is not None and given != name:
        raise ConfigError(f"--task {given}: the task of {checkpoint} is {plain.printable(name)}")
    if given is None and not is_bundled(name):
        raise ConfigError(
            f"the task of {checkpoint} is the module {plain.printable(name)}; {verb} imports it, and so runs it, only "
            f"if you name it too: --task {plain.printable(name)}"
        )
    return name


def _section(cls: type[Section], values: Any, where: str) -> Section:
    try:
        return cls.model_validate_json(json.dumps(values))
    except ValidationError as error:
        raise CheckpointError(f"{where}: {plain.explained(error)}") from None
