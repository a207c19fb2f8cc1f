"""A checkpoint's way to a machine that has none in common with the others: file by file, in pieces.

The machine that lacks it asks for a piece until it comes. The other one answers from its disk and keeps nothing of it
(I5).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from loader.files.regular import open_regular
from pool.checkpoint.folder import put, step_path
from pool.checkpoint.state import STATE, read_state
from pool.errors import CheckpointError
from pool.protocol.messages import CheckpointPiece, CheckpointRequest
from pool.run_folder import files

PIECE_BYTES = 1 << 20

Ask = Callable[[CheckpointRequest], tuple[CheckpointPiece, memoryview]]


def read_piece(checkpoints: Path, request: CheckpointRequest) -> tuple[CheckpointPiece, bytes]:
    """Returns what is asked for, or why that can't be read."""
    checkpoint = step_path(checkpoints, request.step)
    try:
        if request.name not in (STATE, *read_state(checkpoint).files):
            raise CheckpointError(f"{checkpoint} has no file of that name")
        with os.fdopen(open_regular(checkpoint / request.name, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            data = os.pread(file.fileno(), PIECE_BYTES, request.offset)
            is_last = request.offset + len(data) >= os.fstat(file.fileno()).st_size
    except (CheckpointError, OSError) as error:
        return CheckpointPiece(request, refused=str(error)), b""
    return CheckpointPiece(request, is_last=is_last), data


def copy_checkpoint(ask: Ask, checkpoints: Path, step: int) -> Path:
    """Puts the checkpoint of a step among those of this machine: as a whole, or not at all. `ask`: returns the piece
    that was asked for, and may raise. Raises CheckpointError, OSError."""

    def write(beside: Path) -> None:
        files.write_new(beside / STATE, _pieces(ask, step, STATE))
        for name in read_state(beside).files:
            files.write_new(beside / name, _pieces(ask, step, name))
        files.sync_folder(beside)

    path = put(checkpoints, step, write)
    files.sync_folder(checkpoints)
    return path


def _pieces(ask: Ask, step: int, name: str) -> Iterator[memoryview]:
    offset = 0
    while True:
        piece, data = ask(CheckpointRequest(step, name, offset))
        if piece.refused:
            raise CheckpointError(f"the checkpoint of step {step} can't be copied: {piece.refused}")
        yield data
        if piece.is_last:
            return
        if not data.nbytes:
            raise CheckpointError(f"the checkpoint of step {step} can't be copied: {name} ends while it is read")
        offset += data.nbytes
