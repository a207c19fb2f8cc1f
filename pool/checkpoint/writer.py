"""The thread that writes checkpoints while training goes on; one at a time.

It works on a copy, made between two steps by the only writer of the state (I3). The copy's memory is kept for
the next one.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from pool.checkpoint import files, store
from pool.checkpoint.store import Checkpoint
from pool.errors import CheckpointError


@dataclass(frozen=True)
class Written:
    """How an attempt ended: `problem` is None for a checkpoint that is on the disk, verified."""

    step: int
    problem: str | None


class CheckpointWriter:
    """Not for two threads at once. Sweeps what dead predecessors left in `folder`."""

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder = folder
        self._keep = keep
        self._buffers: dict[str, torch.Tensor] = {}
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

    def begin(self, checkpoint: Checkpoint) -> None:
        """Copies the state and writes it in the background."""
        assert not self.busy, f"checkpoint {checkpoint.step} begins before the one before has ended"
        self._busy = True
        try:
            copied = self._copied(checkpoint)
            threading.Thread(target=self._write, args=(copied,), name="checkpoint", daemon=True).start()
        except (MemoryError, RuntimeError) as error:  # torch and threading say RuntimeError for want of memory
            self._end(Written(checkpoint.step, f"no memory for a copy of the state: {error}"))

    def take(self) -> Written | None:
        """How the attempt ended, once; None as long as it has not. Raises what should never happen."""
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return None
        ended, self._ended = self._ended, None
        self._busy = False
        if isinstance(ended, BaseException):
            raise ended
        return ended

    def _write(self, checkpoint: Checkpoint) -> None:
        problem = None
        try:
            store.save(self._folder, checkpoint, self._keep)
        except OSError as error:
            problem = f"{error.filename or self._folder}: {error.strerror or error}"
        except (CheckpointError, MemoryError) as error:
            problem = str(error) or "out of memory"
        except BaseException as error:
            self._end(error)
            return
        self._end(Written(checkpoint.step, problem))

    def _end(self, ended: Written | BaseException) -> None:
        self._ended = ended
        os.eventfd_write(self._event, 1)

    def _copied(self, checkpoint: Checkpoint) -> Checkpoint:
        old, self._buffers = self._buffers, {}
        weights = self._copy(old, "weights", checkpoint.weights)
        optimizer = self._copy(old, "optimizer", checkpoint.optimizer)
        plain = copy.deepcopy(checkpoint.optimizer_plain)
        return replace(checkpoint, weights=weights, optimizer=optimizer, optimizer_plain=plain)

    def _copy(
        self, old: Mapping[str, torch.Tensor], kind: str, tensors: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        copies = {}
        for name, tensor in tensors.items():
            buffer = old.get(f"{kind}/{name}")
            if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
                buffer = torch.empty(tensor.shape, dtype=tensor.dtype)
            copies[name] = self._buffers[f"{kind}/{name}"] = buffer.copy_(tensor.detach())
        return copies
