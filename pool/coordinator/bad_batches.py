"""Handles a batch that can't be used: keeps it in the run folder, and ends the run or tells the user that it goes on
without the batch."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from loader.plugins.error_text import format_error_with_location
from loader.stream.interface import Cursor
from loader.stream.schema import SparseBatch
from pool.coordinator import poison
from pool.coordinator.scheduler.actions import BadBatch
from pool.errors import RunError
from pool.metrics.medians import format_members
from pool.process.start import CoordinatorStart
from pool.run_folder.access import show_real_paths
from pool.shm.memory import Memory

log = logging.getLogger(__name__)


class BadBatches:
    """Keeps batches that can't be used, and tells the user of them."""

    def __init__(self, start: CoordinatorStart, memory: Memory, notify: Callable[[str], object]) -> None:
        """Makes the handler of bad batches of a run. `notify`: shows the run's user a line."""
        self._start = start
        self._memory = memory
        self._notify = notify
        self._schema = start.layout.schema

    def handle(self, action: BadBatch) -> None:
        """Keeps a batch in the run folder, if this machine has it, and tells the user. Raises RunError if there is no
        step without the batch."""
        who = f"{format_members(action.members)}, " if action.members else ""
        text = f"{who}batch {action.batch} of step {action.step}: {action.reason}; {self._save(action)}"
        if action.is_fatal:
            stops = self._start.config.train.on_bad_batch == "stop"
            raise RunError(text + ('; train.on_bad_batch = "skip" would leave it out' if stops else ""))
        text += f"; {_describe_consequence(action)}"
        log.warning("%s", show_real_paths(text))
        self._notify(text)

    def _save(self, action: BadBatch) -> str:
        """Saves the batch, and returns in words where, or why it is not saved."""
        if action.cursor is None:
            return f"machine {action.machine} has it"
        batch = SparseBatch.view(self._schema, self._memory.batch_slot("train", action.batch))
        try:
            path = poison.save_batch(self._start.run_dir, batch, action, self._find_origin(action.cursor))
        except OSError as error:
            return f"it can't be kept: {error}"
        return f"it is kept in {path}"

    def _find_origin(self, cursor: Cursor) -> Mapping[str, Any]:
        """Returns where in the data files the batch begins, as the source of the data describes it. If the source fails
        to, returns what went wrong."""
        start = self._start
        try:
            origin = start.data["train"].origin(cursor)
            json.dumps(origin)
        except Exception as error:  # a user's own source may raise anything, or return what JSON can't hold
            return {"unknown": format_error_with_location(error)}
        return origin


def _describe_consequence(action: BadBatch) -> str:
    """Returns in words what the run does without the batch."""
    of_some = "" if not action.members else " for this member" if len(action.members) == 1 else " for these members"
    if not action.frozen_members:
        return f"it is left out{of_some}"
    keep = (
        f"{'keeps' if len(action.frozen_members) == 1 else 'keep'} the weights of step {action.step}, the others go on"
    )
    if action.frozen_members == action.members:
        return f"{'the member' if len(action.members) == 1 else 'these members'} {keep}"
    return f"it is left out{of_some}; {format_members(action.frozen_members)} {keep}"
