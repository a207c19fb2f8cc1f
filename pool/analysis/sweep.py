"""A sweep: one run that trains an ensemble, with a member (network) for each combination of some settings' values, and
the ranking of its members."""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pool.analysis.table import has_moving_target
from pool.checkpoint.folder import find_checkpoint
from pool.checkpoint.ranking import Ranking, rank
from pool.checkpoint.state import SavedState, read_state
from pool.config.changes import Change, parse_toml_value
from pool.config.ensemble import MAX_MEMBERS, MemberConfig
from pool.config.errors import suggest_name
from pool.config.load import load_config
from pool.config.member_settings import find_differing_keys, flatten
from pool.config.tree import Config
from pool.errors import CheckpointError, ConfigError
from pool.export.member import read_members
from pool.metrics.digits import format_value

SEED = "run.model_seed"  # called `seed` in a member's table
_MEMBER_SECTIONS = [name for name in MemberConfig.model_fields if name != "seed"]  # in which members may differ


@dataclass(frozen=True)
class Variation:
    """Holds a key to vary, and its values in the order of the command line."""

    key: str
    values: tuple[Change, ...]

    @classmethod
    def parse(cls, text: str) -> Variation:
        """Parses `KEY=VALUE,VALUE,...`. Values are TOML; a value that is not becomes text. Raises ConfigError."""
        key, _, values_text = text.partition("=")
        key = key.strip()
        values = _parse_values(key, values_text)
        if not all(key.split(".")) or not values or any(value.value == "" for value in values):
            raise ConfigError(f"--vary {text}: expected section.key=value,value,...")
        seen = set[str]()
        for value in map(repr, values):  # by their texts: True is equal to 1
            if value in seen:
                raise ConfigError(f"--vary {text}: a value is given twice")
            seen.add(value)
        return cls(key, tuple(values))


def build_sweep_config(
    path: Path,
    overrides: Sequence[str],
    variations: Sequence[Variation],
    seeds: int = 1,
    *,
    trace: Path | None = None,
) -> Config:
    """Returns the config of an ensemble that has a member for each combination of values and each of `seeds` seeds.
    Raises ConfigError."""
    run = load_config(path, overrides)
    if run.ensemble.is_set:
        raise ConfigError(f"{path}: ensemble: a sweep makes the members; leave it out, or train it with pool train")
    _check_combinations(variations, seeds)
    for variation in variations:
        _check_key(variation.key, type(run))
    if seeds > 1:
        model_seeds = range(run.model_seed, run.model_seed + seeds)
        variations = [*variations, Variation(SEED, tuple(Change(SEED, seed, is_toml=True) for seed in model_seeds))]
    members = [_build_member(values) for values in itertools.product(*(variation.values for variation in variations))]
    base: list[str | Change] = list(overrides)
    for variation in variations:
        if any(isinstance(value.value, Mapping) for value in variation.values):
            # A member's table would be merged into the run's. The run's is emptied, so that the member's replaces it.
            base.append(Change(variation.key, {}, is_toml=True))
    values = [value for variation in variations for value in variation.values]
    try:
        config = _load_with_members(path, base, members, trace)
    except ConfigError:
        for value in values:
            _check_value(path, overrides, value)
        for member in members:  # an error that all members have is reported once
            _load_with_members(path, base, [member], trace)
        raise
    for value in values:
        value.check_is_quoted(type(config), "--vary")
    return config


def _load_with_members(
    path: Path, overrides: Sequence[str | Change], members: Sequence[Any], trace: Path | None
) -> Config:
    """Loads the config with these members as its ensemble."""
    return load_config(path, [*overrides, Change("ensemble", {"member": list(members)}, is_toml=True)], trace=trace)


def _check_value(path: Path, overrides: Sequence[str], value: Change) -> None:
    """Checks that a run could have this value. Raises ConfigError that names the key as it was given."""
    try:
        load_config(path, [*overrides, value])
    except ConfigError as error:
        problem = str(error).removeprefix(f"{path}: ").removeprefix("--set ")
        raise ConfigError(f"--vary {problem}") from None


def _check_key(key: str, cls: type[Config]) -> None:
    """Checks that members of an ensemble may differ in this key. Raises ConfigError."""
    section = key.partition(".")[0]
    if key == SEED or section in _MEMBER_SECTIONS:
        return
    allowed = f"keys of {', '.join(_MEMBER_SECTIONS)}, and {SEED}"
    if section in cls.model_fields:
        raise ConfigError(
            f"--vary {key}: can't differ between members, which share one stream and one run; allowed: {allowed}"
        )
    raise ConfigError(
        f"--vary {key}: unknown key; members may differ in {allowed}{suggest_name(section, _MEMBER_SECTIONS)}"
    )


def _check_combinations(variations: Sequence[Variation], seeds: int) -> None:
    """Checks that the variations can be combined. Raises ConfigError."""
    if not variations and seeds == 1:
        raise ConfigError("nothing is varied: give --vary KEY=VALUE,VALUE,..., or --seeds N with N above 1")
    keys = [variation.key for variation in variations]
    for one, other in itertools.permutations(keys, 2):
        if f"{one}.".startswith(f"{other}."):
            problem = "is given twice" if one == other else f"is a part of {other}"
            raise ConfigError(f"--vary {one}: {problem}")
    if seeds > 1 and SEED in keys:
        raise ConfigError(f"--vary {SEED}: the seeds are varied by --seeds; give one of the two")
    num_members = seeds * math.prod(len(variation.values) for variation in variations)
    if num_members > MAX_MEMBERS:
        raise ConfigError(f"--vary: {num_members} combinations; at most {MAX_MEMBERS} networks train in one run")


