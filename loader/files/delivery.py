"""Writes the result of a command's finished work to its file: to a new one, or to the end of one that exists.

The state of the work file says how far the delivery has come, so that a delivery that is repeated after a crash writes
nothing twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from loader.errors import DataError, UsageError
from loader.files.new_file import NewFile
from loader.files.regular import open_regular
from loader.files.resumable import write_at
from loader.files.whole_file import temporary_path
from loader.files.work_file import UNFINISHED, WorkFile

Blocks = Callable[[], Iterable[bytes]]  # the result, the same bytes at every call

# Keys in the state of a work file, beside the command's own.
PUBLISHING = "publishing"
APPENDED_AT = "appended at"


def is_delivered(work: WorkFile, blocks: Blocks) -> bool:
    """Returns whether the result is complete in its file already. That is so if an earlier process died after it had
    named the file and before it removed the work file."""
    if work.done:
        return True
    if PUBLISHING not in work.state or not work.path.is_file():
        return False
    with os.fdopen(open_regular(work.path), "rb") as file:
        return all(file.read(len(block)) == block for block in blocks()) and not file.read(1)


def deliver_new(work: WorkFile, blocks: Blocks) -> None:
    """Writes the blocks to a new file at `work.path` and removes the work file. Raises UsageError if a file of that
    name has appeared meanwhile; then the work file is kept."""
    work.remove_unfinished()
    temporary = temporary_path(work.path)
    work.commit(b"", {**work.state, UNFINISHED: temporary.name})
    work.sync()
    try:
        with NewFile(work.path, temporary) as file:
            for block in blocks():
                file.write(block)
            work.commit(b"", {**work.state, PUBLISHING: True})
            work.sync()
            file.publish()
    except FileExistsError:
        raise UsageError(f"{work.path}: exists, and is never replaced; move it away and repeat the command") from None
    work.remove()


def deliver_appended(work: WorkFile, blocks: Blocks) -> None:
    """Appends the blocks to the file at `work.path` and removes the work file. Bytes that the file had before are never
    rewritten. If the disk is full, or `blocks` raises, the file is cut back to its former size. Raises DataError if
    another process has changed the file meanwhile."""
    descriptor = os.open(work.path, os.O_RDWR | os.O_CLOEXEC)
    try:
        append_offset = _record_append_offset(work, os.fstat(descriptor).st_size)
        try:
            _append_missing_blocks(descriptor, work.path, append_offset, blocks())
        except _ForeignWriteError:
            raise
        except BaseException:
            os.ftruncate(descriptor, append_offset)
            work.commit(b"", {key: value for key, value in work.state.items() if key != APPENDED_AT})
            raise
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    work.remove()


class _ForeignWriteError(DataError):
    """Raised if another process has written to the file after the offset where the append began."""


def _record_append_offset(work: WorkFile, size: int) -> int:
    """Returns the offset in the file at which the result begins: its size when the append was first begun, which the
    work file keeps. Raises DataError if the file has become shorter since."""
    offset = work.state.get(APPENDED_AT)
    if offset is None:
        offset = size
        work.commit(b"", {**work.state, APPENDED_AT: offset})
        work.sync()
    if not 0 <= offset <= size:
        raise DataError(work.path, f"has lost bytes: {offset} of them were there when the append began")
    return int(offset)


def _append_missing_blocks(descriptor: int, path: Path, offset: int, blocks: Iterable[bytes]) -> None:
    """Writes the blocks to the file from `offset` on, except for the bytes that an earlier process has written there.
    Raises _ForeignWriteError if the file has different bytes there."""
    for block in blocks:
        written = os.pread(descriptor, len(block), offset)
        if written != block[: len(written)]:
            raise _ForeignWriteError(path, "was changed while an append to it had not ended", offset)
        write_at(descriptor, block[len(written) :], offset + len(written), path)
        offset += len(block)
