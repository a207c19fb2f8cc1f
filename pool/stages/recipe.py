"""Reads a recipe, which is a config with [[stage]] tables. Free of torch.

Each table overrides settings in the rest of the file, which together are the config of one run.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pool.config.changes import Change
from pool.config.errors import suggest_name
from pool.config.load import STAGE, apply_changes, parse_section
from pool.config.overlay import merge_settings
from pool.config.stages import EndConfig, StageConfig
from pool.config.tree import Config
from pool.errors import ConfigError
from pool.task.registry import load_task_module
from pool.task.start import KEY, start_folder

STAGES = "stages"
_OPTIONS = StageConfig.model_fields.keys()
_KEYS = {*_OPTIONS, "task"}  # keys of a stage that are no sections


@dataclass(frozen=True)
class Stage:
    """Describes a stage of a recipe: its own keys, the config of its run, and what the run starts from."""

    options: StageConfig  # its own keys
    config: Config  # with the settings outside of stages; run.dir is the recipe's
    parent: Stage | None  # the stage that it starts from
    start: str | None  # path of what it starts from, if that is no stage

    @property
    def name(self) -> str:
        return self.options.name


@dataclass(frozen=True)
class Recipe:
    """Holds the stages of a recipe, in order, and the folder that contains their run folders."""

    folder: Path  # run.dir; each stage is a run folder in it
    stages: tuple[Stage, ...]

    def index(self, name: str, option: str) -> int:
        """Returns the index of the stage that an option names. Raises ConfigError."""
        names = [stage.name for stage in self.stages]
        if name not in names:
            raise ConfigError(f"{option} {name}: no such stage; there are {', '.join(names)}")
        return names.index(name)


def is_recipe(tree: Mapping[str, Any]) -> bool:
    """Tells whether a config, as plain data, has stages."""
    return STAGE in tree or STAGES in tree


def parse_recipe(tree: Mapping[str, Any], overrides: Iterable[str], location: str) -> Recipe:
    """Reads a recipe from plain data. Raises ConfigError.

    `overrides`: values of `--set`. `KEY=VALUE` changes all stages, `stage.NAME.KEY=VALUE` one stage, and
    `stages.KEY=VALUE` the table [stages]. They override the file. `location`: file name for error messages.
    """
    changes = [Change.parse(change) for change in overrides]
    base = {key: value for key, value in tree.items() if key not in (STAGE, STAGES)}
    tables = tree.get(STAGE, [])
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{location}: a recipe has one table [[{STAGE}]] or more; pool train trains other configs")
    defaults: Any = copy.deepcopy(tree.get(STAGES, {}))
    if isinstance(defaults, dict):
        for change in _changes_in(STAGES, changes):
            change.apply(defaults)
    default_options = parse_section(EndConfig, defaults, f"{location}: {STAGES}")
    stages: list[Stage] = []
    for number, table in enumerate(tables, 1):
        stages.append(_parse_stage(base, table, default_options, stages, changes, f"{location}: {STAGE} {number}"))
    _check_changes(changes, [stage.name for stage in stages])
    folders = {stage.config.run_dir for stage in stages}
    if len(folders) > 1:
        raise ConfigError(f"{location}: run.dir: all stages lie in one folder: set it before the first [[{STAGE}]]")
    return Recipe(folders.pop(), tuple(stages))


def _check_changes(changes: Sequence[Change], stage_names: Sequence[str]) -> None:
    """Raises ConfigError for a change of a stage that is not in the recipe, or of no key."""
    for change in changes:
        section, *path = change.key.split(".")
        if (section == STAGE and len(path) < 2) or (section == STAGES and not path):
            raise ConfigError(f"--set {change.key}: expected {STAGE}.NAME.KEY=VALUE or {STAGES}.KEY=VALUE")
        if section == STAGE and path[0] not in stage_names:
            raise ConfigError(f"--set {change.key}: no such stage; there are {', '.join(stage_names)}")


def _parse_stage(
    base: Mapping[str, Any],
    table: Mapping[str, Any],
    default_options: EndConfig,
    earlier_stages: Sequence[Stage],
    changes: Sequence[Change],
    location: str,
) -> Stage:
    """Reads and checks one stage. `base`: settings outside of stages. Raises ConfigError."""
    if "name" not in table:
        raise ConfigError(f'{location}: name: is missing: each stage has one, as name = "first"')
    for key, value in table.items():
        if key not in _KEYS and not isinstance(value, dict):
            raise ConfigError(
                f"{location}: {key}: unknown key; a stage has {', '.join(_OPTIONS)}, and sections, as [{STAGE}.train]"
                f"{suggest_name(key, _OPTIONS)}"
            )
    stage_changes = _changes_in(f"{STAGE}.{table.get('name')}", changes)
    option_values = default_options.model_dump(mode="json")
    option_values |= {key: value for key, value in table.items() if key in _OPTIONS}
    option_values |= {change.key: change.value for change in stage_changes if change.key in _OPTIONS}
    options = parse_section(StageConfig, option_values, location)
    if options.name in (stage.name for stage in earlier_stages):
        raise ConfigError(f"{location}: name: there are two stages {options.name}")
    location = f"{location} ({options.name})"
    settings: dict[str, Any] = copy.deepcopy(dict(base))
    merge_settings(settings, {key: value for key, value in table.items() if key not in _OPTIONS})
    setting_changes = [change for change in changes if change.key.partition(".")[0] not in (STAGE, STAGES)]
    setting_changes += [change for change in stage_changes if change.key not in _OPTIONS]
    config = apply_changes(settings, setting_changes, location)
    stage = _resolve_start(options, config, earlier_stages)
    _check_options(stage, location)
    _check_start(stage, location)
    return stage


def _changes_in(section: str, changes: Iterable[Change]) -> list[Change]:
    """Returns the changes of keys in a section, with the section's name removed from the keys."""
    prefix = f"{section}."
    return [
        Change(change.key.removeprefix(prefix), change.value, is_toml=change.is_toml)
        for change in changes
        if change.key.startswith(prefix)
    ]


