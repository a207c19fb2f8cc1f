"""history.jsonl, for tests of the runtime: which gradients were added up, stepped and committed, with a hash of each
version of the weights.

Each line is one write, so that a death leaves whole lines. A successor's lines follow those of its predecessor. While
the disk is full, lines wait in memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pool.coordinator.scheduler.actions import Action, BadBatch, Commit, Freeze, Reduce, Update
from pool.run_folder.lines import LineFile

HISTORY = "history.jsonl"


class History:
    """Writes history.jsonl: the actions of the coordinator that change a version of the weights."""

    def __init__(self, folder: Path, incarnation: int, step: int, weights: Callable[[], bytes]) -> None:
        """Opens history.jsonl, and writes a line about the version `step` that this process begins with. `weights`:
        returns the bytes of the newest complete version."""
        self._file = LineFile(folder / HISTORY)
        self._weights = weights
        self._write({"incarnation": incarnation, "begin": step, "hash": self._hash()})

    def add_action(self, action: Action) -> None:
        """Writes a line about an action that was carried out, if versions of the weights depend on it."""
        match action:
            case Reduce():
                self._add_reduction(action)
            case Update():
                if action.reduction is not None:
                    self._add_reduction(action.reduction)
                self._write({"update": action.step, "bucket": action.bucket, "batches": action.num_batches})
            case Freeze():
                self._write({"freeze": action.step, "member": action.member})
            case Commit():
                self._write({"commit": action.step, "hash": self._hash()})
            case BadBatch():
                self._write({"bad": action.step, "batch": action.batch})

    def close(self) -> None:
        """Writes the lines that wait in memory, and closes history.jsonl."""
        self._file.write_pending()
        self._file.close()

    def _add_reduction(self, action: Reduce) -> None:
        batches = [batch for contribution in action.contributions for batch in contribution.batches]
        self._write({"fold": action.step, "bucket": action.bucket, "batches": batches, "first": action.is_first})

    def _hash(self) -> str:
        return hashlib.sha256(self._weights()).hexdigest()

    def _write(self, record: dict[str, Any]) -> None:
        self._file.add(json.dumps(record))
