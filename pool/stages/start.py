"""Begins a stage with the checkpoint of another one, with `start_with = "checkpoint"`.

Optimizer, schedule and steps continue, and the stream of data begins anew. If the stage has other arguments of the
optimizer, other groups or another schedule, these replace the checkpoint's. They have the values at this step of a run
that has had them from the start, and the optimizer's tensors continue.

The checkpoint is copied into the stage's own folder, as if this run had written it. From then on the stage is a run
that is resumed (invariant I9), which is the only way to begin it again after a death.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from loader.section import Effect
from loader.stream.interface import Cursor
from pool.checkpoint.fingerprint import LAYOUT
from pool.checkpoint.folder import find_checkpoint, list_checkpoints, set_link, write_checkpoint
from pool.checkpoint.state import (
    CHUNK_SUMS,
    FOLDER,
    LAST,
    STATE,
    SavedState,
    describe_data,
    encode_state,
    verify,
)
from pool.checkpoint.validations import NONE
from pool.config.key_path import walk_fields
from pool.config.tree import Config
from pool.errors import CheckpointError, ConfigError, ResourceError
from pool.run_folder import files
from pool.run_folder.access import make_folder
from pool.run_folder.strict_json import are_equal, value_at
from pool.supervisor.prepare import data_files
from pool.task.start import KEY

# keys from which a checkpoint's parameter groups and schedulers are made
_NUMBERS = (
    "ensemble",
    *(f"optimizer.{key}" for key in ("args", "groups")),
    *(f"schedule.{key}" for key in ("name", "every", "args", "parts")),
)


def copy_start_checkpoint(config: Config, start: Path) -> None:
    """Copies the newest checkpoint of `start`, a run's folder or a checkpoint, into the run folder of `config`.

    Does nothing if the run folder has a checkpoint already. Raises ConfigError, CheckpointError, ResourceError.
    """
    folder = config.run_dir / FOLDER
    try:
        if list_checkpoints(folder):
            return
        source = find_checkpoint(start)
        state = _convert_state(config, verify(source), source)
        if state.step >= config.train.steps:
            raise ConfigError(
                f"train.steps: {config.train.steps} in all, and {source} has done {state.step}; a stage that starts "
                "with a checkpoint counts on"
            )
        config.run_dir.parent.mkdir(parents=True, exist_ok=True)
        make_folder(config.run_dir)
        files.sweep(folder)
        target = write_checkpoint(folder, state.step, lambda target_folder: _write_files(target_folder, source, state))
        files.sync_folder(folder)
        set_link(folder, LAST, target)
    except OSError as error:
        raise ResourceError(f"{error.filename or folder}: {error.strerror}") from None


def _write_files(folder: Path, source: Path, state: SavedState) -> None:
    """Writes the files of the stage's checkpoint into a folder: tensors of the checkpoint `source`, and the state."""
    for name in state.files:
        _link_or_copy(source / name, folder / name)
    files.write_new(folder / STATE, [encode_state(state)])


def _convert_state(config: Config, state: SavedState, start: Path) -> SavedState:
    """Converts the state of a checkpoint to what the stage's own run would have saved at this step."""
    data = data_files.find_data_files(config, None)
    optimizer = replace(state.optimizer, overrides=(), plateaus=())
    own_keys: Collection[str] = ()
    if _has_different_numbers(config, state):
        optimizer = replace(optimizer, groups=None, schedulers=())
        own_keys = _NUMBERS
    return replace(
        state,
        config=_convert_settings(config, state, start, own_keys),
        fingerprint={entry: state.fingerprint[entry] for entry in LAYOUT if entry in state.fingerprint},
        **describe_data(data.train, data.validation, data.validation_digests),
        cursor=Cursor(batch=state.step * config.train.batches_per_step),
        validations=NONE,
        optimizer=optimizer,
        files={name: sums for name, sums in state.files.items() if name != CHUNK_SUMS},
    )


def _has_different_numbers(config: Config, state: SavedState) -> bool:
    """Tells whether optimizer arguments, groups or schedule of the config differ from those of the checkpoint's run."""
    settings, defaults = config.model_dump(mode="json"), type(config)().model_dump(mode="json")
    for key in _NUMBERS:
        saved = value_at(state.config, key)
        if saved is None:
            saved = value_at(defaults, key)
        if not are_equal(saved, value_at(settings, key)):
            return True
    return False


def _convert_settings(config: Config, state: SavedState, start: Path, own_keys: Collection[str]) -> dict[str, Any]:
    """Returns the settings to store in the stage's checkpoint.

    They are those of the checkpoint's run, so that a resume compares them and reports changes as for every run. The
    keys in `own_keys`, and those that determine which batches train which model, are the stage's.
    """
    own_settings, settings = config.model_dump(mode="json"), copy.deepcopy(dict(state.config))
    if settings.get("task") != config.task:
        raise CheckpointError(f"start_from: a checkpoint of the task {settings.get('task')}, not of {config.task}")
    for key, field in walk_fields(type(config)):
        if key in own_keys or Effect.of(field) in (Effect.FIXED, Effect.SAME_FILES):
            *sections, name = key.split(".")
            table = settings
            for section in sections:
                table = table.setdefault(section, {})
            table[name] = value_at(own_settings, key)
    settings["model"][KEY] = str(start)
    return settings


def _link_or_copy(source: Path, target: Path) -> None:
    """Makes a hard link to a file, or copies it if that fails. A link suffices because nobody changes the file."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
        files.sync_file(target)
