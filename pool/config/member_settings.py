"""Compares the settings of an ensemble's members, as plain data from config.json and checkpoints. Free of torch.

A member is one network of an ensemble.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from pool.config.ensemble import EnsembleConfig
from pool.run_folder.strict_json import describe_validation_error, printable

_MAX_SHOWN = 16  # members on a line
_NAMES_OF_RUN = ("run.dir", "run.trace", "overrides", "ensemble.member")  # names of a run, and the members' tables


def parse_member_settings(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
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
    if seed is None:
        seed = run["run"].get("seed")
    if type(seed) is not int:
        raise ValueError("run.seed: a number is expected")
    try:
        return list(ensemble.member_trees(run, seed))
    except ValidationError as error:
        raise ValueError(f"run.seed: {describe_validation_error(error)}") from None


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values in nested tables, with their dotted keys."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def find_differing_keys(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the dotted keys whose values differ between `settings`, which are mappings by such keys.

    Keys that only name a run are left out.
    """
    keys = dict.fromkeys(itertools.chain.from_iterable(settings))
    compared = [key for key in keys if key not in _NAMES_OF_RUN]
    return [key for key in compared if len({json.dumps(each.get(key)) for each in settings}) > 1]


def group_equal_settings(members: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Returns groups of two or more members, by number, whose settings are all equal, seeds included."""
    groups = defaultdict[str, list[int]](list)
    for index, member in enumerate(members):
        groups[json.dumps(member, sort_keys=True)].append(index)
    return [group for group in groups.values() if len(group) > 1]


def list_members(members: Sequence[Mapping[str, Any]]) -> str:
    """Lists the members on one line, each with the settings in which they differ."""
    settings = [dict(flatten(member)) for member in members[:_MAX_SHOWN]]
    keys = find_differing_keys(settings)
    texts = []
    for index, values in enumerate(settings):
        differences = [f"{key} = {json.dumps(values.get(key))}" for key in keys]
        texts.append(f"{index} ({', '.join(differences)})")
    if len(members) > _MAX_SHOWN:
        texts.append("...")
    return printable(", ".join(texts), 2000)