def _parse_values(key: str, text: str) -> list[Change]:
    """Parses the values of a key as the items of a TOML list, or one by one where they are no such list."""
    try:
        values = parse_toml_value(f"[{text}]")
    except ValueError:
        return [_parse_value(key, part) for part in text.split(",")]
    except RecursionError:
        raise ConfigError(f"--vary {key}: nested too deeply") from None
    return [Change(key, value, is_toml=True) for value in values]


def _parse_value(key: str, text: str) -> Change:
    try:
        return Change(key, parse_toml_value(text), is_toml=True)
    except ValueError:
        return Change(key, text.strip(), is_toml=False)


def _build_member(values: Iterable[Change]) -> Mapping[str, Any]:
    """Returns the table `[[ensemble.member]]` for one combination of values."""
    table: dict[str, Any] = {}
    for change in values:
        key = "seed" if change.key == SEED else change.key
        Change(key, copy.deepcopy(change.value), change.is_toml).apply(table)
    return table


@dataclass(frozen=True)
class SweepResult:
    """Holds the ranked members of a sweep that has ended, with their settings."""

    state: SavedState
    ranking: Ranking
    settings: Sequence[Mapping[str, Any]]  # settings of each member, by dotted key

    def keys(self, varied: Sequence[str]) -> list[str]:
        """Returns the keys that were varied, then other keys in which the members differ."""
        return list(dict.fromkeys([*varied, *find_differing_keys(self.settings)]))

    @property
    def note(self) -> str:
        """Returns a line for the user on how the members are ordered."""
        metric, trained = self.ranking.goal.metric, self.ranking.trained
        if trained:
            return f"no validation: ordered by the training loss, the mean of {trained}{self._diverged_text}"
        note = f"ordered by the best validation {metric} of each, train.best_metric"
        if metric == "loss" and any(key.startswith("loss.") for key in find_differing_keys(self.settings)):
            note += "; [loss] is not the same for all members, whose losses then measure different things"
        elif metric == "loss" and any(map(has_moving_target, self.settings)):
            note += "; lambda changes during the run, so losses of different steps measure different things"
        return note + self._diverged_text

    @property
    def _diverged_text(self) -> str:
        """Returns the end of a line, with the members that diverged, or an empty text if none did."""
        steps = {member: self.ranking.diverged_at(member) for member in self.ranking.order}
        texts = [f"member {member} (diverged at step {step})" for member, step in steps.items() if step is not None]
        return f"; last and no candidates: {', '.join(texts)}" if texts else ""


def read_result(run_dir: Path) -> SweepResult:
    """Reads the result of a sweep from the newest checkpoint of its run. Raises PoolError."""
    checkpoint = find_checkpoint(run_dir)
    try:
        state = read_state(checkpoint)
    except OSError as error:
        raise CheckpointError(f"{error.filename or checkpoint}: {error.strerror}") from None
    settings = [dict(flatten(member)) for member in read_members(checkpoint, state)]
    ranking = rank(checkpoint, state, at_best=True)
    if ranking is None or len(ranking.validations) != len(settings):
        raise CheckpointError(f"{checkpoint}: says nothing of its members: neither validations nor losses are there")
    return SweepResult(state, ranking, settings)


def summarize_members(result: SweepResult, varied: Sequence[str]) -> list[dict[str, Any]]:
    """Returns a dict for each member, the best first. Numbers that are not finite are None, as JSON has none."""
    prefix = "training" if result.ranking.trained else "validation"
    keys = result.keys(varied)
    summaries = []
    for place, member in enumerate(result.ranking.order, 1):
        validation = result.ranking.validations[member]
        numbers = {"loss": validation.loss, **validation.metrics}
        summaries.append(
            {
                "place": place,
                "member": member,
                "config": {key: result.settings[member].get(key) for key in keys},
                **{f"{prefix}_{name}": value if math.isfinite(value) else None for name, value in numbers.items()},
                "step": validation.step,
                "diverged_at": result.ranking.diverged_at(member),
                "frozen_at": result.state.members[member].frozen_at if result.state.members else None,
            }
        )
    return summaries


def result_table(result: SweepResult, varied: Sequence[str]) -> list[list[str]]:
    """Returns the result as a table: headings, then a row for each member."""
    summaries = summarize_members(result, varied)
    first = summaries[0]
    numbers = [name for name in first if name.startswith(("training_", "validation_"))]
    ends = [key for key in ("frozen_at", "diverged_at") if any(summary[key] is not None for summary in summaries)]
    headings = ["member", *first["config"], *(name.replace("_", " ", 1) for name in numbers), "step"]
    headings += [key.replace("_", " ") for key in ends]
    return [headings, *(_format_row(summary, numbers, ends) for summary in summaries)]


def _format_row(summary: Mapping[str, Any], numbers: Sequence[str], ends: Sequence[str]) -> list[str]:
    """Returns the cells of a member. `numbers`, `ends`: names of its numbers, and of the steps at which it ended."""
    values = ["nan" if summary[name] is None else format_value(summary[name]) for name in numbers]
    settings = map(_format_setting, summary["config"].values())
    end_steps = [_format_setting(summary[key]) for key in ends]
    return [str(summary["member"]), *settings, *values, str(summary["step"]), *end_steps]


def _format_setting(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value).strip('"')
