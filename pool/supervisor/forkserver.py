"""The supervisor's side of the fork server: started by exec, then asked for every other process of the run."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from pool import lifeline
from pool.errors import RunError
from pool.launch import Launch
from pool.protocol.identity import Peer
from pool.supervisor.child import Child

FORK_SECONDS = 5.0  # a fork takes milliseconds; one that takes longer is killed
_PR_SET_CHILD_SUBREAPER = 36


class UnresponsiveError(RunError):
    """A fork server that did not answer; it has been killed."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.why = f"did not fork within {FORK_SECONDS:g} s"
        super().__init__(f"the {peer} {self.why}")


class ForkServer(Child):
    """`channel` is readable once it is ready; `take_ready` then."""

    def __init__(self, launch: Launch, log: Path) -> None:
        """Starts it; `launch.peer` is its own. Raises OSError."""
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        channel, theirs = lifeline.pair()
        try:
            with theirs, log.open("ab") as output:
                super().__init__(launch.peer, _exec(theirs.fileno(), output.fileno()), channel, log)
        except OSError:
            channel.close()
            raise
        self.ready = False
        self.tell(launch, {}, {})

    def take_ready(self) -> bool:
        """Once the channel is readable: whether it is ready now; no if it is dead."""
        self.ready = lifeline.take_number(self.channel) is not None
        return self.ready

    def start(self, launch: Launch, log: Path, segments: Mapping[str, int], sizes: Mapping[str, int]) -> Child | None:
        """The process that `launch` describes; None if the fork server is dead.

        Raises UnresponsiveError, OSError.
        """
        channel, theirs = lifeline.pair()
        try:
            with theirs:
                lifeline.request(self.channel, theirs)
            pid = self._answer()
            if pid is None:
                channel.close()
                return None
            if pid < 0:
                raise OSError(-pid, os.strerror(-pid), "fork")
            child = Child(launch.peer, pid, channel, log)
        except (OSError, UnresponsiveError):
            channel.close()  # a process that has the other end dies of it
            raise
        try:
            child.tell(launch, segments, sizes)
        except OSError:
            child.end()
            raise
        return child

    def _answer(self) -> int | None:
        readable, _, _ = select.select([self.channel], [], [], FORK_SECONDS)
        if not readable:
            self.send_signal(signal.SIGKILL)
            raise UnresponsiveError(self.peer)
        return lifeline.take_number(self.channel)


def environment() -> dict[str, str]:
    """What the numbers must not depend on is fixed here for all (see the run's determinism)."""
    return {
        **os.environ,
        "OMP_DYNAMIC": "FALSE",
        "MKL_DYNAMIC": "FALSE",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "OPENBLAS_NUM_THREADS": "1",  # numpy's: it starts threads when it is imported, and then nobody should fork
    }


def _exec(lifeline_fd: int, output: int) -> int:
    """The pid."""
    os.set_inheritable(lifeline_fd, True)
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "pool.forkserver", str(lifeline_fd), str(os.getpid())],
        environment(),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        ],
        setpgroup=0,
    )
