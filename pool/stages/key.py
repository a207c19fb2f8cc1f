"""Computes the key of a stage, a digest of everything that its weights depend on, by which a trained stage is found
again.

A key is made of the settings that change results, the content of the training data, and the key of the stage that it
starts from. Not part of it are names and folders of files, settings that affect speed only, the machine, and
versions of sparsepool and torch, which are in the run's fingerprint.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loader.files.fingerprint import content_digest
from loader.files.identity import DataFile
from loader.section import Effect
from pool.checkpoint.digest import start_digest
from pool.checkpoint.state import describe_mixture, describe_scales
from pool.config.key_path import walk_fields
from pool.config.tree import Config
from pool.errors import ConfigError, PoolError
from pool.run_folder.strict_json import value_at
from pool.stages.recipe import Stage
from pool.supervisor.prepare import data_files
from pool.task.start import KEY

FORMAT = 1  # of the key's contents; raised when a default changes that affects results
DIGITS = 12
_MACHINE_SECTIONS = ("pool.", "testing.")
_HASHED_SEPARATELY = ("run.dir", f"model.{KEY}")


def stage_keys(stages: Sequence[Stage]) -> dict[str, str]:
    """Returns the key of each stage, by the stage's name. Raises ConfigError, also for missing files."""
    keys: dict[str, str] = {}
    for stage in stages:
        try:
            parent = digest_start(stage.start) if stage.parent is None else keys[stage.parent.name]
            keys[stage.name] = hash_stage(stage, parent, digest_data(stage.config))
        except PoolError as error:
            raise type(error)(f"stage {stage.name}: {error}", error.exit_code) from None
    return keys


def hash_stage(stage: Stage, parent: str, data: Mapping[str, Any]) -> str:
    """Returns the key of one stage.

    `parent`: the key of the stage that it starts from, or the digest of whatever else it starts from. `data`: as
    `digest_data` returns it.
    """
    return digest(
        {
            "format": FORMAT,
            "parent": parent,
            "start_with": stage.options.start_with,
            "settings": result_settings(stage.config),
            "data": data,
        }
    )


def result_settings(config: Config) -> dict[str, Any]:
    """Returns the settings that change results and differ from their defaults, by dotted key.

    Defaults are left out so that a key which a later version adds changes no stage that does not set it.
    """
    tree, default_tree = config.model_dump(mode="json"), type(config)().model_dump(mode="json")
    settings: dict[str, Any] = {}
    for key, field in walk_fields(type(config)):
        if Effect.of(field) in (Effect.NONE, Effect.SAME_FILES):
            continue
        if key.startswith(_MACHINE_SECTIONS) or key in _HASHED_SEPARATELY:
            continue
        value = value_at(tree, key)
        if value != value_at(default_tree, key):
            settings[key] = value
    return settings


def digest_data(config: Config) -> dict[str, Any]:
    """Describes the data that a stage's weights depend on: content, shares and scales of the training files, in their
    order.

    Validation files are included if validations control the run (early stopping, plateau). Raises ConfigError.
    """
    files = data_files.find_data_files(config, None)
    has_plateau = any(member.schedule.plateau.patience is not None for member in config.members)
    validations_change_result = has_plateau or config.train.early_stopping is not None
    return {
        "train": _digests(files.train),
        "mixture": describe_mixture(files.train),
        "scales": describe_scales(files.train),
        "validation": _digests(files.validation) if validations_change_result else [],
    }


def digest_start(path: str | None) -> str:
    """Returns the digest of the checkpoint or file at `path`, from which a stage starts; "" for None.

    Raises ConfigError, CheckpointError.
    """
    if path is None:
        return ""
    try:
        return start_digest(Path(os.path.expanduser(path)))  # noqa: PTH111 (that of Path raises)
    except OSError as error:
        raise ConfigError(
            f"start_from: {path}: no stage before it has this name, and as a file or folder: {error.strerror}"
        ) from None


def digest(content: Mapping[str, Any]) -> str:
    """Returns the first 12 digits of the SHA-256 of plain data.

    Equal numbers give the same digest, however they are written: 1 and 1.0.
    """
    text = json.dumps(_plain(content), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _digests(files: Sequence[DataFile]) -> list[str]:
    try:
        return [_digest_of(file) for file in files]
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from None


@functools.cache  # because stages read the same files
def _digest_of(file: DataFile) -> str:
    return content_digest(file.path, file.size)


def _plain(value: Any) -> Any:
    """Converts plain data so that equal values have the same JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
