"""A child process with which a program exchanges lines of text. Every wait has a deadline, and ends early when the
caller is stopped."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections import deque
from pathlib import Path

from loader.errors import EngineError, EngineStartError

LONGEST_LINE = 1 << 20
KEPT_ERRORS = 2000  # bytes of the program's stderr that are kept for error messages
KEPT_LINES = 8
SHOWN = 500  # characters of the program's last output that an error message shows
MILLISECONDS = 1000
ENDING_SECONDS = 5.0  # wait for the end of a process that has closed its pipes; a busy kernel takes a while


class StoppedError(Exception):
    """The descriptor `stop` became readable, so the caller is to stop."""


class Deadline:
    """A moment a given number of seconds from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Returns the seconds until the deadline, at least 0."""
        return max(0.0, self._end - time.monotonic())


class LineProcess:
    """A running program that reads and writes lines. For use by one thread.

    Raises EngineStartError if the program can't be started, StoppedError when the descriptor `stop` becomes readable.
    Raises EngineError, with the program's last output, if the program ends or misses a deadline.
    """

    def __init__(self, program: str, stop: int | None = None) -> None:
        """Starts the program in a process group of its own, with pipes that do not block."""
        self.program = program
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._read: deque[bytes] = deque(maxlen=KEPT_LINES)
        self._errors = b""
        try:  # its own process group: Ctrl-C does not reach it, and it can be killed with its children
            self._process = subprocess.Popen(
                [program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                process_group=0,
            )
        except OSError as error:
            here = "/" not in program and Path(program).is_file()
            hint = f"; a name without a folder is looked for in PATH: ./{program} is the file here" if here else ""
            raise EngineStartError(f"{program}: can't be started: {error.strerror}{hint}") from None
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._stdin = self._process.stdin.fileno()
        self._stdout = self._process.stdout.fileno()
        self._stderr = self._process.stderr.fileno()
        for descriptor in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(descriptor, False)
        self._poll = select.poll()
        self._poll.register(self._stdout, select.POLLIN)
        self._poll.register(self._stderr, select.POLLIN)
        if stop is not None:
            self._poll.register(stop, select.POLLIN)
        self._stop = stop

    def send(self, text: str, deadline: Deadline) -> None:
        """Writes lines to the program. Waits only until the program's input has room, not for an answer."""
        rest = f"{text}\n".encode()
        while rest:
            try:
                rest = rest[os.write(self._stdin, rest) :]
            except BlockingIOError:
                self._poll.register(self._stdin, select.POLLOUT)
                self._wait(deadline, "it does not read its input")
                self._poll.unregister(self._stdin)
            except OSError:
                raise self._ended("") from None

    def receive(self, deadline: Deadline, expected: str) -> str:
        """Returns the next line that the program writes. `expected` is the name of the awaited answer, for an error
        message."""
        while not self._lines:
            self._wait(deadline, f"no {expected}")
        self._read.append(self._lines.popleft())
        return self._read[-1].decode(errors="replace").rstrip()

    def fault(self, reason: str) -> EngineError:
        """Makes an EngineError with the program's name, the reason, and the last output: lines that contain "error" if
        there are any, else the last line."""
        lines = [*self._read, *self._lines, self._rest, *self._errors.splitlines()][-KEPT_LINES:]
        texts = [text for line in lines if (text := _printable(line))]
        errors = [text for text in texts if "error" in text.lower()]
        said = " ".join(errors or texts[-1:])[:SHOWN]
        return EngineError(f"{self.program}: {reason}" + (f"; its last words: {said}" if said else ""))

    def close(self) -> None:
        """Kills the program and all processes that it has started, without waiting for an answer."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _wait(self, deadline: Deadline, otherwise: str) -> None:
        """Waits until the program has written something or can be written to, and reads what it wrote. Raises
        EngineError with the text `otherwise` at the deadline."""
        remaining = deadline.remaining()
        ready = [descriptor for descriptor, _ in self._poll.poll(remaining * MILLISECONDS)] if remaining else []
        if not ready:
            raise self.fault(f"{otherwise} within {deadline.seconds:g} s")
        if self._stop in ready:
            raise StoppedError
        if self._stderr in ready:
            self._read_errors()
        if self._stdout in ready:
            self._read_lines(otherwise)

    def _read_lines(self, otherwise: str) -> None:
        """Reads lines from the program's output. Raises EngineError if the output is closed, or if a line is longer
        than 1 MiB."""
        more = os.read(self._stdout, 1 << 16)
        if not more:
            raise self._ended(f", {otherwise}")
        *lines, self._rest = (self._rest + more).split(b"\n")
        self._lines.extend(lines)
        if len(self._rest) > LONGEST_LINE:
            raise self.fault("a line without an end")

    def _read_errors(self) -> None:
        """Reads from the program's stderr, of which the last 2000 bytes are kept."""
        more = os.read(self._stderr, 1 << 16)
        self._errors = (self._errors + more)[-KEPT_ERRORS:]
        if not more:
            self._poll.unregister(self._stderr)

    def _ended(self, without: str) -> EngineError:
        """Makes the error for a program that has ended or closed its pipes, with its exit code or signal. `without`
        says what is missing."""
        with contextlib.suppress(OSError):  # its last output may still be in the pipes
            self._lines.extend((self._rest + os.read(self._stdout, 1 << 16)).split(b"\n"))
        with contextlib.suppress(OSError):
            self._errors = (self._errors + os.read(self._stderr, 1 << 16))[-KEPT_ERRORS:]
        status = _status(self._process.pid)
        if status is None:
            return self.fault(f"the engine has closed its pipes{without}")
        code, number = status.si_code, status.si_status
        how = (
            f"with exit code {number}" if code == os.CLD_EXITED else f"by signal {number} ({signal.strsignal(number)})"
        )
        return self.fault(f"the engine has ended {how}{without}")


def _status(pid: int) -> os.waitid_result | None:
    """Returns how a process has ended, or None if it still runs after 5 seconds. The process is not reaped, so that its
    number is not reused before its process group is killed."""
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(ENDING_SECONDS * MILLISECONDS)
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    finally:
        os.close(descriptor)


def _printable(line: bytes) -> str:
    """Decodes a line, with spaces in place of characters that can't be printed."""
    text = "".join(c if c.isprintable() else " " for c in line.decode(errors="replace"))
    return text.strip()
