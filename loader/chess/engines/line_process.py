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

MAX_LINE_NBYTES = 1 << 20
MAX_STDERR_NBYTES = 2000  # bytes of the program's stderr that are retained for error messages
MAX_RECENT_LINES = 8
MAX_SHOWN_CHARACTERS = 500  # characters of the program's last output that an error message shows
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
        self._incomplete_line = b""
        self._recent_lines: deque[bytes] = deque(maxlen=MAX_RECENT_LINES)
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
            is_in_current_folder = "/" not in program and Path(program).is_file()
            hint = ""
            if is_in_current_folder:
                hint = f"; a name without a folder is looked for in PATH: ./{program} is the file here"
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
        unsent = f"{text}\n".encode()
        while unsent:
            try:
                unsent = unsent[os.write(self._stdin, unsent) :]
            except BlockingIOError:
                self._poll.register(self._stdin, select.POLLOUT)
                self._wait(deadline, "it does not read its input")
                self._poll.unregister(self._stdin)
            except OSError:
                raise self._end_error("") from None

    def receive(self, deadline: Deadline, expected: str) -> str:
        """Returns the next line that the program writes. `expected` is the name of the awaited answer, for an error
        message."""
        while not self._lines:
            self._wait(deadline, f"no {expected}")
        self._recent_lines.append(self._lines.popleft())
        return self._recent_lines[-1].decode(errors="replace").rstrip()

    def fault(self, reason: str) -> EngineError:
        """Makes an EngineError with the program's name, the reason, and the last output: lines that contain "error" if
        there are any, else the last line."""
        lines = [*self._recent_lines, *self._lines, self._incomplete_line, *self._errors.splitlines()][
            -MAX_RECENT_LINES:
        ]
        texts = [text for text in map(_make_printable, lines) if text]
        errors = [text for text in texts if "error" in text.lower()]
        output = " ".join(errors or texts[-1:])[:MAX_SHOWN_CHARACTERS]
        if not output:
            return EngineError(f"{self.program}: {reason}")
        return EngineError(f"{self.program}: {reason}; its last words: {output}")

    def close(self) -> None:
        """Kills the program and all processes that it has started, without waiting for an answer."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _wait(self, deadline: Deadline, problem: str) -> None:
        """Waits until the program has written something or can be written to, and reads what it wrote. Raises
        EngineError with the text `problem` at the deadline."""
        remaining = deadline.remaining()
        ready = [descriptor for descriptor, _ in self._poll.poll(remaining * MILLISECONDS)] if remaining else []
        if not ready:
            raise self.fault(f"{problem} within {deadline.seconds:g} s")
        if self._stop in ready:
            raise StoppedError
        if self._stderr in ready:
            self._read_errors()
        if self._stdout in ready:
            self._read_lines(problem)

    def _read_lines(self, problem: str) -> None:
        """Reads lines from the program's output. Raises EngineError if the output is closed, or if a line is longer
        than 1 MiB."""
        data = os.read(self._stdout, 1 << 16)
        if not data:
            raise self._end_error(f", {problem}")
        *lines, self._incomplete_line = (self._incomplete_line + data).split(b"\n")
        self._lines.extend(lines)
        if len(self._incomplete_line) > MAX_LINE_NBYTES:
            raise self.fault("a line without an end")

    def _read_errors(self) -> None:
        """Reads from the program's stderr, of which the last 2000 bytes are kept."""
        data = os.read(self._stderr, 1 << 16)
        self._errors = (self._errors + data)[-MAX_STDERR_NBYTES:]
        if not data:
            self._poll.unregister(self._stderr)

    def _end_error(self, missing: str) -> EngineError:
        """Makes the error for a program that has ended or closed its pipes, with its exit code or signal. `missing`
        names the answer that it owes."""
        with contextlib.suppress(OSError):  # its last output may still be in the pipes
            self._lines.extend((self._incomplete_line + os.read(self._stdout, 1 << 16)).split(b"\n"))
        with contextlib.suppress(OSError):
            self._errors = (self._errors + os.read(self._stderr, 1 << 16))[-MAX_STDERR_NBYTES:]
        status = _wait_for_end(self._process.pid)
        if status is None:
            return self.fault(f"the engine has closed its pipes{missing}")
        code = status.si_status
        if status.si_code == os.CLD_EXITED:
            return self.fault(f"the engine has ended with exit code {code}{missing}")
        return self.fault(f"the engine has ended by signal {code} ({signal.strsignal(code)}){missing}")


def _wait_for_end(pid: int) -> os.waitid_result | None:
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


def _make_printable(line: bytes) -> str:
    """Decodes a line, with spaces in place of characters that can't be printed."""
    text = "".join(c if c.isprintable() else " " for c in line.decode(errors="replace"))
    return text.strip()
