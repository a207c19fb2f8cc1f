"""One child process: started by exec, told through its lifeline who it is, watched by pidfd, never by pid."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pool import lifeline
from pool.launch import Launch, SegmentHandle
from pool.protocol.identity import Peer
from pool.shm.memory import access
from pool.shm.segment import read_only

LAST_LINES = 5


class Child:
    """A living or dead child. `pidfd` is readable once it is dead."""

    def __init__(self, log: Path) -> None:
        """Starts a process that waits for `become`. Raises OSError."""
        self.peer = Peer("nobody")
        self._log = log
        self._log_start = log.stat().st_size if log.exists() else 0
        self.channel, theirs = lifeline.pair()
        try:
            with theirs, log.open("ab") as output:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "pool.roles", str(theirs.fileno()), str(os.getpid())],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=[theirs.fileno()],
                    process_group=0,
                    env=environment(),
                )
            self.pidfd = os.pidfd_open(self._process.pid)
        except OSError:
            self.channel.close()
            raise

    def become(self, launch: Launch, log: Path, segments: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        """Tells it who it is, with exactly the memory that is its to read or write (I4). Raises OSError."""
        self.peer = launch.peer
        duplicates: list[int] = []
        handles: dict[str, SegmentHandle] = {}
        try:
            for name, writable in access(launch.peer, sizes).items():
                handles[name] = SegmentHandle(len(duplicates), writable)
                duplicates.append(os.dup(segments[name]) if writable else read_only(segments[name]))
            with log.open("ab") as output:
                if log != self._log:
                    self._log, self._log_start = log, output.tell()
                lifeline.send(self.channel, replace(launch, segments=handles), output.fileno(), duplicates)
        finally:
            for fd in duplicates:
                os.close(fd)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """After `reap`: the exit code, negative for a signal."""
        return self._process.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """To a dead child: nothing happens."""
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            return

    def end(self, grace: float = 0.0) -> str:
        """Kills it, if it lives for `grace` seconds more, and waits for that; in words, how it ended."""
        select.select([self.pidfd], [], [], grace)
        self.send_signal(signal.SIGKILL)
        return self.reap()

    def reap(self) -> str:
        """After the pidfd is readable: how it ended, in words."""
        code = self._process.wait()
        os.close(self.pidfd)
        self.channel.close()
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    def last_lines(self) -> str:
        """The end of what this child wrote to its log."""
        with self._log.open("rb") as file:
            file.seek(self._log_start)
            lines = file.read().decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-LAST_LINES:])


def environment() -> dict[str, str]:
    """What the numbers must not depend on is fixed here for all (see the run's determinism)."""
    return {**os.environ, "OMP_DYNAMIC": "FALSE", "MKL_DYNAMIC": "FALSE", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
