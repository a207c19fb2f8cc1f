"""A program that the supervisor runs beside the run's processes: no part of the run, which goes on without it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from loader.plugins.modules import command_of
from pool.supervisor.resources.logs import cut_log, open_log

MOST_OUTPUT = 64 << 10  # bytes of the end of its output that are read
GRACE = 2.0  # seconds between asking it to end and killing it


class Program:
    """Has a process group of its own. `pidfd` is readable once it has ended."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        output: Path,
        errors: Path,
        standard_input: bytes = b"",
    ) -> None:
        """Runs a module of ours, which is told our pid first: it has to die with us; `output`, `errors`: what it
        writes is added to these logs. Raises OSError."""
        self._output, self._errors = open_log(output), open_log(errors)
        self._begins = {fd: os.fstat(fd).st_size for fd in (self._output, self._errors)}  # of what it writes
        try:
            with os.fdopen(os.memfd_create("input"), "w+b") as file:
                file.write(standard_input)
                file.seek(0)
                self._process = subprocess.Popen(
                    command_of(module, str(os.getpid()), *arguments),
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
        """Keeps the logs short; call it now and then: however much it writes, the logs stay small."""
        for fd, begin in self._begins.items():
            self._begins[fd] = max(0, begin - cut_log(fd))

    def end(self) -> int:
        """Asks it and all of its group to end, if it lives, then kills them; the exit code, negative for a signal."""
        for number, seconds in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
            if select.select([self.pidfd], [], [], 0)[0]:
                break
            self._signal(number)
            select.select([self.pidfd], [], [], seconds)
        self._signal(signal.SIGKILL)  # what it has left of its group: the pid is its own until it is reaped
        code = self._process.wait()
        os.close(self.pidfd)
        return code

    def output(self) -> str:
        """After `end`: what it has written, from the end of it."""
        return self._read(self._output)

    def close(self) -> str:
        """The last line of its errors; the logs are closed."""
        lines = self._read(self._errors).splitlines()
        self._close()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _read(self, fd: int) -> str:
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


def ended(code: int) -> str:
    """Puts an exit code into words."""
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
