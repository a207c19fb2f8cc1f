"""Runs a second process that uses devices, to find out what one process alone can't.

The process is started anew, since a process that has opened a device can't be forked. It reports when it has opened its
own devices, and answers requests until the socket is closed.

Every failure is an exception here. RuntimeError: its devices refuse what was asked, or their driver crashes.
NotTriedError: the reason may pass.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Self

from loader.plugins.error_text import format_error
from loader.plugins.modules import module_command
from pool.device.lost import device_lost
from pool.device.memory import out_of_memory

Reply = tuple[str, Sequence[int]]  # text, and descriptors that are sent with it and closed

_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)  # others come from outside
_LONGEST = 1 << 14  # greatest number of bytes in a message
_BUSY = "busy or unavailable"
_GRACE = 5.0  # seconds in which a killed process is dead, unless it is stuck in a driver


class NotTriedError(Exception):
    """Something could not be tried, for a reason that may pass. The text gives the reason."""


@dataclass(frozen=True)
class _Message:
    """What the second process sends: an answer, or a problem instead of one."""

    text: str = ""
    problem: str = ""  # what went wrong; then there is no answer
    may_pass: bool = False


class SecondProcess:
    """A process that uses devices, as its parent sees it. Leaving the context kills it."""

    def __init__(self, module: str, *arguments: str, deadline: float) -> None:
        """Runs `python -m MODULE ARGUMENTS... SOCKET`, which calls `serve`. Raises NotTriedError if no process can be
        started.

        `deadline`: a time of time.monotonic, for all that the process is asked.
        """
        self._deadline, self._is_ready = deadline, False
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = module_command(module, *arguments, str(theirs.fileno()))
        try:
            with theirs:
                self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        except OSError as error:
            self._channel.close()
            raise NotTriedError(str(error)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ready(self) -> None:
        """Waits until the process has opened its devices."""
        if not self._is_ready:
            self._hear()
            self._is_ready = True

    def ask(self, text: str, *fds: int) -> tuple[str, list[int]]:
        """Sends a request and returns the answer, with descriptors that the caller then owns."""
        self.ready()
        self.tell(text, *fds)
        return self._hear()

    def tell(self, text: str, *fds: int) -> None:
        """Sends a request without waiting for the answer, which nobody reads then."""
        with contextlib.suppress(OSError):  # the next receive notices its death
            socket.send_fds(self._channel, [text.encode()], fds)

    def _hear(self) -> tuple[str, list[int]]:
        """Receives the next message. Returns its text and descriptors, and raises for a problem, for silence and for
        death."""
        note, fds = b"", list[int]()
        try:
            self._channel.settimeout(self._left())
            note, fds, _, _ = socket.recv_fds(self._channel, _LONGEST, 1, socket.MSG_CMSG_CLOEXEC)
        except TimeoutError:
            raise NotTriedError("another process gave no answer in time") from None
        except ConnectionResetError:
            pass  # the process died before it had read all
        if not note:
            raise self._death()
        said = _Message(**json.loads(note))
        if said.problem and not said.may_pass:
            raise RuntimeError(said.problem)
        if said.problem:
            hint = "; in exclusive mode it takes one process: nvidia-smi -c DEFAULT" if _BUSY in said.problem else ""
            raise NotTriedError(said.problem + hint)
        return said.text, fds

    def _death(self) -> Exception:
        """Returns the exception for a process that has closed its socket: RuntimeError if its driver crashed, else
        NotTriedError."""
        try:
            code = self._process.wait(self._left())
        except subprocess.TimeoutExpired:
            return NotTriedError("another process gave no answer and did not end")
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        crashed = self._is_ready and -code in _CRASHES
        return (RuntimeError if crashed else NotTriedError)(f"another process ended with {how}")

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.001)


def serve(fd: int, open_devices: Callable[[], object], answer: Callable[[str, list[int]], Reply]) -> None:
    """Runs the second process: opens devices, then answers requests until the parent closes the socket or something
    goes wrong.

    The reason of a failure is sent to the parent.
    """
    with socket.socket(fileno=fd) as channel:
        is_open = False
        reply: Reply = "", ()  # the first message: the devices are open
        try:
            open_devices()
            is_open = True
            while True:
                _send(channel, _Message(reply[0]), reply[1])
                note, fds, _, _ = socket.recv_fds(channel, _LONGEST, 1, socket.MSG_CMSG_CLOEXEC)
                if not note:
                    return
                reply = answer(note.decode(), fds)
        except Exception as error:
            refused = is_open and isinstance(error, RuntimeError) and not (out_of_memory(error) or device_lost(error))
            _send(channel, _Message(problem=format_error(error), may_pass=not refused))


def _send(channel: socket.socket, message: _Message, fds: Sequence[int] = ()) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        socket.send_fds(channel, [json.dumps(asdict(message)).encode()], fds)
    for fd in fds:
        os.close(fd)
