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

from pool.analysis.table import moves
from pool.checkpoint.folder import find_checkpoint
from pool.checkpoint.ranking import Ranking, rank
from pool.checkpoint.state import SavedState, read_state
from pool.config.changes import Change, toml_value
from pool.config.ensemble import MOST_MEMBERS, MemberConfig
from pool.config.errors import meant
from pool.config.load import load_config
from pool.config.member_settings import differing, flat
from pool.config.tree import Config
from pool.errors import CheckpointError, ConfigError
from pool.export.member import members_of
from pool.metrics.digits import in_digits

SEED = "run.model_seed"  # called `seed` in a member's table
_OF_MEMBERS = [name for name in MemberConfig.model_fields if name != "seed"]  # sections in which members may differ


@dataclass(frozen=True)
class Variation:
    """A key to vary, and its values in the order in which they were given."""

    key: str
    values: tuple[Change, ...]

    @classmethod
    def parse(cls, text: str) -> Variation:
        """Parses `KEY=VALUE,VALUE,...`. Values are TOML; a value that is not becomes text. Raises ConfigError."""
        key, _, listed = text.partition("=")
        key = key.strip()
        values = _values(key, listed)
        if not all(key.split(".")) or not values or any(value.value == "" for value in values):
            raise ConfigError(f"--vary {text}: expected section.key=value,value,...")
        seen = set[str]()
        for value in map(repr, values):  # by their texts: True is equal to 1
            if value in seen:
                raise ConfigError(f"--vary {text}: a value is given twice")
            seen.add(value)
        return cls(key, tuple(values))


