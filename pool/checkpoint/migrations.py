"""Names that earlier versions used: their checkpoints are read under today's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TASKS = {"nnue": "stockfish"}


def with_new_names(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config that a checkpoint holds; anything may stand in it."""
    task = config.get("task")
    return {**config, "task": TASKS[task]} if isinstance(task, str) and task in TASKS else config