def _resolve_start(options: StageConfig, config: Config, earlier_stages: Sequence[Stage]) -> Stage:
    """Returns the stage with what it starts from: an earlier stage, a path, or neither."""
    start = options.start_from
    if start is None and earlier_stages:
        return Stage(options, config, earlier_stages[-1], None)
    for stage in earlier_stages:
        if stage.name == start:
            return Stage(options, config, stage, None)
    return Stage(options, config, None, start or getattr(config.model, KEY))


def _check_options(stage: Stage, location: str) -> None:
    """Raises ConfigError for a stage's own keys that contradict each other or its settings."""
    own, config = stage.options, stage.config
    if config.train.epochs:
        raise ConfigError(
            f"{location}: train.epochs: a stage says train.steps: whether it is done is seen without its data"
        )
    if own.permute and not own.export:
        raise ConfigError(f"{location}: permute: without export = true there is no network to order")
    if own.weights and not own.export:
        raise ConfigError(f"{location}: weights: without export = true there is no network to have them")
    if own.weights == "averaged" and not _has_average(config):
        raise ConfigError(f'{location}: weights: "averaged", but the stage makes no average: set train.average')
    if own.test and not own.export:
        raise ConfigError(f"{location}: test: without export = true there is no network to test")
    if own.export and config.ensemble.is_set:
        raise ConfigError(
            f"{location}: export: of an ensemble a file holds one network: pool export --member writes it"
        )
    if own.export and not getattr(load_task_module(config.task), "EXPORT_SUFFIX", ""):
        raise ConfigError(f"{location}: export: the task {config.task} writes no network files")


def _check_start(stage: Stage, location: str) -> None:
    """Raises ConfigError if a stage can't start with the weights or the checkpoint that its settings name."""
    config, parent = stage.config, stage.parent
    averaged = config.train.start_weights == "averaged"
    if stage.options.start_with == "checkpoint":
        model = config.model.model_copy(update={KEY: stage.start})
        if parent is None and (stage.start is None or start_folder(model) is None):
            raise ConfigError(
                f'{location}: start_with: "checkpoint" needs a stage, a run or a checkpoint to start from'
            )
        if averaged:
            raise ConfigError(f'{location}: train.start_weights: "averaged" goes with start_with = "weights"')
        if parent is not None:
            _check_continues(config, parent, location)
    elif averaged and parent is None and stage.start is None:
        raise ConfigError(
            f'{location}: train.start_weights: "averaged" needs a stage, a run or a checkpoint to start from'
        )
    elif averaged and parent is not None and not _has_average(parent.config):
        raise ConfigError(
            f'{location}: train.start_weights: "averaged", but {parent.name} makes no average: set train.average there'
        )


def _has_average(config: Config) -> bool:
    """Tells whether a run with this config computes averaged weights."""
    return config.train.average.kind is not None and config.train.average.start <= config.train.steps


def _check_continues(config: Config, parent: Stage, location: str) -> None:
    """Raises ConfigError if a stage can't continue its parent's checkpoint with its optimizer and steps."""
    before = parent.config
    if config.train.steps <= before.train.steps:
        raise ConfigError(
            f"{location}: train.steps: {config.train.steps} in all, and {parent.name} has done {before.train.steps}; a "
            "stage that starts with a checkpoint counts on"
        )
    for key, value, value_before in (
        ("task", config.task, before.task),
        ("optimizer.name", config.optimizer.name, before.optimizer.name),
    ):
        if value != value_before:
            raise ConfigError(f"{location}: {key}: {value}, but the checkpoint of {parent.name} is of {value_before}")
