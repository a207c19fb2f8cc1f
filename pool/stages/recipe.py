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
from pool.config.errors import meant
from pool.config.load import STAGE, parse_config, parse_section
from pool.config.overlay import lay_over
from pool.config.stages import EndConfig, StageConfig
from pool.config.tree import Config
from pool.errors import ConfigError
from pool.task.registry import load_task_module
from pool.task.start import KEY, start_folder

STAGES = "stages"
_OWN = StageConfig.model_fields.keys()
_KEYS = {*_OWN, "task"}  # keys of a stage that are no sections


@dataclass(frozen=True)
class Stage:
    """A stage of a recipe: its own keys, the config of its run, and what the run starts from."""

    own: StageConfig
    config: Config  # with the settings outside of stages; run.dir is the recipe's
    parent: Stage | None  # the stage that it starts from
    start: str | None  # path of what it starts from, if that is no stage

    @property
    def name(self) -> str:
        return self.own.name


@dataclass(frozen=True)
class Recipe:
    """The stages of a recipe, in order, and the folder that contains their run folders."""

    folder: Path  # run.dir; each stage is a run folder in it
    stages: tuple[Stage, ...]

    def index(self, name: str, option: str) -> int:
        """Returns the index of the stage that an option names. Raises ConfigError."""
        names = [stage.name for stage in self.stages]
        if name not in names:
            raise ConfigError(f"{option} {name}: no such stage; there are {', '.join(names)}")
        return names.index(name)


def is_recipe(tree: Mapping[str, Any]) -> bool:
    """Returns whether a config, as plain data, has stages."""
    return STAGE in tree or STAGES in tree


def parse_recipe(tree: Mapping[str, Any], overrides: Iterable[str], where: str) -> Recipe:
    """Reads a recipe from plain data. Raises ConfigError.

    `overrides`: values of `--set`. `KEY=VALUE` changes all stages, `stage.NAME.KEY=VALUE` one stage, and
    `stages.KEY=VALUE` the table [stages]. They override the file. `where`: file name for error messages.
    """
    changes = [Change.parse(change) for change in overrides]
    base = {key: value for key, value in tree.items() if key not in (STAGE, STAGES)}
    tables = tree.get(STAGE, [])
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{where}: a recipe has one table [[{STAGE}]] or more; pool train trains other configs")
    ends: Any = copy.deepcopy(tree.get(STAGES, {}))
    for change in _below(STAGES, changes) if isinstance(ends, dict) else ():
        change.apply(ends)
    at_end = parse_section(EndConfig, ends, f"{where}: {STAGES}")
    stages: list[Stage] = []
    for number, table in enumerate(tables):
        stages.append(_stage(base, table, at_end, stages, changes, f"{where}: {STAGE} {number + 1}"))
    named = {stage.name for stage in stages}
    for change in changes:
        section, *below = change.key.split(".")
        if (section == STAGE and len(below) < 2) or (section == STAGES and not below):
            raise ConfigError(f"--set {change.key}: expected {STAGE}.NAME.KEY=VALUE or {STAGES}.KEY=VALUE")
        if section == STAGE and below[0] not in named:
            raise ConfigError(f"--set {change.key}: no such stage; there are {', '.join(s.name for s in stages)}")
    folders = {stage.config.run_dir for stage in stages}
    if len(folders) > 1:
        raise ConfigError(f"{where}: run.dir: all stages lie in one folder: set it before the first [[{STAGE}]]")
    return Recipe(folders.pop(), tuple(stages))


def _stage(
    base: Mapping[str, Any],
    table: Mapping[str, Any],
    at_end: EndConfig,
    before: Sequence[Stage],
    changes: Sequence[Change],
    where: str,
) -> Stage:
    """Reads and checks one stage. `base`: settings outside of stages. `before`: the stages before it. Raises
    ConfigError."""
    if "name" not in table:
        raise ConfigError(f'{where}: name: is missing: each stage has one, as name = "first"')
    if stray := next((key for key, value in table.items() if key not in _KEYS and not isinstance(value, dict)), None):
        raise ConfigError(
            f"{where}: {stray}: unknown key; a stage has {', '.join(_OWN)}, and sections, as [{STAGE}.train]"
            f"{meant(stray, _OWN)}"
        )
    mine = _below(f"{STAGE}.{table.get('name')}", changes)
    keys = {**at_end.model_dump(mode="json"), **{key: value for key, value in table.items() if key in _OWN}}
    keys |= {change.key: change.value for change in mine if change.key in _OWN}
    own = parse_section(StageConfig, keys, where)
    if own.name in (stage.name for stage in before):
        raise ConfigError(f"{where}: name: there are two stages {own.name}")
    where = f"{where} ({own.name})"
    settings: dict[str, Any] = copy.deepcopy(dict(base))
    lay_over(settings, {key: value for key, value in table.items() if key not in _OWN})
    applied = [change for change in changes if change.key.partition(".")[0] not in (STAGE, STAGES)]
    applied += [change for change in mine if change.key not in _OWN]
    for change in applied:
        change.apply(settings)
    config = parse_config(settings, where)
    for change in applied:
        change.check_quotes(type(config))
    stage = _started(own, config, before)
    _check(stage, where)
    return stage


