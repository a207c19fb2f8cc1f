"""Copies a checkpoint from one machine to another, file by file, in blocks of PIECE_BYTES bytes.

The machine that lacks the checkpoint asks for a block until it comes. The machine that has it reads each block from its
disk and keeps no state about the copy (I5).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from loader.files.regular import open_regular
from pool.checkpoint.folder import step_path, write_checkpoint
from pool.checkpoint.state import STATE, read_state
from pool.errors import CheckpointError
from pool.protocol.messages import CheckpointRequest, CheckpointShard
from pool.run_folder import files

PIECE_BYTES = 1 << 20

Ask = Callable[[CheckpointRequest], tuple[CheckpointShard, memoryview]]


def read_piece(checkpoints: Path, request: CheckpointRequest) -> tuple[CheckpointShard, bytes]:
    """Reads the block of a checkpoint's file that another machine has asked for.

    Returns the answer and the block's bytes. If they can't be read, the answer holds the reason and the bytes are
    empty.
    """
    checkpoint = step_path(checkpoints, request.step)
    try:
        if request.name not in (STATE, *read_state(checkpoint).files):
            raise CheckpointError(f"{checkpoint} has no file of that name")
        with os.fdopen(open_regular(checkpoint / request.name, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            data = os.pread(file.fileno(), PIECE_BYTES, request.offset)
            is_last = request.offset + len(data) >= os.fstat(file.fileno()).st_size
    except (CheckpointError, OSError) as error:
        return CheckpointShard(request, refused=str(error)), b""
    return CheckpointShard(request, is_last=is_last), data


def copy_checkpoint(ask: Ask, checkpoints: Path, step: int) -> Path:
    """Copies the checkpoint of a step from another machine into the folder `checkpoints`, as a whole or not at all.

    `ask`: sends a request and returns the answer with the block's bytes; may raise. Returns the path of the copy.
    Raises CheckpointError, OSError.
    """

    def write(beside: Path) -> None:
        files.write_new(beside / STATE, _pieces(ask, step, STATE))
        for name in read_state(beside).files:
            files.write_new(beside / name, _pieces(ask, step, name))
        files.sync_folder(beside)

    path = write_checkpoint(checkpoints, step, write)
    files.sync_folder(checkpoints)
    return path


def _pieces(ask: Ask, step: int, name: str) -> Iterator[memoryview]:
    """Yields the bytes of a file of another machine's checkpoint, block by block. Raises CheckpointError."""
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
