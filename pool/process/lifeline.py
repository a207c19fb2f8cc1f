"""Exchanges start documents, failures and requests over the lifeline: a socket pair between the supervisor and a child.

Through its lifeline a child receives its start document (`pool.process.start`), with the descriptors of its log, of the
run folder and of its shared memory, and a new run folder if the old one was deleted. When the lifeline closes, the
child knows that the supervisor is dead, which the kernel also tells by a signal. A child that an exception ends leaves
its `Failure` in the lifeline. What lies in a socket outlives its sender and needs no reader, so the failure is complete
when the death is seen. The fork server receives the child's end of such a pair through its own lifeline for each
process that it has to fork, and sends back the pid. Free of torch.
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
from pool.process.start import Start, decode_start
from pool.run_folder.access import descriptor_path

_MAX_DESCRIPTORS = 253  # the kernel's limit of one message
_MARK = b"note"  # sent with descriptors, since a message can't be empty
_MAX_NUMBER_NBYTES = 32  # of decimal digits
_MAX_FAILURE_NBYTES = 1 << 16


def create_pair() -> tuple[socket.socket, socket.socket]:
    """Makes a lifeline. Returns the supervisor's end and the child's."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)


def send_start(channel: socket.socket, start: Start, log: int, folder: int, descriptors: Sequence[int]) -> None:
    """Sends a child its start document and its descriptors. Does nothing if the child is dead.

    `log`, `folder`: descriptors of the child's log and of the run folder. `start.segments` and `start.signal_fds` hold
    positions in `descriptors`.
    """
    document = _memory_file(start.to_json())
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(channel, [_MARK], [document, log, folder, *descriptors])
    finally:
        os.close(document)


def send_folder(channel: socket.socket, folder: int) -> None:
    """Sends a child the descriptor of a new run folder, which replaces the old one. Does nothing if the child is dead
    or does not read."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, BlockingIOError):
        socket.send_fds(channel, [_MARK], [folder], socket.MSG_DONTWAIT)


def receive_start(channel: socket.socket, folder: int | None = None) -> tuple[Start, int]:
    """Waits for this process's start document, and sends the process's output to its log from then on.

    `folder`: descriptor of the run folder, if the process got it with an earlier document. Returns the start document
    and the descriptor of the run folder. Ends the process if the supervisor is dead.
    """
    descriptors = _receive_descriptors(channel, _MAX_DESCRIPTORS)
    if not descriptors:
        _kill_this_process()
    document, log, received_folder, *memory = descriptors
    if folder is None:
        folder = received_folder
    else:
        os.close(received_folder)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    with os.fdopen(document, "rb") as file:
        start = decode_start(file.read(), descriptor_path(folder))
    segments = {name: replace(handle, fd=memory[handle.fd]) for name, handle in start.segments.items()}
    signal_fds = {name: memory[position] for name, position in start.signal_fds.items()}
    return replace(start, segments=segments, signal_fds=signal_fds), folder


def send_answer(channel: socket.socket, data: bytes) -> None:
    """Sends the planner's answer, of any length, to the supervisor."""
    document = _memory_file(data)
    socket.send_fds(channel, [_MARK], [document])
    os.close(document)


def receive_answer(channel: socket.socket) -> bytes | None:
    """Receives the planner's answer once the channel is readable. Returns None if the planner is dead instead."""
    descriptors = _receive_descriptors(channel, 1)
    if not descriptors:
        return None
    with os.fdopen(descriptors[0], "rb") as file:
        return file.read()


def send_failure(channel: socket.socket, failure: Failure) -> None:
    """Sends the supervisor the reason why this process ends.

    Never waits. Does nothing if the socket is full or closed.
    """
    with contextlib.suppress(OSError):
        channel.send(failure.to_bytes(), socket.MSG_DONTWAIT)


def receive_failure(channel: socket.socket) -> Failure | None:
    """Receives the failure that a dead child has sent by `send_failure`. Returns None if there is none.

    Never waits, because a process that the child has forked may still hold the child's end open.
    """
    try:
        return Failure.from_bytes(channel.recv(_MAX_FAILURE_NBYTES, socket.MSG_DONTWAIT))
    except OSError:
        return None


def send_request(channel: socket.socket, theirs: socket.socket) -> None:
    """Asks the fork server to fork a process. Does nothing if the fork server is dead.

    `theirs`: the child's end of a new lifeline, which the new process gets.
    """
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        socket.send_fds(channel, [_MARK], [theirs.fileno()])


def receive_request(channel: socket.socket) -> socket.socket:
    """Waits in the fork server for the next request. Returns the lifeline of the process to fork. Ends the fork server
    if the supervisor is dead."""
    descriptors = _receive_descriptors(channel, 1)
    if not descriptors:
        _kill_this_process()
    return socket.socket(fileno=descriptors[0])


def send_number(channel: socket.socket, number: int) -> None:
    """Sends a number from the fork server to the supervisor: first its own pid once it is ready, then for each request
    the pid of the new process, or -errno."""
    channel.send(str(number).encode())


def receive_number(channel: socket.socket) -> int | None:
    """Receives a number of the fork server once the channel is readable. Returns None if the fork server is dead
    instead."""
    try:
        digits = channel.recv(_MAX_NUMBER_NBYTES)
    except ConnectionResetError:
        return None
    return int(digits) if digits else None


def die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when the supervisor dies. Ends the process now if the supervisor is dead
    already.

    `parent`: the supervisor's pid.
    """
    prctl.die_with_parent()
    if os.getppid() != parent:
        os._exit(EXIT_FAILED)


def forks_die_with_this_process() -> None:
    """Has the kernel kill processes that this process forks (a task's helpers) when it dies, since they share its
    memory.

    Covers forks in the main thread only: what another thread forks would die with that thread.
    """
    this_pid = os.getpid()
    parent = 0  # of the process that is being forked; 0: it need not die with this one

    def set_parent() -> None:
        nonlocal parent
        forks_here = os.getpid() == this_pid and threading.current_thread() is threading.main_thread()
        parent = this_pid if forks_here else 0

    def arrange_death() -> None:
        if parent:
            die_with_parent(parent)

    os.register_at_fork(before=set_parent, after_in_child=arrange_death)


def start_watch_thread(channel: socket.socket, folder: int) -> None:
    """Starts a thread that kills this process when its lifeline closes, in case PR_SET_PDEATHSIG was cleared.

    Until then the thread receives new run folders from the supervisor. The descriptor `folder` then refers to the
    newest of them.
    """

    def watch() -> None:
        with contextlib.suppress(OSError):
            descriptors = _receive_descriptors(channel, 1)
            while descriptors:
                os.dup2(descriptors[0], folder, inheritable=False)
                os.close(descriptors[0])
                descriptors = _receive_descriptors(channel, 1)
        _kill_this_process()

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def _receive_descriptors(channel: socket.socket, max_descriptors: int) -> list[int]:
    """Receives the descriptors of the next message.

    Returns an empty list if the sender has closed the socket, even if messages of this process were unread then.
    """
    try:
        mark, descriptors, _, _ = socket.recv_fds(channel, len(_MARK), max_descriptors, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return []
    return descriptors if mark == _MARK else []


def _kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _memory_file(data: bytes) -> int:
    """Returns the descriptor of an anonymous file that holds `data`, to be read once."""
    fd = os.memfd_create("start", os.MFD_CLOEXEC)
    try:
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(fd, remaining) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except OSError:
        os.close(fd)
        raise
    return fd
