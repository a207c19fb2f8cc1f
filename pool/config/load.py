"""Reads a config from a TOML file or from a run's folder, and applies changes by `--set section.key=value`.

Errors name the key and what is allowed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from loader.files.text import parse_toml
from loader.files.user_file import read_user_file
from pool.checkpoint.migrations import with_new_names
from pool.config.changes import Change
from pool.config.ensemble import MAX_GROUP_LOSSES
from pool.config.errors import format_errors
from pool.config.tree import Config, config_class
from pool.config.values import find_unstorable
from pool.errors import ConfigError
from pool.task.registry import complete_model_section, load_task_module

STAGE = "stage"  # key of a recipe's tables (pool/stages), each of which overrides the rest
T = TypeVar("T", bound=BaseModel)
CONFIG = "config.json"  # file in a run's folder with all settings, defaults included


def load_config(path: Path, overrides: Iterable[str | Change] = (), *, trace: Path | None = None) -> Config:
    """Reads a config from a TOML file or from the folder of a run, and applies `overrides`.

    Of a run's folder its config.json is read, and `run.dir` becomes that folder. Each of `overrides` is a Change or
    text `section.key=value`. `trace` sets run.trace. Raises ConfigError.
    """
    changes = [Change.parse(change) if isinstance(change, str) else change for change in overrides]
    if trace is not None:
        changes.append(Change("run.trace", str(trace), is_toml=False))
    if not path.is_dir():
        return apply_changes(read_toml(path), changes, str(path))
    tree = dict(with_new_names(read_recorded_settings(path)))
    tree.pop("overrides", None)
    run_dir = Change("run.dir", str(path), is_toml=False)  # the folder may have been moved
    return apply_changes(tree, [run_dir, *changes], str(path / CONFIG))


def read_recorded_settings(folder: Path) -> dict[str, Any]:
    """Returns the settings in a run's folder as plain data. Raises ConfigError if it is no run's folder or is
    damaged."""
    try:
        tree = json.loads(read_user_file(folder / CONFIG))
    except OSError as error:
        raise ConfigError(f"{folder}: is no folder of a run: {CONFIG}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{folder / CONFIG}: is damaged, or no run has written it") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{folder / CONFIG}: no run has written it: a table is expected")
    return tree


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file as plain data. Raises ConfigError."""
    try:
        return parse_toml(read_user_file(path))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def apply_changes(tree: dict[str, Any], changes: Sequence[Change], file_name: str) -> Config:
    """Applies changes to settings in plain data, and validates the result. Raises ConfigError.

    `file_name`: for error messages.
    """
    for change in changes:
        change.apply(tree)
    config = parse_config(tree, file_name)
    for change in changes:
        change.check_is_quoted(type(config))
    return config


def parse_config(tree: Mapping[str, Any], file_name: str) -> Config:
    """Validates settings in plain data, and returns them as a config. Raises ConfigError, with each wrong key.

    `file_name`: for error messages.
    """
    problem = find_unstorable(tree)
    if problem is not None:
        raise ConfigError(f"{file_name}: {problem}")
    if STAGE in tree:
        raise ConfigError(
            f"{file_name}: has [[{STAGE}]] tables: pool recipe trains it; others take the folder of one of its stages"
        )
    task = tree.get("task", "stockfish")
    if not isinstance(task, str):
        raise ConfigError(f"{file_name}: task: must be a string")
    data = tree.get("data", {})
    source = data.get("source") if isinstance(data, Mapping) else None
    try:
        cls = config_class(task, source) if isinstance(source, str) else config_class(task)
    except ConfigError as error:
        raise ConfigError(f"{file_name}: {error}") from error
    config = _validate(cls, tree, file_name)
    try:
        model = complete_model_section(load_task_module(task), config.model, config.data.settings)
    except ValueError as error:
        raise ConfigError(f"{file_name}: {error}") from None
    config = config.model_copy(update={"model": model})
    for section in (config.schedule, config.ensemble, config.train):
        if section.problem:
            raise ConfigError(f"{file_name}: {section.problem}")
    _check_sizes(config, file_name)
    return config


def _check_sizes(config: Config, file_name: str) -> None:
    """Raises ConfigError for more losses than fit a message, or fewer ring slots than a step needs."""
    try:
        members = len(config.members)
    except ConfigError as error:
        raise ConfigError(f"{file_name}: {error}") from None
    if members * config.max_batches_of_group > MAX_GROUP_LOSSES:
        group_size, max_size = config.train.batches_per_group, MAX_GROUP_LOSSES // members
        raise ConfigError(
            f"{file_name}: train.batches_per_group: {group_size} is too many for {members} members; a worker says "
            f"at most {MAX_GROUP_LOSSES} losses at once, so {max_size} batches of this ensemble"
        )
    if config.num_ring_slots < config.train.batches_per_step + 1:
        raise ConfigError(
            f"{file_name}: pool.ring_slots: {config.pool.ring_slots} is too few; a step keeps its "
            f"train.batches_per_step = {config.train.batches_per_step} until it is committed, and one more is needed"
        )


def parse_section(cls: type[T], tree: Any, file_name: str, within: Sequence[str] = ()) -> T:
    """Validates plain data that have a file of their own as the table `within` of a config. Raises as
    `parse_config`."""
    problem = find_unstorable(tree, within)
    if problem is not None:
        raise ConfigError(f"{file_name}: {problem}")
    return _validate(cls, tree, file_name, within)


def _validate(cls: type[T], tree: Any, file_name: str, within: Sequence[str] = ()) -> T:
    try:
        return cls.model_validate_json(json.dumps(tree))
    except ValidationError as error:
        raise ConfigError(f"{file_name}: {format_errors(cls, error, within)}") from None
