"""Copies a checkpoint from one machine to another, file by file, in blocks of BLOCK_NBYTES.

The machine that lacks the checkpoint requests each block until the answer comes. The machine that has it reads each
block from its disk and keeps no state about the copy (I5).
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

BLOCK_NBYTES = 1 << 20

RequestBlock = Callable[[CheckpointRequest], tuple[CheckpointShard, memoryview]]


def read_block(checkpoints: Path, request: CheckpointRequest) -> tuple[CheckpointShard, bytes]:
    """Reads the block of a checkpoint's file that another machine has asked for.

    Returns the answer and the block's bytes. If they can't be read, the answer holds the reason and the bytes are
    empty.
    """
    checkpoint = step_path(checkpoints, request.step)
    try:
        if request.name not in (STATE, *read_state(checkpoint).files):
            raise CheckpointError(f"{checkpoint} has no file of that name")
        with os.fdopen(open_regular(checkpoint / request.name, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            data = os.pread(file.fileno(), BLOCK_NBYTES, request.offset)
            is_last = request.offset + len(data) >= os.fstat(file.fileno()).st_size
    except (CheckpointError, OSError) as error:
        return CheckpointShard(request, refused=str(error)), b""
    return CheckpointShard(request, is_last=is_last), data


def copy_checkpoint(request_block: RequestBlock, checkpoints: Path, step: int) -> Path:
    """Copies the checkpoint of a step from another machine into the folder `checkpoints`, as a whole or not at all.

    `request_block`: sends a request and returns the answer with the block's bytes; may raise. Returns the path of the
    copy. Raises CheckpointError, OSError.
    """

    def copy_files(folder: Path) -> None:
        files.write_new(folder / STATE, _request_file(request_block, step, STATE))
        for name in read_state(folder).files:
            files.write_new(folder / name, _request_file(request_block, step, name))
        files.sync_folder(folder)

    path = write_checkpoint(checkpoints, step, copy_files)
    files.sync_folder(checkpoints)
    return path


def _request_file(request_block: RequestBlock, step: int, name: str) -> Iterator[memoryview]:
    """Yields the bytes of a file of another machine's checkpoint, block by block. Raises CheckpointError."""
    offset = 0
    while True:
        answer, data = request_block(CheckpointRequest(step, name, offset))
        if answer.refused:
            raise CheckpointError(f"the checkpoint of step {step} can't be copied: {answer.refused}")
        yield data
        if answer.is_last:
            return
        if not data.nbytes:
            raise CheckpointError(f"the checkpoint of step {step} can't be copied: {name} ends while it is read")
        offset += data.nbytes
