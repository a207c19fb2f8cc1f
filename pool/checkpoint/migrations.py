"""Translates names in the configs of checkpoints that earlier versions of sparsepool wrote to today's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TASKS = {"nnue": "stockfish"}


def with_new_names(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the config of a checkpoint with the task's earlier name replaced by today's.

    The config is not validated yet: its values may have any type.
    """
    task = config.get("task")
    return {**config, "task": TASKS[task]} if isinstance(task, str) and task in TASKS else config
