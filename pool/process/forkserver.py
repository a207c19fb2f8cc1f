"""Runs the fork server, from which all other processes of a run are forked.

Command line: `python -m pool.process.forkserver LIFELINE PARENT INCARNATION IMPORTED [CRASH_POINT ...]`. LIFELINE is
the descriptor of a socket to the supervisor, PARENT the supervisor's pid, INCARNATION the number of this start of the
fork server, IMPORTED the names of modules to import, with commas.

The fork server imports everything that takes long and nothing of the user's, opens no device and starts no thread. So a
process starts within milliseconds, and all processes share the memory of code and modules. It forks twice: the process
between ends at once, and the kernel gives the orphan to the supervisor, which is the subreaper.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys

from pool import crash_points
from pool.crash_points import crash_point
from pool.process import lifeline, prctl, roles, start
from pool.protocol.identity import FORKSERVER, Peer
from pool.run_folder.access import restrict_umask

_IMPORTED = (
    "pool.planner.planner",
    "pool.coordinator.assembly",
    "pool.feeder.feeder",
    "pool.worker.assembly",
)


def main() -> None:
    """Imports the modules, reports its pid, then forks one process for each request until the supervisor dies."""
    channel, parent = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    lifeline.die_with_parent(parent)
    prctl.set_process_name(FORKSERVER)
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGXCPU):
        signal.signal(number, signal.SIG_IGN)  # of a terminal or a batch system, for all: the supervisor answers
    restrict_umask()
    crash_points.arm(sys.argv[5:], Peer(FORKSERVER, incarnation=int(sys.argv[3])))
    cores = os.sched_getaffinity(0)
    gc.disable()  # collections would be a quarter of the time that the imports take, and find next to nothing
    for name in (*_IMPORTED, *filter(None, sys.argv[4].split(","))):
        importlib.import_module(name)
    start.build_parsers()
    gc.freeze()  # else every collection in a child would copy the pages of all objects
    crash_point("forkserver.before_ready")
    lifeline.send_number(channel, os.getpid())
    while True:
        child_lifeline = lifeline.receive_request(channel)
        crash_point("forkserver.before_fork")
        pid_or_error = _fork_orphan()
        if pid_or_error is None:
            channel.close()
            gc.enable()
            importlib.import_module("pool.nn.generators").seed_generators(0)  # a task's module may draw at its import
            os.sched_setaffinity(0, cores)  # OpenMP may have bound this thread when torch was imported
            roles.run_role(child_lifeline, parent)
        child_lifeline.close()
        crash_point("forkserver.before_answer")
        lifeline.send_number(channel, pid_or_error)


def _fork_orphan() -> int | None:
    """Forks a process whose parent is the supervisor, by forking twice.

    Returns the pid of the new process, or the negative errno if it can't be forked. In the new process returns None.
    """
    read_end, write_end = os.pipe()
    intermediate = _fork()
    if intermediate == 0:
        new_process = _fork()
        if new_process != 0:
            os.write(write_end, str(new_process).encode())
            os._exit(0)
    os.close(write_end)
    digits = os.read(read_end, 32) if intermediate > 0 else b""
    os.close(read_end)
    if intermediate == 0:
        return None
    if intermediate < 0:
        return intermediate
    os.waitpid(intermediate, 0)  # from now on the new process is the supervisor's
    return int(digits)


def _fork() -> int:
    """Calls os.fork. Returns the negative errno if that fails."""
    try:
        return os.fork()
    except OSError as error:
        return -(error.errno or 1)


if __name__ == "__main__":
    main()
