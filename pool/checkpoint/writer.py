"""Writes checkpoints in a thread while training goes on, one at a time.

The thread reads a snapshot. The coordinator copies the snapshot between two steps, and does not change it before
`pop_result` has returned the result.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from loader.files.whole_file import is_temporary
from pool.checkpoint import store
from pool.checkpoint.folder import IsNeeded, keep_none, linked_step, remove_old_checkpoints, step_path
from pool.checkpoint.state import BEST
from pool.checkpoint.store import Checkpoint
from pool.errors import CheckpointError, DamagedCheckpointError
from pool.run_folder import files


@dataclass(frozen=True)
class WriteResult:
    """Tells how an attempt to write a checkpoint has ended."""

    step: int
    problem: str | None  # why the checkpoint is not on the disk; None: it is there, and verified
    is_permanent: bool = False  # the state can't be written at all: no other attempt could succeed


class CheckpointWriter:
    """Writes one checkpoint at a time in a thread, and removes old ones."""

    def __init__(self, folder: Path, keep: int, keep_every: int = 0, is_needed: IsNeeded = keep_none) -> None:
        """Removes unfinished checkpoints that dead processes have left in `folder`.

        `keep`, `keep_every`, `is_needed`: which checkpoints are not removed, as for `list_removable`.
        """
        self._folder = folder
        self._keep = keep
        self._keep_every = keep_every
        self._is_needed = is_needed
        self._result: WriteResult | BaseException | None = None
        self._is_busy = False
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        files.sweep(folder)

    def fileno(self) -> int:
        """Returns a descriptor that is readable when an attempt has ended, until `pop_result`."""
        return self._event

    @property
    def is_busy(self) -> bool:
        """Tells whether an attempt has begun whose result was not read yet."""
        return self._is_busy

    @property
    def best_step(self) -> int:
        """Returns the step of the checkpoint that the link `best` points to; -1 if there is none."""
        return linked_step(self._folder, BEST)

    def start(self, checkpoint: Checkpoint) -> None:
        """Starts to write a checkpoint in a thread. Its tensors must not change until `pop_result` returns a result."""
        assert not self.is_busy, f"checkpoint {checkpoint.step} is started while another one is written"
        self._is_busy = True
        try:
            threading.Thread(target=self._write, args=(checkpoint,), name="checkpoint", daemon=True).start()
        except (MemoryError, RuntimeError) as error:  # threading raises RuntimeError for want of memory
            self._finish(WriteResult(checkpoint.step, f"no thread for it: {error}"))

    def pop_result(self) -> WriteResult | None:
        """Returns the result of the attempt, once. Returns None while there is none.

        Raises an unexpected exception of the thread.
        """
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return None
        result, self._result = self._result, None
        self._is_busy = False
        if isinstance(result, BaseException):
            raise result
        return result

    def remove_unneeded(self) -> None:
        """Removes old checkpoints, such as those that were kept until their nets were exported. Not while busy."""
        assert not self.is_busy
        self._remove_old()

    def _remove_old(self) -> None:
        remove_old_checkpoints(self._folder, self._keep, self._keep_every, self._is_needed)

    def _write(self, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint and removes old ones, in the thread."""
        problem, is_permanent = None, False
        try:
            store.save_checkpoint(self._folder, checkpoint)
            self._remove_old()
        except OSError as error:
            problem = f"{self._final_path(error, checkpoint.step)}: {error.strerror or error}"
        except (CheckpointError, MemoryError) as error:
            problem = str(error) or "out of memory"
            is_permanent = isinstance(error, CheckpointError) and not isinstance(error, DamagedCheckpointError)
        except BaseException as error:
            self._finish(error)
            return
        self._finish(WriteResult(checkpoint.step, problem, is_permanent))

    def _final_path(self, error: OSError, step: int) -> Path:
        """Returns the path that the file named by an error will have in the checkpoint's final folder.

        Temporary folders have random names. With the final name, the messages of repeated failures are equal.
        """
        path = Path(error.filename or self._folder)
        is_in_temporary_folder = is_temporary(path.parent.name)
        return step_path(self._folder, step) / path.name if is_in_temporary_folder else path

    def _finish(self, result: WriteResult | BaseException) -> None:
        """Stores the result, and makes the writer's descriptor readable."""
        self._result = result
        os.eventfd_write(self._event, 1)
