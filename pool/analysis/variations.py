"""What a sweep tries: values of some keys, and a member of one ensemble for each combination."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pool.config.changes import Change, toml_value
from pool.config.ensemble import MOST_MEMBERS, MemberConfig
from pool.config.errors import meant
from pool.config.load import load_config
from pool.config.tree import Config
from pool.errors import ConfigError

SEED = "run.model_seed"  # a member calls it `seed`
_OF_MEMBERS = [name for name in MemberConfig.model_fields if name != "seed"]  # sections in which they may differ


@dataclass(frozen=True)
class Variation:
    """The values of one key, in the order in which they were given."""

    key: str
    values: tuple[Change, ...]

    @classmethod
    def parse(cls, text: str) -> Variation:
        """Of `KEY=VALUE,VALUE,...`: values are TOML, or else text as it stands. Raises ConfigError."""
        key, _, given = text.partition("=")
        key = key.strip()
        values = _values(key, given)
        if not all(key.split(".")) or not values or any(value.value == "" for value in values):
            raise ConfigError(f"--vary {text}: expected section.key=value,value,...")
        seen = set[str]()
        for value in map(repr, values):  # True is equal to 1
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
    """The config of an ensemble with a member for each combination, each with `seeds` seeds. Raises ConfigError."""
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
    # A member's table adds to the run's, and here it takes its place: so the run's is empty.
    base: list[str | Change] = [*overrides, *(Change(key, {}, is_toml=True) for key in tables)]
    try:
        config = _with_members(path, base, members, trace)
    except ConfigError:
        for value in itertools.chain.from_iterable(variation.values for variation in variations):
            _try(path, overrides, value)
        for member in members:  # what is wrong with one is wrong with others too, and is told once
            _with_members(path, base, [member], trace)
        raise
    for value in itertools.chain.from_iterable(variation.values for variation in variations):
        value.check_quotes(type(config), "--vary")
    return config


def _with_members(path: Path, overrides: Sequence[str | Change], members: Sequence[Any], trace: Path | None) -> Config:
    return load_config(path, [*overrides, Change("ensemble", {"member": list(members)}, is_toml=True)], trace=trace)


def _try(path: Path, overrides: Sequence[str], value: Change) -> None:
    """Raises ConfigError for a value that no run could have, with the key as it was given."""
    try:
        load_config(path, [*overrides, value])
    except ConfigError as error:
        problem = str(error).removeprefix(f"{path}: ").removeprefix("--set ")
        raise ConfigError(f"--vary {problem}") from None


def _check_key(key: str, cls: type[Config]) -> None:
    """That members may differ in it. Raises ConfigError."""
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
    """That they can be combined. Raises ConfigError."""
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
    """As a TOML list has them; or, if that can't be, one by one."""
    try:
        found = toml_value(f"[{text}]")
    except ValueError:
        return [_value(key, part) for part in text.split(",")]
    except RecursionError:
        raise ConfigError(f"--vary {key}: nested too deeply") from None
    return [Change(key, value, is_toml=True) for value in found]


def _value(key: str, text: str) -> Change:
    try:
        return Change(key, toml_value(text), is_toml=True)
    except ValueError:
        return Change(key, text.strip(), is_toml=False)


def _member(chosen: Iterable[Change]) -> Mapping[str, Any]:
    """Its table `[[ensemble.member]]`."""
    table: dict[str, Any] = {}
    for change in chosen:
        own = Change("seed", change.value, change.is_toml) if change.key == SEED else change
        Change(own.key, copy.deepcopy(own.value), own.is_toml).apply(table)
    return table
