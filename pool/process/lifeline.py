"""The socket pair between the supervisor and each of its children.

Through it a child gets its start document (`pool.process.start`), with the descriptors of its log, the run folder and
its memory, and another run folder if that was deleted; its end is the news that the supervisor is dead, which the
kernel also tells by signal. A child that ends by an exception leaves its `Failure` here: what lies in a socket outlives
its sender and needs no reader, so it is complete when the death is seen. The fork server is sent such sockets through
its own, one for each process to fork, and says the pid. Free of torch.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Sequence
from dataclasses import replace

from loader.exit_codes import EXIT_FAILED
from pool.process import prctl
from pool.process.failure import Failure
from pool.process.start import Start, start_of
from pool.run_folder.access import inside

_MOST_DESCRIPTORS = 253  # the kernel's limit of one message
_NOTE = b"note"
_NUMBER = 32  # bytes that hold one, in digits
_FAILURE = 1 << 16  # bytes of one at most


def pair() -> tuple[socket.socket, socket.socket]:
    """The supervisor's end and the child's."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)


def send(channel: socket.socket, start: Start, log: int, folder: int, descriptors: Sequence[int]) -> None:
    """Sends a child what it is started with; `folder`: the run's. `start.segments` and `.bells` hold positions in
    `descriptors`. Does nothing if the child is dead."""
    document = _memory_file(start.to_json())
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(channel, [_NOTE], [document, log, folder, *descriptors])
    finally:
        os.close(document)


def send_folder(channel: socket.socket, folder: int) -> None:
    """The run folder is another one now. Does nothing if the child is dead or does not read."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, BlockingIOError):
        socket.send_fds(channel, [_NOTE], [folder], socket.MSG_DONTWAIT)


def receive(channel: socket.socket, folder: int | None = None) -> tuple[Start, int]:
    """Waits for this process's start document; returns it and the descriptor of the run folder, which is `folder` if
    the process has it already, with another document. From then on the process's output goes to its log."""
    descriptors = _take(channel, _MOST_DESCRIPTORS)
    if not descriptors:
        _die()
    document, log, its_folder, *others = descriptors
    if folder is None:
        folder = its_folder
    else:
        os.close(its_folder)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    with os.fdopen(document, "rb") as file:
        start = start_of(file.read(), inside(folder))
    handles = {name: replace(handle, fd=others[handle.fd]) for name, handle in start.segments.items()}
    return replace(start, segments=handles, bells={name: others[at] for name, at in start.bells.items()}), folder


def answer(channel: socket.socket, data: bytes) -> None:
    """Sends the planner's answer, of any length."""
    document = _memory_file(data)
    socket.send_fds(channel, [_NOTE], [document])
    os.close(document)


def take_answer(channel: socket.socket) -> bytes | None:
    """Once the channel is readable: the answer, None if the child is dead instead."""
    descriptors = _take(channel, 1)
    if not descriptors:
        return None
    with os.fdopen(descriptors[0], "rb") as file:
        return file.read()


def leave(channel: socket.socket, failure: Failure) -> None:
    """Leaves why this process ends, for `left`. Never waits; does nothing if there is no room or no channel."""
    with contextlib.suppress(OSError):
        channel.send(failure.to_bytes(), socket.MSG_DONTWAIT)


def left(channel: socket.socket) -> Failure | None:
    """The failure that a dead child has left; None if there is none. Never waits: a process that it has forked may
    still have the other end."""
    try:
        return Failure.from_bytes(channel.recv(_FAILURE, socket.MSG_DONTWAIT))
    except OSError:
        return None


def request(channel: socket.socket, theirs: socket.socket) -> None:
    """Asks the fork server for a process that has the other end of a pair. Does nothing if it is dead."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        socket.send_fds(channel, [_NOTE], [theirs.fileno()])


def take_request(channel: socket.socket) -> socket.socket:
    """Waits for the next; this process ends with the supervisor."""
    descriptors = _take(channel, 1)
    if not descriptors:
        _die()
    return socket.socket(fileno=descriptors[0])


def say(channel: socket.socket, number: int) -> None:
    """Sends a fork server's next number: its own pid once it is ready, then each new process's, or -errno."""
    channel.send(str(number).encode())


def take_number(channel: socket.socket) -> int | None:
    """Once the channel is readable: the number, None if the fork server is dead instead."""
    try:
        return int(channel.recv(_NUMBER) or 0) or None
    except ConnectionResetError:
        return None


def die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when the supervisor dies; ends now if it is dead already."""
    prctl.die_with_parent()
    if os.getppid() != parent:
        os._exit(EXIT_FAILED)


def forks_die_with_this_process() -> None:
    """Processes that this one forks in its main thread (a task's helpers) die with it, since they share its memory.

    Not of other threads: what they fork would die with the thread.
    """
    me, parent = os.getpid(), 0

    def before() -> None:
        nonlocal parent
        is_mine = os.getpid() == me and threading.current_thread() is threading.main_thread()
        parent = me if is_mine else 0

    def in_child() -> None:
        if parent:
            die_with_parent(parent)

    os.register_at_fork(before=before, after_in_child=in_child)


def die_with(channel: socket.socket, folder: int) -> None:
    """A thread that ends this process when the socket closes: a fallback if PR_SET_PDEATHSIG was cleared. Until then
    `folder` becomes each run folder that the supervisor sends."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            while descriptors := _take(channel, 1):
                os.dup2(descriptors[0], folder, inheritable=False)
                os.close(descriptors[0])
        _die()

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


def _take(channel: socket.socket, most: int) -> list[int]:
    """The descriptors of the next note; none if the other end is gone, also if it had not read all that we said."""
    try:
        note, descriptors, _, _ = socket.recv_fds(channel, len(_NOTE), most, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return []
    return descriptors if note == _NOTE else []


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _memory_file(data: bytes) -> int:
    """A descriptor that `data` can be read from, once."""
    fd = os.memfd_create("start", os.MFD_CLOEXEC)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except OSError:
        os.close(fd)
        raise
    return fd