def sweep_config(
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
    _check(variations, seeds)
    for variation in variations:
        _check_key(variation.key, type(run))
    if seeds > 1:
        variations = [
            *variations,
            Variation(SEED, tuple(Change(SEED, run.model_seed + n, is_toml=True) for n in range(seeds))),
        ]
    members = [_member(chosen) for chosen in itertools.product(*(variation.values for variation in variations))]
    tables = [each.key for each in variations if any(isinstance(value.value, Mapping) for value in each.values)]
    # A member's table would add to the run's. Here it replaces it, so the run's is made empty.
    base: list[str | Change] = [*overrides, *(Change(key, {}, is_toml=True) for key in tables)]
    try:
        config = _with_members(path, base, members, trace)
    except ConfigError:
        for value in itertools.chain.from_iterable(variation.values for variation in variations):
            _try(path, overrides, value)
        for member in members:  # an error that all members have is reported once
            _with_members(path, base, [member], trace)
        raise
    for value in itertools.chain.from_iterable(variation.values for variation in variations):
        value.check_quotes(type(config), "--vary")
    return config


def _with_members(path: Path, overrides: Sequence[str | Change], members: Sequence[Any], trace: Path | None) -> Config:
    """Loads the config with these members as its ensemble."""
    return load_config(path, [*overrides, Change("ensemble", {"member": list(members)}, is_toml=True)], trace=trace)


def _try(path: Path, overrides: Sequence[str], value: Change) -> None:
    """Checks that a run could have this value. Raises ConfigError that names the key as it was given."""
    try:
        load_config(path, [*overrides, value])
    except ConfigError as error:
        problem = str(error).removeprefix(f"{path}: ").removeprefix("--set ")
        raise ConfigError(f"--vary {problem}") from None


def _check_key(key: str, cls: type[Config]) -> None:
    """Checks that members of an ensemble may differ in this key. Raises ConfigError."""
    section = key.partition(".")[0]
    if key == SEED or section in _OF_MEMBERS:
        return
    allowed = f"keys of {', '.join(_OF_MEMBERS)}, and {SEED}"
    if section in cls.model_fields:
        raise ConfigError(
            f"--vary {key}: can't differ between members, which share one stream and one run; allowed: {allowed}"
        )
    raise ConfigError(f"--vary {key}: unknown key; members may differ in {allowed}{meant(section, _OF_MEMBERS)}")


def _check(variations: Sequence[Variation], seeds: int) -> None:
    """Checks that the variations can be combined. Raises ConfigError."""
    if not variations and seeds == 1:
        raise ConfigError("nothing is varied: give --vary KEY=VALUE,VALUE,..., or --seeds N with N above 1")
    keys = [variation.key for variation in variations]
    for one, other in itertools.permutations(keys, 2):
        if f"{one}.".startswith(f"{other}."):
            raise ConfigError(f"--vary {one}: " + ("is given twice" if one == other else f"is a part of {other}"))
    if seeds > 1 and SEED in keys:
        raise ConfigError(f"--vary {SEED}: the seeds are varied by --seeds; give one of the two")
    if (number := seeds * math.prod(len(variation.values) for variation in variations)) > MOST_MEMBERS:
        raise ConfigError(f"--vary: {number} combinations; at most {MOST_MEMBERS} networks train in one run")


def _values(key: str, text: str) -> list[Change]:
    """Parses the values of a key as the items of a TOML list, or one by one where they are no such list."""
    try:
        values = toml_value(f"[{text}]")
    except ValueError:
        return [_value(key, part) for part in text.split(",")]
    except RecursionError:
        raise ConfigError(f"--vary {key}: nested too deeply") from None
    return [Change(key, value, is_toml=True) for value in values]


def _value(key: str, text: str) -> Change:
    try:
        return Change(key, toml_value(text), is_toml=True)
    except ValueError:
        return Change(key, text.strip(), is_toml=False)


def _member(chosen: Iterable[Change]) -> Mapping[str, Any]:
    """Returns the table `[[ensemble.member]]` for one combination of values."""
    table: dict[str, Any] = {}
    for change in chosen:
        own = Change("seed", change.value, change.is_toml) if change.key == SEED else change
        Change(own.key, copy.deepcopy(own.value), own.is_toml).apply(table)
    return table


@dataclass(frozen=True)
class SweepResult:
    """The ranked members of a sweep that has ended, with their settings."""

    state: SavedState
    ranking: Ranking
    settings: Sequence[Mapping[str, Any]]  # settings of each member, by dotted key

    def keys(self, varied: Sequence[str]) -> list[str]:
        """Returns the keys that were varied, then other keys in which the members differ."""
        return list(dict.fromkeys([*varied, *differing(self.settings)]))

    @property
    def note(self) -> str:
        """A line for people that says by what the members are ordered."""
        metric, trained = self.ranking.goal.metric, self.ranking.trained
        if trained:
            return f"no validation: ordered by the training loss, the mean of {trained}{self._diverged}"
        note = f"ordered by the best validation {metric} of each, train.best_metric"
        if metric == "loss" and any(key.startswith("loss.") for key in differing(self.settings)):
            note += "; [loss] is not the same for all members, whose losses then measure different things"
        elif metric == "loss" and any(moves(each) for each in self.settings):
            note += "; lambda changes during the run, so losses of different steps measure different things"
        return note + self._diverged

    @property
    def _diverged(self) -> str:
        """The end of a line that names the members that diverged, or an empty text if none did."""
        steps = {m: self.ranking.diverged_at(m) for m in self.ranking.order}
        named = [f"member {m} (diverged at step {step})" for m, step in steps.items() if step is not None]
        return f"; last and no candidates: {', '.join(named)}" if named else ""


def look_at(run_dir: Path) -> SweepResult:
    """Reads the result of a sweep from the newest checkpoint of its run. Raises PoolError."""
    checkpoint = find_checkpoint(run_dir)
    try:
        state = read_state(checkpoint)
    except OSError as error:
        raise CheckpointError(f"{error.filename or checkpoint}: {error.strerror}") from None
    settings = [dict(flat(member)) for member in members_of(checkpoint, state)]
    ranking = rank(checkpoint, state, at_best=True)
    if ranking is None or len(ranking.validations) != len(settings):
        raise CheckpointError(f"{checkpoint}: says nothing of its members: neither validations nor losses are there")
    return SweepResult(state, ranking, settings)


def as_data(result: SweepResult, varied: Sequence[str]) -> list[dict[str, Any]]:
    """Returns a dict for each member, the best first. Numbers that are not finite are None, as JSON has none."""
    rows = []
    for place, m in enumerate(result.ranking.order, 1):
        worth = result.ranking.validations[m]
        numbers = {"loss": worth.loss, **worth.metrics}
        prefix = "training" if result.ranking.trained else "validation"
        rows.append(
            {
                "place": place,
                "member": m,
                "config": {key: result.settings[m].get(key) for key in result.keys(varied)},
                **{f"{prefix}_{name}": value if math.isfinite(value) else None for name, value in numbers.items()},
                "step": worth.step,
                "diverged_at": result.ranking.diverged_at(m),
                "frozen_at": result.state.members[m].frozen_at if result.state.members else None,
            }
        )
    return rows


def rows(result: SweepResult, varied: Sequence[str]) -> list[list[str]]:
    """Returns the result as a table: headings, then a row for each member."""
    data = as_data(result, varied)
    numbers = [name for name in data[0] if name.startswith(("training_", "validation_"))]
    ends = [key for key in ("frozen_at", "diverged_at") if any(row[key] is not None for row in data)]
    headings = ["member", *data[0]["config"], *(name.replace("_", " ", 1) for name in numbers), "step"]
    return [
        [*headings, *(key.replace("_", " ") for key in ends)],
        *([*_cells(row, numbers), *(_text(row[key]) for key in ends)] for row in data),
    ]


def _cells(row: Mapping[str, Any], numbers: Sequence[str]) -> list[str]:
    values = ["nan" if row[name] is None else in_digits(row[name]) for name in numbers]
    return [str(row["member"]), *map(_text, row["config"].values()), *values, str(row["step"])]


def _text(value: Any) -> str:
    return "" if value is None else json.dumps(value).strip('"')
