"""Reads a config: a TOML file, or what a run has recorded of its own in its folder, changed by `--set
section.key=value`. Errors name the key and what is allowed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from loader.files.text import toml_of
from loader.files.user_file import read_user_file
from pool.checkpoint.migrations import with_new_names
from pool.config.changes import Change
from pool.config.ensemble import MOST_LOSSES
from pool.config.errors import explained
from pool.config.tree import Config, config_class
from pool.config.values import unfit
from pool.errors import ConfigError
from pool.task.registry import completed_model, task_module

STAGE = "stage"  # tables of a recipe (pool/stages), each laid over the rest
T = TypeVar("T", bound=BaseModel)
CONFIG = "config.json"  # in a run's folder: its settings, defaults filled in


def load_config(path: Path, overrides: Iterable[str | Change] = (), *, trace: Path | None = None) -> Config:
    """Reads a TOML file, or the record in a run's folder, which is `run.dir` then, and applies overrides, each a Change
    or `section.key=value`; `trace` overrides run.trace.

    Raises ConfigError.
    """
    changes = [Change.parse(change) if isinstance(change, str) else change for change in overrides]
    if trace is not None:
        changes.append(Change("run.trace", str(trace), is_toml=False))
    if not path.is_dir():
        return changed_config(read_toml(path), changes, str(path))
    tree = dict(with_new_names(recorded_tree(path)))
    tree.pop("overrides", None)
    here = Change("run.dir", str(path), is_toml=False)  # it may have been moved
    return changed_config(tree, [here, *changes], str(path / CONFIG))


def recorded_tree(folder: Path) -> dict[str, Any]:
    """Returns what a run's folder records of its settings. Raises ConfigError for what is none."""
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
        return toml_of(read_user_file(path))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def changed_config(tree: dict[str, Any], changes: Sequence[Change], where: str) -> Config:
    """Changes a tree of plain data, and validates it. Raises ConfigError."""
    for change in changes:
        change.apply(tree)
    config = parse_config(tree, where)
    for change in changes:
        change.check_quotes(type(config))
    return config


def parse_config(tree: Mapping[str, Any], where: str) -> Config:
    """Validates a tree of plain data. Raises ConfigError naming each key and what is allowed."""
    if (problem := unfit(tree)) is not None:
        raise ConfigError(f"{where}: {problem}")
    if STAGE in tree:
        raise ConfigError(
            f"{where}: has [[{STAGE}]] tables: pool recipe trains it; others take the folder of one of its stages"
        )
    task = tree.get("task", "stockfish")
    if not isinstance(task, str):
        raise ConfigError(f"{where}: task: must be a string")
    data = tree.get("data", {})
    source = data.get("source") if isinstance(data, Mapping) else None
    try:
        cls = config_class(task, source) if isinstance(source, str) else config_class(task)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    config = _validated(cls, tree, where)
    try:
        model = completed_model(task_module(task), config.model, config.data.settings)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    config = config.model_copy(update={"model": model})
    if problem := config.schedule.problem or config.ensemble.problem or config.train.problem:
        raise ConfigError(f"{where}: {problem}")
    try:
        members = len(config.members)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    if members * config.batches_of_a_group > MOST_LOSSES:
        raise ConfigError(
            f"{where}: train.batches_per_group: {config.train.batches_per_group} is too many for {members} members; a "
            f"worker says at most {MOST_LOSSES} losses at once, so {MOST_LOSSES // members} batches of this ensemble"
        )
    if config.num_ring_slots < config.train.batches_per_step + 1:
        raise ConfigError(
            f"{where}: pool.ring_slots: {config.pool.ring_slots} is too few; a step keeps its "
            f"train.batches_per_step = {config.train.batches_per_step} until it is committed, and one more is needed"
        )
    return config


def parse_section(cls: type[T], tree: Any, where: str, within: Sequence[str] = ()) -> T:
    """Validates plain data that stand alone, as the table `within` of a config. Raises ConfigError as parse_config."""
    if (problem := unfit(tree, within)) is not None:
        raise ConfigError(f"{where}: {problem}")
    return _validated(cls, tree, where, within)


def _validated(cls: type[T], tree: Any, where: str, within: Sequence[str] = ()) -> T:
    try:
        return cls.model_validate_json(json.dumps(tree))
    except ValidationError as error:
        raise ConfigError(f"{where}: {explained(cls, error, within)}") from None
