"""Standard output and standard errors of a process whose log is on a disk that may be full: what the disk does not take
is lost, and nobody who prints hears of it. Else a `print` in a task's code would end the run."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from loader.errors import SPACE_ERRORS

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _Log(io.FileIO):
    def write(self, data: Buffer) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in SPACE_ERRORS:
                raise
            return memoryview(data).nbytes


def lose_what_has_no_room() -> None:
    """Replaces `sys.stdout` and `sys.stderr`, which nothing must have been written to that still waits."""
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        before = getattr(sys, name)
        stream = io.TextIOWrapper(
            io.BufferedWriter(_Log(descriptor, "w", closefd=False)),
            encoding=before.encoding,
            errors=before.errors,
            line_buffering=before.line_buffering,
        )
        setattr(sys, name, stream)
