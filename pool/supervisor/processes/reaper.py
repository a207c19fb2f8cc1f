"""Ends processes that a run's processes have started themselves, a task's helpers, with the run.

The supervisor is the subreaper: a process that loses its parent becomes its child. Processes in the group of the
process that forked them end with it (`Child.reap`); this module ends those that have left the group.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path


class Orphans:
    """Made before the run has any process: the children that there are then (of a shell that became this process by
    exec) are not the run's."""

    def __init__(self) -> None:
        self._others = _children()

    def end(self, seconds: float) -> None:
        """Kills them with all their descendants and waits, at most `seconds`. The run's processes are dead."""
        deadline = time.monotonic() + seconds
        while (orphans := _children() - self._others) and time.monotonic() < deadline:
            for pid in orphans:  # its children are ours when it is dead
                _end(pid, deadline)


def _end(pid: int, deadline: float) -> None:
    with contextlib.suppress(OSError):  # reaped meanwhile
        pidfd = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            if select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                os.waitpid(pid, 0)
        finally:
            os.close(pidfd)


def _children() -> set[int]:
    """Returns the children of all threads of this process."""
    pids: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            pids.update(map(int, (task / "children").read_text(encoding="ascii").split()))
    return pids
