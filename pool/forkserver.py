"""The process that all others of a run are forked from: `python -m pool.forkserver LIFELINE PARENT`, a descriptor and
the supervisor's pid.

It has imported all that takes long and nothing of the user's, has opened no device and started no thread, so that a
process starts within milliseconds, the first time and every time, and its pages of code and modules are shared.
A new process is the supervisor's child, not this one's: between the two stands one that ends at once, and the kernel
gives orphans to the next subreaper.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys

from pool import crash_points, lifeline, roles
from pool.crash_points import crash_point

_IMPORTED = (
    "torch._dynamo",  # every torch optimizer imports it when it is made
    "pool.planner.planner",
    "pool.coordinator.coordinator",
    "pool.feeder.feeder",
    "pool.worker.worker",
)


def main() -> None:
    parent = int(sys.argv[2])
    lifeline.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is the supervisor's to answer
    os.umask(0o077)
    channel = socket.socket(fileno=int(sys.argv[1]))
    launch = lifeline.receive(channel)
    crash_points.arm(launch.config.testing.crash_points, launch.peer)
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # or every collection of a child copies the pages of all objects there are
    crash_point("forkserver.before_ready")
    lifeline.say(channel, os.getpid())
    while True:
        theirs = lifeline.take_request(channel)
        crash_point("forkserver.before_fork")
        answer = _fork()
        if answer is None:
            channel.close()
            roles.play(theirs, parent)
        theirs.close()
        crash_point("forkserver.before_answer")
        lifeline.say(channel, answer)


def _fork() -> int | None:
    """The new process's pid, the errno as a negative number if there is none; in the new process None."""
    reading, writing = os.pipe()
    try:
        between = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        return -(error.errno or 1)
    if between == 0:
        try:
            answer = os.fork()
        except OSError as error:
            answer = -(error.errno or 1)
        if answer != 0:
            os.write(writing, str(answer).encode())
            os._exit(0)
    os.close(writing)
    try:
        if between == 0:
            return None
        text = os.read(reading, 32)
        os.waitpid(between, 0)  # from now on the new process is the supervisor's
        return int(text)
    finally:
        os.close(reading)


if __name__ == "__main__":
    main()
