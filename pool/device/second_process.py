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
from pool.device.lost import is_device_lost
from pool.device.memory import is_out_of_memory

Reply = tuple[str, Sequence[int]]  # text, and descriptors that are sent with it and closed

_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)  # others come from outside
_MAX_MESSAGE_NBYTES = 1 << 14
_BUSY = "busy or unavailable"
_KILL_SECONDS = 5.0  # in which a killed process is dead, unless it is stuck in a driver


class NotTriedError(Exception):
    """Something could not be tried, for a reason that may pass. The text gives the reason."""


@dataclass(frozen=True)
class _Message:
    """A message of the second process: an answer, or a problem instead of one."""

    text: str = ""
    problem: str = ""  # then there is no answer
    may_pass: bool = False


class SecondProcess:
    """A process that uses devices, as its parent sees it. Leaving the context kills it."""

    def __init__(self, module: str, *arguments: str, deadline: float) -> None:
        """Runs `python -m MODULE ARGUMENTS... SOCKET`, which calls `serve`. Raises NotTriedError if no process can be
        started.

        `deadline`: a time of time.monotonic, for all requests.
        """
        self._deadline, self._is_ready = deadline, False
        self._channel, child_channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = child_channel.fileno()
        command = module_command(module, *arguments, str(fd))
        try:
            with child_channel:
                self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[fd])
        except OSError as error:
            self._channel.close()
            raise NotTriedError(str(error)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Waits until the process has opened its devices."""
        if not self._is_ready:
            self._receive()
            self._is_ready = True

    def request(self, text: str, *fds: int) -> tuple[str, list[int]]:
        """Sends a request and returns the answer, with descriptors that the caller then owns."""
        self.wait_until_ready()
        self.send(text, *fds)
        return self._receive()

    def send(self, text: str, *fds: int) -> None:
        """Sends a request without waiting for the answer, which nobody reads then."""
        with contextlib.suppress(OSError):  # the next receive notices its death
            socket.send_fds(self._channel, [text.encode()], fds)

    def _receive(self) -> tuple[str, list[int]]:
        """Receives the next message. Returns its text and descriptors.

        Raises RuntimeError for a problem that devices have, and NotTriedError for one that may pass, if no answer comes
        in time, or if the process has died.
        """
        data, fds = b"", list[int]()
        try:
            self._channel.settimeout(self._remaining_seconds())
            data, fds, _, _ = socket.recv_fds(self._channel, _MAX_MESSAGE_NBYTES, 1, socket.MSG_CMSG_CLOEXEC)
        except TimeoutError:
            raise NotTriedError("another process gave no answer in time") from None
        except ConnectionResetError:
            pass  # the process died before it had read all
        if not data:
            raise self._describe_death()
        message = _Message(**json.loads(data))
        if message.problem and not message.may_pass:
            raise RuntimeError(message.problem)
        if message.problem:
            is_busy = _BUSY in message.problem
            hint = "; in exclusive mode it takes one process: nvidia-smi -c DEFAULT" if is_busy else ""
            raise NotTriedError(message.problem + hint)
        return message.text, fds

    def _describe_death(self) -> Exception:
        """Returns the exception for a process that has closed its socket: RuntimeError if its driver crashed, else
        NotTriedError."""
        try:
            code = self._process.wait(self._remaining_seconds())
        except subprocess.TimeoutExpired:
            return NotTriedError("another process gave no answer and did not end")
        ending = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        text = f"another process ended with {ending}"
        has_crashed = self._is_ready and -code in _CRASHES
        return RuntimeError(text) if has_crashed else NotTriedError(text)

    def _remaining_seconds(self) -> float:
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
                data, fds, _, _ = socket.recv_fds(channel, _MAX_MESSAGE_NBYTES, 1, socket.MSG_CMSG_CLOEXEC)
                if not data:
                    return
                reply = answer(data.decode(), fds)
        except Exception as error:
            may_pass = not (is_open and isinstance(error, RuntimeError) and _is_refusal(error))
            _send(channel, _Message(problem=format_error(error), may_pass=may_pass))


def _is_refusal(error: RuntimeError) -> bool:
    """Returns whether a device refuses for good, neither for want of memory nor because it is lost."""
    return not (is_out_of_memory(error) or is_device_lost(error))


def _send(channel: socket.socket, message: _Message, fds: Sequence[int] = ()) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        socket.send_fds(channel, [json.dumps(asdict(message)).encode()], fds)
    for fd in fds:
        os.close(fd)
