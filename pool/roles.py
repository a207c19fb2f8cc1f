"""Where every child process begins: `python -m pool.roles LIFELINE PARENT`, a descriptor and the supervisor's pid.

Ties its life to the supervisor's before anything else, then becomes what it is told. Only the module of that
role is imported, so that the feeder costs no more than it needs. The planner, once it has answered, and a spare, once
it is ready, wait to be told that they are somebody else.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable

import zmq

from loader.errors import DataError
from pool import crash_points, lifeline
from pool.errors import EXIT_DATA, EXIT_FAILED, PoolError
from pool.launch import Launch
from pool.protocol.channel import Link
from pool.protocol.identity import COORDINATOR, FEEDER, PLANNER, SPARE, SUPERVISOR, WORKER, Peer
from pool.protocol.messages import Failure

_PREPARATIONS = {PLANNER: "pool.planner.planner", SPARE: "pool.spare"}
_ROLES = {
    COORDINATOR: "pool.coordinator.coordinator",
    FEEDER: "pool.feeder.feeder",
    WORKER: "pool.worker.worker",
}


def main() -> int:
    lifeline.die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is the supervisor's to answer
    os.umask(0o077)
    channel = socket.socket(fileno=int(sys.argv[1]))
    launch = _told(channel)
    while (prepare := _PREPARATIONS.get(launch.peer.role)) is not None:
        answer = _function(prepare)(launch)
        if answer is not None:
            lifeline.answer(channel, answer)
        launch = _told(channel)
    lifeline.die_with(channel)
    logging.basicConfig(
        level=logging.INFO, format=f"%(asctime)s {launch.peer.role} {launch.peer.index} %(levelname)s %(message)s"
    )
    try:
        _function(_ROLES[launch.peer.role])(launch)
    except (PoolError, DataError) as error:
        _report(launch, str(error), error.exit_code if isinstance(error, PoolError) else EXIT_DATA)
        return EXIT_FAILED
    return 0


def _told(channel: socket.socket) -> Launch:
    """Who this process is."""
    launch = lifeline.receive(channel)
    crash_points.arm(launch.config.testing.crash_points, launch.peer)
    return launch


def _function(module: str) -> Callable[[Launch], bytes | None]:
    """`run` of a module, which is imported now and not before."""
    run: Callable[[Launch], bytes | None] = importlib.import_module(module).run
    return run


def _report(launch: Launch, reason: str, exit_code: int) -> None:
    """Tells the supervisor why this process ends."""
    context = zmq.Context[zmq.Socket[bytes]]()
    link = Link(context, launch.supervisor_socket, launch.peer, Peer(SUPERVISOR))
    link.send(Failure(reason, exit_code))
    link.close()
    context.term()


if __name__ == "__main__":
    sys.exit(main())
