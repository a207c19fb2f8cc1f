"""`model.start_from`: a run that begins with the weights of another one's checkpoint, for any task.

Every task has the key. A folder is a checkpoint, or a run, and the runtime's to load: weights by name and shape, with
data, batch size, optimizer and schedule of the new run. What is no folder is the task's, if its ModelConfig has the key
too (nnue: a .nnue file). Free of torch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, create_model

from loader.section import Effect, Section
from pool.checkpoint.folder import locate
from pool.errors import ConfigError
from pool.task.registry import TaskModule

KEY = "start_from"
_START_FROM = Annotated[
    str | None,
    Field(min_length=1, description="folder of a checkpoint, or of a run, whose weights the run starts with"),
    Effect.SAVED,
]


def model_class(module: TaskModule) -> type[Section]:
    """The section `model` of a task, with the key that every task has."""
    own = module.ModelConfig
    return own if KEY in own.model_fields else _with_start(own)


@cache
def _with_start(own: type[Section]) -> type[Section]:
    return create_model(own.__name__, __base__=own, start_from=(_START_FROM, None))


def own_model(model: Section) -> Section:
    """The section as the task gets it: without a folder to start from."""
    return model if start_folder(model) is None else of_a_resumed_run(model)


def of_a_resumed_run(model: Section) -> Section:
    """The section without what a run begins with, which may be gone by now."""
    return model.model_copy(update={KEY: None})


def start_folder(model: Section) -> Path | None:
    """The folder that the run is to start from, if it is to start from one."""
    text = getattr(model, KEY, None)
    path = Path(os.path.expanduser(text)) if text else None  # noqa: PTH111 (that of Path raises)
    return path if path is not None and path.is_dir() else None


def start_checkpoint(model: Section, module: TaskModule, task: str) -> Path | None:
    """The checkpoint that the run is to start from; None for a file, which is the task's. Raises ConfigError if the
    task reads none, CheckpointError."""
    if (folder := start_folder(model)) is not None:
        return locate(folder)
    text = getattr(model, KEY)
    if text and KEY not in module.ModelConfig.model_fields:
        raise ConfigError(f"model.{KEY}: {text} is no folder, and the task {task} can start from nothing else")
    return None


def check_starts(run: Section, members: Sequence[Section], module: TaskModule, task: str) -> None:
    """A folder is for all members; a file, which the task reads, may be a member's own. Raises ConfigError."""
    for m, model in enumerate(members):
        if getattr(model, KEY) == getattr(run, KEY):
            continue
        member = f"ensemble.member.{m}"
        if start_folder(model) is not None or start_folder(run) is not None:
            raise ConfigError(
                f"{member}.model.{KEY}: can't differ where it is a folder: set model.{KEY}, for all members"
            )
        try:
            start_checkpoint(model, module, task)
        except ConfigError as error:
            raise ConfigError(f"{member}.{error}") from None
