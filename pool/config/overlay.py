"""Merges settings into others: tables are merged key by key, and other values are replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_settings(tree: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Merges the settings `changes` into `tree`, which is modified.

    A schedule's class replaces the parts of a schedule, and parts replace a class.
    """
    schedule, new_schedule = tree.get("schedule"), changes.get("schedule")
    if isinstance(schedule, dict) and isinstance(new_schedule, Mapping):
        if new_schedule.get("parts"):
            schedule.pop("name", None)
            schedule.pop("args", None)
        elif new_schedule.get("name") is not None:
            schedule.pop("parts", None)
    _merge_tables(tree, changes)


def _merge_tables(tree: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(tree.get(key), dict):
            _merge_tables(tree[key], value)
        else:
            tree[key] = value
