"""Handles `model.start_from`: a run whose first weights come from another run's checkpoint.

Every task has this key. If its value is a folder, a checkpoint or a run, the runtime loads the weights by name and
shape. Data, batch size, optimizer and schedule are those of the new run. If its value is a file, the task loads it,
provided that its ModelConfig has the key too (such as a .nnue file). Free of torch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, create_model

from loader.section import Effect, Section
from pool.checkpoint.folder import find_checkpoint
from pool.errors import ConfigError
from pool.task.registry import TaskModule

KEY = "start_from"
_START_FROM = Annotated[
    str | None,
    Field(min_length=1, description="folder of a checkpoint, or of a run, whose weights the run starts with"),
    Effect.SAVED,
]


def model_class(module: TaskModule) -> type[Section]:
    """Returns the class of a task's section `model`, with the key `start_from` added if the task's own class lacks
    it."""
    section = module.ModelConfig
    return section if KEY in section.model_fields else _add_start_from(section)


@cache
def _add_start_from(section: type[Section]) -> type[Section]:
    """Returns a subclass of a task's section that has the key `start_from`."""
    return create_model(section.__name__, __base__=section, start_from=(_START_FROM, None))


def task_model_section(model: Section) -> Section:
    """Returns the section `model` as the task gets it: without a folder to start from, as the runtime loads that."""
    return model if start_folder(model) is None else without_start_from(model)


def without_start_from(model: Section) -> Section:
    """Returns the section `model` without `start_from`. A resumed run does not need those first weights, whose file or
    folder may no longer exist."""
    return model.model_copy(update={KEY: None})


def start_folder(model: Section) -> Path | None:
    """Returns the folder that `start_from` names, or None if it names a file or nothing."""
    text = getattr(model, KEY, None)
    if not text:
        return None
    path = Path(os.path.expanduser(text))  # noqa: PTH111 (that of Path raises)
    return path if path.is_dir() else None


def start_checkpoint(model: Section, module: TaskModule, task: str) -> Path | None:
    """Returns the checkpoint that the run is to start from, or None if `start_from` names a file, which the task reads,
    or nothing. Raises CheckpointError, and ConfigError for a file if the task reads none."""
    folder = start_folder(model)
    if folder is not None:
        return find_checkpoint(folder)
    text = getattr(model, KEY)
    if text and KEY not in module.ModelConfig.model_fields:
        raise ConfigError(f"model.{KEY}: {text} is no folder, and the task {task} can start from nothing else")
    return None


def check_member_starts(run: Section, members: Sequence[Section], module: TaskModule, task: str) -> None:
    """Checks `start_from` of an ensemble's members against that of the run. A folder must be the same for all members.
    A file, which the task reads, may differ. Raises ConfigError."""
    for index, model in enumerate(members):
        if getattr(model, KEY) == getattr(run, KEY):
            continue
        member = f"ensemble.member.{index}"
        if start_folder(model) is not None or start_folder(run) is not None:
            raise ConfigError(
                f"{member}.model.{KEY}: can't differ where it is a folder: set model.{KEY}, for all members"
            )
        try:
            start_checkpoint(model, module, task)
        except ConfigError as error:
            raise ConfigError(f"{member}.{error}") from None
