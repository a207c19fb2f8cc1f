"""Merges settings into others: tables are merged key by key, and other values are replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def lay_over(tree: dict[str, Any], own: Mapping[str, Any]) -> None:
    """Merges the settings `own` into `tree`, which is modified.

    A schedule's class replaces the parts of a schedule, and parts replace a class.
    """
    schedule, other = tree.get("schedule"), own.get("schedule")
    if isinstance(schedule, dict) and isinstance(other, Mapping):
        if other.get("parts"):
            schedule.pop("name", None)
            schedule.pop("args", None)
        elif other.get("name") is not None:
            schedule.pop("parts", None)
    _merge(tree, own)


def _merge(tree: dict[str, Any], own: Mapping[str, Any]) -> None:
    for key, value in own.items():
        if isinstance(value, Mapping) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = value
