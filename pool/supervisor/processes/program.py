"""Runs a program beside the run's processes. The run goes on without it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from loader.plugins.modules import module_command
from pool.supervisor.resources.logs import open_log, shorten_log

MOST_OUTPUT = 64 << 10  # most bytes that are read from the end of its output
GRACE = 2.0  # seconds between SIGTERM and SIGKILL


class Program:
    """Runs a module of ours in a process group of its own. `pidfd` is readable once it has ended."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        output: Path,
        errors: Path,
        standard_input: bytes = b"",
    ) -> None:
        """Starts a module with the supervisor's pid as first argument, so that the program can arrange to die with it.

        `output`, `errors`: logs to which the program's output and errors are appended. Raises OSError.
        """
        self._output, self._errors = open_log(output), open_log(errors)
        # where the program's text begins in each log
        self._begins = {fd: os.fstat(fd).st_size for fd in (self._output, self._errors)}
        try:
            with os.fdopen(os.memfd_create("input"), "w+b") as file:
                file.write(standard_input)
                file.seek(0)
                self._process = subprocess.Popen(
                    module_command(module, str(os.getpid()), *arguments),
                    stdin=file,
                    stdout=self._output,
                    stderr=self._errors,
                    process_group=0,
                )
            self.pidfd = os.pidfd_open(self._process.pid)
        except OSError:
            self._close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def cut_logs(self) -> None:
        """Shortens the logs if they have grown long. To be called now and then while the program runs."""
        for fd, begin in self._begins.items():
            self._begins[fd] = max(0, begin - shorten_log(fd))

    def end(self) -> int:
        """Sends SIGTERM to the program and its process group if it runs, then SIGKILL. Returns the exit code, negative
        for a signal."""
        for number, seconds in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
            if select.select([self.pidfd], [], [], 0)[0]:
                break
            self._signal(number)
            select.select([self.pidfd], [], [], seconds)
        self._signal(signal.SIGKILL)  # the rest of its group: the pid is not reused before it is reaped
        code = self._process.wait()
        os.close(self.pidfd)
        return code

    def output(self) -> str:
        """Returns the end of what the program has written, at most MOST_OUTPUT bytes. To be called after `end`."""
        return self._read(self._output)

    def close(self) -> str:
        """Closes the logs. Returns the last line that the program wrote to its errors."""
        lines = self._read(self._errors).splitlines()
        self._close()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _read(self, fd: int) -> str:
        """Returns the end of what the program has written to a log."""
        with contextlib.suppress(OSError):
            begin = max(self._begins[fd], os.fstat(fd).st_size - MOST_OUTPUT)
            return os.pread(fd, MOST_OUTPUT, begin).decode(errors="replace")
        return ""

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _close(self) -> None:
        os.close(self._output)
        os.close(self._errors)


def describe_exit(code: int) -> str:
    """Describes an exit code in words."""
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
