"""Kills processes that a run's processes have started themselves (a task's helpers), at the end of the run.

The supervisor is the subreaper: a process that loses its parent becomes its child. Processes in the group of the
process that forked them end with it (`Child.reap`). This module ends those that have left the group.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path


class Orphans:
    """Finds the run's leftover processes among the supervisor's children.

    Made before the run has any process. Children that exist then (of a shell that became this process by exec) are not
    the run's.
    """

    def __init__(self) -> None:
        self._others = _children()

    def end(self, seconds: float) -> None:
        """Kills the run's leftover processes with all their descendants, and waits at most `seconds` for their end.

        To be called when the run's own processes are dead.
        """
        deadline = time.monotonic() + seconds
        while (orphans := _children() - self._others) and time.monotonic() < deadline:
            for pid in orphans:  # its children become ours when it dies
                _end(pid, deadline)


def _end(pid: int, deadline: float) -> None:
    """Kills a process and waits for it until a deadline."""
    with contextlib.suppress(OSError):  # reaped meanwhile
        pidfd = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            if select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                os.waitpid(pid, 0)
        finally:
            os.close(pidfd)


def _children() -> set[int]:
    """Returns the pids of the child processes of all threads of this process."""
    pids: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            pids.update(map(int, (task / "children").read_text(encoding="ascii").split()))
    return pids
