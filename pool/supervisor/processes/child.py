"""One child process: gets what it is started with through its lifeline, is watched by pidfd, never by pid."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from pathlib import Path

from pool.process import lifeline
from pool.process.failure import Failure, crash_place
from pool.process.start import Start
from pool.protocol.identity import Peer
from pool.supervisor.resources.logs import open_log
from pool.supervisor.resources.run_memory import RunMemory

LAST_LINES = 5
MOST_OF_LOG = 64 << 10  # bytes of the log's end that are read for them


class Child:
    """A living or dead child. `pidfd` is readable once it is dead."""

    def __init__(self, peer: Peer, pid: int, channel: socket.socket, log: Path) -> None:
        """Watches a process that waits at the other end of `channel` for what it is started with. Raises OSError."""
        self.peer = peer
        self.pid = pid
        self.channel = channel
        self.returncode: int | None = None  # after `reap`: the exit code, negative for a signal
        self.failure: Failure | None = None  # after `reap`: what it has said of its end
        self.killed_since = ""  # why we killed it
        self.log = log
        self._output = open_log(log)
        self._log_start = os.fstat(self._output).st_size
        self._end_of_log = ""
        try:
            self.pidfd = os.pidfd_open(pid)
        except OSError:
            os.close(self._output)
            raise

    def tell(self, start: Start, memory: RunMemory) -> None:
        """Sends the process what it is started with, and its part of the memory. Raises OSError."""
        folder = os.open(start.run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with memory.part_of(start) as (full, descriptors):
                lifeline.send(self.channel, full, self._output, folder, descriptors)
        finally:
            os.close(folder)

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal; nothing happens if the child is dead."""
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            return

    def kill(self, why: str) -> None:
        """It will die; `why` completes "since it"."""
        self.killed_since = why
        self.send_signal(signal.SIGKILL)

    def end(self, grace: float = 0.0) -> str:
        """Kills it, if it lives for `grace` seconds more, and waits for that; in words, how it ended."""
        select.select([self.pidfd], [], [], grace)
        self.send_signal(signal.SIGKILL)
        return self.reap()

    def reap(self) -> str:
        """After the pidfd is readable: how it ended, in words. What it has forked itself ends here, too: it may hold
        memory that changes hands now (I4)."""
        self._kill_group()
        _, status = os.waitpid(self.pid, 0)
        self.returncode = code = os.waitstatus_to_exitcode(status)
        self._end_of_log = self._read_log()
        self.failure = lifeline.left(self.channel)
        os.close(self.pidfd)
        os.close(self._output)
        self.channel.close()
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    def last_lines(self) -> str:
        """The end of what this child, now dead, wrote to its log."""
        lines = self._end_of_log.splitlines()
        lines = [line for line in lines if not line.startswith("Extension modules:")]  # faulthandler's, a page of names
        return "\n".join(lines[-LAST_LINES:])

    def crashed_in(self) -> str:
        """The line of Python code that was running when a SIGSEGV killed this child; empty if that did not happen."""
        return crash_place(self._end_of_log) if self.returncode == -signal.SIGSEGV else ""

    def _read_log(self) -> str:
        begin = max(self._log_start, os.fstat(self._output).st_size - MOST_OF_LOG)
        with contextlib.suppress(OSError):
            return os.pread(self._output, MOST_OF_LOG, begin).decode(errors="replace").strip()
        return ""

    def _kill_group(self) -> None:
        """A role's process is the first of its group, and keeps its pid, and so the group's, until it is reaped."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
