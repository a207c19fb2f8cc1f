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
    """Tells whether the result is complete in its file already. That is so if an earlier process died after it had
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
    beside = temporary_path(work.path)
    work.commit(b"", {**work.state, UNFINISHED: beside.name})
    work.sync()
    try:
        with NewFile(work.path, beside) as new:
            for block in blocks():
                new.write(block)
            work.commit(b"", {**work.state, PUBLISHING: True})
            work.sync()
            new.publish()
    except FileExistsError:
        raise UsageError(f"{work.path}: exists, and is never replaced; move it away and repeat the command") from None
    work.remove()


def deliver_appended(work: WorkFile, blocks: Blocks) -> None:
    """Appends the blocks to the file at `work.path` and removes the work file. Bytes that the file had before are never
    rewritten. If the disk is full, or `blocks` raises, the file is cut back to what it was. Raises DataError if another
    process has changed the file meanwhile."""
    descriptor = os.open(work.path, os.O_RDWR | os.O_CLOEXEC)
    try:
        begin = _begin(work, os.fstat(descriptor).st_size)
        try:
            _append(descriptor, work.path, begin, blocks())
        except _OthersError:
            raise
        except BaseException:
            os.ftruncate(descriptor, begin)
            work.commit(b"", {key: value for key, value in work.state.items() if key != APPENDED_AT})
            raise
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    work.remove()


class _OthersError(DataError):
    """Raised if another process has written to the file after the place where the append began."""


def _begin(work: WorkFile, size: int) -> int:
    """Returns the offset in the file at which the result begins: its size when the append was first begun. Raises
    DataError if the file has become shorter since."""
    begin = work.state.get(APPENDED_AT)
    if begin is None:
        begin = size
        work.commit(b"", {**work.state, APPENDED_AT: begin})
        work.sync()
    if not 0 <= begin <= size:
        raise DataError(work.path, f"has lost bytes: {begin} of them were there when the append began")
    return int(begin)


def _append(descriptor: int, path: Path, offset: int, blocks: Iterable[bytes]) -> None:
    """Writes the blocks to the file from `offset` on, except for the bytes that an earlier process has written there.
    Raises _OthersError if the file has different bytes there."""
    for block in blocks:
        there = os.pread(descriptor, len(block), offset)
        if there != block[: len(there)]:
            raise _OthersError(path, "was changed while an append to it had not ended", offset)
        write_at(descriptor, block[len(there) :], offset + len(there), path)
        offset += len(block)
