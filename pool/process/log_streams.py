"""Replaces standard output and standard error of a process by streams that survive a full disk.

Text for which the disk has no room is lost, and nobody who prints gets an error. Else a `print` in a task's code would
end the run.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from loader.errors import SPACE_ERRORS

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _Log(io.FileIO):
    """Writes to a descriptor and drops what the disk has no room for."""

    def write(self, data: Buffer) -> int:
        """Writes bytes. Returns their number even if the disk is full and they are lost. Raises OSError for any other
        reason."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in SPACE_ERRORS:
                raise
            return memoryview(data).nbytes


def tolerate_full_disk() -> None:
    """Replaces `sys.stdout` and `sys.stderr` by streams that drop text when the disk is full.

    Nothing that was written to the old streams may still wait in their buffers.
    """
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        before = getattr(sys, name)
        stream = io.TextIOWrapper(
            io.BufferedWriter(_Log(descriptor, "w", closefd=False)),
            encoding=before.encoding,
            errors=before.errors,
            line_buffering=before.line_buffering,
        )
        setattr(sys, name, stream)
