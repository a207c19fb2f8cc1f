"""From a checkpoint to the file that the network's user reads.

A checkpoint may come from another person, so of the modules that it names only a bundled task, or one that the caller
names too, is imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from loader.errors import DataError
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


def export_checkpoint(where: Path, output: Path, description: str, task: str | None) -> Path:
    """Writes the network of a checkpoint, or of the newest of a run's folder; returns which.

    `task`: the caller's name for the task, needed unless it is built in. Raises CheckpointError for a bad checkpoint,
    ConfigError for another task, PoolError for weights that the format can't hold.
    """
    checkpoint = locate(where)
    weights = load_weights(checkpoint)
    name = _task_name(weights.config, task, checkpoint)
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
    _check_output(output)
    try:
        made.export(model, output, description)
    except OSError as error:
        raise PoolError(f"{error.filename or output}: {error.strerror}") from None
    except DataError as error:  # it names the file
        raise PoolError(str(error)) from None
    except ValueError as error:
        raise PoolError(f"{output}: not written: {error}") from None
    except Exception as error:
        raise PoolError(f"{output}: not written: {told(error)}") from None
    return checkpoint


def _task_name(config: Mapping[str, Any], given: str | None, checkpoint: Path) -> str:
    name = config.get("task")
    if not isinstance(name, str):
        raise plain.not_ours(checkpoint / STATE, "config.task: a name is expected")
    if given is not None and given != name:
        raise ConfigError(f"--task {given}: the task of {checkpoint} is {plain.printable(name)}")
    if given is None and not is_bundled(name):
        raise ConfigError(
            f"the task of {checkpoint} is the module {plain.printable(name)}; export imports it, and so runs it, only "
            f"if you name it too: --task {plain.printable(name)}"
        )
    return name


def _section(cls: type[Section], values: Any, where: str) -> Section:
    try:
        return cls.model_validate_json(json.dumps(values))
    except ValidationError as error:
        raise CheckpointError(f"{where}: {plain.explained(error)}") from None


def _check_output(output: Path) -> None:
    """What is no regular file is not written to: a pipe would be waited for, a device overwritten."""
    if output.is_dir():
        raise PoolError(f"{output}: is a folder; name a file")
    if output.exists() and not output.is_file():
        raise PoolError(f"{output}: is not a regular file")
