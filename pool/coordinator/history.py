"""history.jsonl, for tests of the runtime: what was added up, stepped and committed, with a hash of each version.

A line is one write, so that a death leaves whole lines; a successor's lines follow those of its predecessor.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pool.coordinator.actions import Action, BadBatch, Commit, Fold, Update
from pool.run_dir import open_file
from pool.shm.memory import Slot

HISTORY = "history.jsonl"


class History:
    def __init__(self, folder: Path, life: int, step: int, weights: Callable[[], Slot]) -> None:
        """`weights`: the memory of the newest complete version."""
        self._fd = open_file(folder / HISTORY, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._weights = weights
        self._write({"life": life, "begin": step, "hash": self._hash()})

    def done(self, action: Action) -> None:
        """The coordinator has carried out an action."""
        if isinstance(action, Fold):
            self._folded(action)
        elif isinstance(action, Update):
            if action.fold is not None:
                self._folded(action.fold)
            self._write({"update": action.step, "bucket": action.bucket, "batches": action.batches})
        elif isinstance(action, BadBatch):
            self._write({"bad": action.step, "batch": action.batch})
        elif isinstance(action, Commit):
            self._write({"commit": action.step, "hash": self._hash()})

    def _folded(self, fold: Fold) -> None:
        batches = [source.batch for source in fold.sources]
        self._write({"fold": fold.step, "bucket": fold.bucket, "batches": batches, "first": fold.first})

    def _hash(self) -> str:
        return hashlib.sha256(self._weights().data).hexdigest()

    def _write(self, record: dict[str, Any]) -> None:
        os.write(self._fd, json.dumps(record).encode() + b"\n")
