"""Ensembles for tests: the settings of their members' own runs, and what a member of a run has ended with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file


def table(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`[[ensemble.member]]` of what would be changed for a run of its own, given by dotted keys."""
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        *sections, name = ("seed" if key == "run.model_seed" else key).split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    return tree


def ensemble(settings: Mapping[str, Any], members: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of one run of all of them."""
    return {**settings, "ensemble.member": [table(member) for member in members]}


def digest(checkpoint: Path, member: int | None = None) -> str:
    """SHA-256 over weights and optimizer state of a solo run, or of one member of an ensemble."""
    prefix = "" if member is None else f"member.{member}."
    total = hashlib.sha256()
    for file in ("weights.safetensors", "optimizer.safetensors"):
        arrays = {key: array for key, array in load_file(checkpoint / file).items() if key.startswith(prefix)}
        for key, array in sorted(arrays.items()):
            total.update(key.removeprefix(prefix).encode())
            total.update(array.tobytes())
    return total.hexdigest()
