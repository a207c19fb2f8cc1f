"""Compares the settings of an ensemble's members, as plain data from config.json and checkpoints. Free of torch.

A member is one network of an ensemble.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from pool.config.ensemble import EnsembleConfig
from pool.run_folder.strict_json import describe_validation_error, printable

_MOST_SHOWN = 16  # members on a line
_NO_SETTINGS = ("run.dir", "run.trace", "overrides", "ensemble.member")  # names of a run, and the members' tables


def settings_of_members(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the settings of each network that a run trains. `run`: settings of the whole run.

    A run of one network returns `run` itself. Raises ValueError, with the key, for settings that no run writes.
    """
    try:
        ensemble = EnsembleConfig.model_validate_json(json.dumps(run.get("ensemble", {})))
    except ValidationError as error:
        raise ValueError(f"ensemble: {describe_validation_error(error)}") from None
    if not ensemble.is_set:
        return [run]
    if ensemble.problem:
        raise ValueError(ensemble.problem)
    for section in ("run", "optimizer", "schedule", "loss", "model"):
        if not isinstance(run.get(section), dict):
            raise ValueError(f"{section}: a section is expected")
    seed = run["run"].get("model_seed")
    seed = run["run"].get("seed") if seed is None else seed
    if type(seed) is not int:
        raise ValueError("run.seed: a number is expected")
    try:
        return list(ensemble.trees(run, seed))
    except ValidationError as error:
        raise ValueError(f"run.seed: {describe_validation_error(error)}") from None


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values in nested tables, with their dotted keys."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the dotted keys whose values differ between `settings`, which are mappings by such keys.

    Keys that only name a run are left out.
    """
    keys = dict.fromkeys(key for each in settings for key in each)
    unlike = (key for key in keys if len({json.dumps(each.get(key)) for each in settings}) > 1)
    return [key for key in unlike if key not in _NO_SETTINGS]


def equal(members: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Returns groups of two or more members, by number, whose settings are all equal, seeds included."""
    groups = defaultdict[str, list[int]](list)
    for m, member in enumerate(members):
        groups[json.dumps(member, sort_keys=True)].append(m)
    return [group for group in groups.values() if len(group) > 1]


def listed(members: Sequence[Mapping[str, Any]]) -> str:
    """Lists the members on one line, each with the settings in which they differ."""
    settings = [dict(flat(member)) for member in members[:_MOST_SHOWN]]
    keys = differing(settings)
    shown = [
        f"{m} ({', '.join(f'{key} = {json.dumps(each.get(key))}' for key in keys)})" for m, each in enumerate(settings)
    ]
    more = ["..."] if len(members) > _MOST_SHOWN else []
    return printable(", ".join([*shown, *more]), 2000)