def _below(section: str, changes: Iterable[Change]) -> list[Change]:
    """Returns the changes of keys in a section, with the section's name removed from the keys."""
    prefix = f"{section}."
    return [
        Change(change.key.removeprefix(prefix), change.value, is_toml=change.is_toml)
        for change in changes
        if change.key.startswith(prefix)
    ]


def _started(own: StageConfig, config: Config, before: Sequence[Stage]) -> Stage:
    """Returns the stage with what it starts from: an earlier stage, a path, or neither."""
    start = own.start_from
    if start is None and before:
        return Stage(own, config, before[-1], None)
    named = next((stage for stage in before if stage.name == start), None)
    return Stage(own, config, named, None if named is not None else start or getattr(config.model, KEY))


def _check(stage: Stage, where: str) -> None:
    """Raises ConfigError for contradictory settings that can be found before any file exists."""
    own, config, parent = stage.own, stage.config, stage.parent
    if config.train.epochs:
        raise ConfigError(
            f"{where}: train.epochs: a stage says train.steps: whether it is done is seen without its data"
        )
    if own.permute and not own.export:
        raise ConfigError(f"{where}: permute: without export = true there is no network to order")
    if own.weights and not own.export:
        raise ConfigError(f"{where}: weights: without export = true there is no network to have them")
    if own.weights == "averaged" and not _averages(config):
        raise ConfigError(f'{where}: weights: "averaged", but the stage makes no average: set train.average')
    if own.test and not own.export:
        raise ConfigError(f"{where}: test: without export = true there is no network to test")
    if own.export and config.ensemble.is_set:
        raise ConfigError(f"{where}: export: of an ensemble a file holds one network: pool export --member writes it")
    if own.export and not getattr(load_task_module(config.task), "EXPORT_SUFFIX", ""):
        raise ConfigError(f"{where}: export: the task {config.task} writes no network files")
    averaged = config.train.start_weights == "averaged"
    if own.start_with == "checkpoint":
        model = config.model.model_copy(update={KEY: stage.start})
        if parent is None and (stage.start is None or start_folder(model) is None):
            raise ConfigError(f'{where}: start_with: "checkpoint" needs a stage, a run or a checkpoint to start from')
        if averaged:
            raise ConfigError(f'{where}: train.start_weights: "averaged" goes with start_with = "weights"')
        if parent is not None:
            _check_goes_on(config, parent, where)
    elif averaged and parent is None and stage.start is None:
        raise ConfigError(
            f'{where}: train.start_weights: "averaged" needs a stage, a run or a checkpoint to start from'
        )
    elif averaged and parent is not None and not _averages(parent.config):
        raise ConfigError(
            f'{where}: train.start_weights: "averaged", but {parent.name} makes no average: set train.average there'
        )


def _averages(config: Config) -> bool:
    """Returns whether a run with this config makes averaged weights."""
    return config.train.average.kind is not None and config.train.average.start <= config.train.steps


def _check_goes_on(config: Config, parent: Stage, where: str) -> None:
    """Raises ConfigError if a stage can't continue its parent's checkpoint with its optimizer and steps."""
    then = parent.config
    if config.train.steps <= then.train.steps:
        raise ConfigError(
            f"{where}: train.steps: {config.train.steps} in all, and {parent.name} has done {then.train.steps}; a "
            "stage that starts with a checkpoint counts on"
        )
    for key, now, was in (
        ("task", config.task, then.task),
        ("optimizer.name", config.optimizer.name, then.optimizer.name),
    ):
        if now != was:
            raise ConfigError(f"{where}: {key}: {now}, but the checkpoint of {parent.name} is of {was}")
