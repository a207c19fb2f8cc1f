"""Controls one child process: sends its start document, watches it by pidfd, never by pid, and collects how it
ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from pathlib import Path

from pool.process import lifeline
from pool.process.failure import Failure, find_crash_line
from pool.process.start import Start
from pool.protocol.identity import Peer
from pool.supervisor.resources.logs import open_log
from pool.supervisor.resources.run_memory import RunMemory

LAST_LINES = 5
MOST_OF_LOG = 64 << 10  # bytes that are read from the log's end to find them


class Child:
    """Watches one child process, living or dead. `pidfd` is readable once the process is dead."""

    def __init__(self, peer: Peer, pid: int, channel: socket.socket, log: Path) -> None:
        """Opens the log and the pidfd of a process that waits at the other end of `channel` for its start document.
        Raises OSError."""
        self.peer = peer
        self.pid = pid
        self.channel = channel
        self.returncode: int | None = None  # after `reap`: the exit code, negative for a signal
        self.failure: Failure | None = None  # after `reap`: the failure that the process has reported, if any
        self.killed_since = ""  # why the supervisor killed it
        self.log = log
        self._output = open_log(log)
        self._log_start = os.fstat(self._output).st_size
        self._end_of_log = ""
        try:
            self.pidfd = os.pidfd_open(pid)
        except OSError:
            os.close(self._output)
            raise

    def send_start(self, start: Start, memory: RunMemory) -> None:
        """Sends the process its start document, with its part of the shared memory. Raises OSError."""
        folder = os.open(start.run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with memory.part_of(start) as (full, descriptors):
                lifeline.send_start(self.channel, full, self._output, folder, descriptors)
        finally:
            os.close(folder)

    def send_signal(self, number: signal.Signals) -> None:
        """Sends the process a signal. Does nothing if it is dead."""
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            return

    def kill(self, why: str) -> None:
        """Sends SIGKILL. `why`: reason for the log, which completes "since it"."""
        self.killed_since = why
        self.send_signal(signal.SIGKILL)

    def end(self, grace: float = 0.0) -> str:
        """Kills the process if it has not ended within `grace` seconds, and waits for its end. Returns how it ended, in
        words."""
        select.select([self.pidfd], [], [], grace)
        self.send_signal(signal.SIGKILL)
        return self.reap()

    def reap(self) -> str:
        """Waits for a process whose pidfd is readable, and closes its descriptors. Returns how it ended, in words.

        Also kills the processes that it has forked, which may still have memory mapped that is given to others now
        (I4).
        """
        self._kill_group()
        _, status = os.waitpid(self.pid, 0)
        self.returncode = code = os.waitstatus_to_exitcode(status)
        self._end_of_log = self._read_log()
        self.failure = lifeline.receive_failure(self.channel)
        os.close(self.pidfd)
        os.close(self._output)
        self.channel.close()
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    def last_lines(self) -> str:
        """Returns the last LAST_LINES lines that this child, now dead, wrote to its log."""
        lines = self._end_of_log.splitlines()
        lines = [line for line in lines if not line.startswith("Extension modules:")]  # faulthandler's, a page of names
        return "\n".join(lines[-LAST_LINES:])

    def crashed_in(self) -> str:
        """Returns the line of Python code that was running when a SIGSEGV killed this child. Empty if no SIGSEGV
        did."""
        return find_crash_line(self._end_of_log) if self.returncode == -signal.SIGSEGV else ""

    def _read_log(self) -> str:
        """Returns the end of what this child wrote to its log, at most MOST_OF_LOG bytes."""
        begin = max(self._log_start, os.fstat(self._output).st_size - MOST_OF_LOG)
        with contextlib.suppress(OSError):
            return os.pread(self._output, MOST_OF_LOG, begin).decode(errors="replace").strip()
        return ""

    def _kill_group(self) -> None:
        """Kills the child's process group.

        A child is the first of its group. Until it is reaped its pid, which is also the group's id, can't be reused.
        """
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
