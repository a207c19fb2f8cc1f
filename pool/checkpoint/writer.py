"""The thread that writes checkpoints while training goes on; one at a time.

It reads a snapshot, which the coordinator copies between two steps and does not change before `take` has returned how
the attempt ended.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from loader.files.whole_file import is_temporary
from pool.checkpoint import store
from pool.checkpoint.folder import Wanted, linked_step, nothing_wanted, remove_old, step_path
from pool.checkpoint.state import BEST
from pool.checkpoint.store import Checkpoint
from pool.errors import CheckpointError, DamagedCheckpointError
from pool.run_folder import files


@dataclass(frozen=True)
class Written:
    """How an attempt to write a checkpoint ended: `problem` is None if it is on the disk, verified."""

    step: int
    problem: str | None
    is_permanent: bool = False  # the state can't be written at all: no other attempt could succeed


class CheckpointWriter:
    """Writes one checkpoint at a time in a thread. Removes unfinished ones of dead predecessors from `folder`."""

    def __init__(self, folder: Path, keep: int, keep_every: int = 0, wanted: Wanted = nothing_wanted) -> None:
        """`keep`, `keep_every`, `wanted`: as `old_checkpoints` has them, which are removed after each checkpoint."""
        self._folder = folder
        self._keep = keep
        self._keep_every = keep_every
        self._wanted = wanted
        self._ended: Written | BaseException | None = None
        self._busy = False
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        files.sweep(folder)

    def fileno(self) -> int:
        """Readable when an attempt has ended, until `take`."""
        return self._event

    @property
    def busy(self) -> bool:
        return self._busy

    @property
    def best_step(self) -> int:
        """The step of the checkpoint that `best` points to; -1: none."""
        return linked_step(self._folder, BEST)

    def begin(self, checkpoint: Checkpoint) -> None:
        """Writes it in the background; its tensors must stay as they are until `take`."""
        assert not self.busy, f"checkpoint {checkpoint.step} begins before the one before has ended"
        self._busy = True
        try:
            threading.Thread(target=self._write, args=(checkpoint,), name="checkpoint", daemon=True).start()
        except (MemoryError, RuntimeError) as error:  # threading says RuntimeError for want of memory
            self._end(Written(checkpoint.step, f"no thread for it: {error}"))

    def take(self) -> Written | None:
        """Returns how the attempt ended, once; None before. Raises an unexpected exception of the thread."""
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return None
        ended, self._ended = self._ended, None
        self._busy = False
        if isinstance(ended, BaseException):
            raise ended
        return ended

    def tidy(self) -> None:
        """Removes checkpoints that were kept for nets alone, when those are written. Not while it is `busy`."""
        assert not self.busy
        self._remove_old()

    def _remove_old(self) -> None:
        remove_old(self._folder, self._keep, self._keep_every, self._wanted)

    def _write(self, checkpoint: Checkpoint) -> None:
        problem, is_permanent = None, False
        try:
            store.save(self._folder, checkpoint)
            self._remove_old()
        except OSError as error:
            problem = f"{self._file_of(error, checkpoint.step)}: {error.strerror or error}"
        except (CheckpointError, MemoryError) as error:
            problem = str(error) or "out of memory"
            is_permanent = isinstance(error, CheckpointError) and not isinstance(error, DamagedCheckpointError)
        except BaseException as error:
            self._end(error)
            return
        self._end(Written(checkpoint.step, problem, is_permanent))

    def _file_of(self, error: OSError, step: int) -> Path:
        """Returns the file that an error names, under the final name: equal failures read alike."""
        path = Path(error.filename or self._folder)
        return step_path(self._folder, step) / path.name if is_temporary(path.parent.name) else path

    def _end(self, ended: Written | BaseException) -> None:
        self._ended = ended
        os.eventfd_write(self._event, 1)
