"""Where every child process begins: `python -m pool.roles FD`, FD holding its Launch.

Ties its life to the supervisor's before anything else, then becomes what its role says. Only the module of
that role is imported, so that feeder and planner cost no more than they need.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable

import zmq

from loader.errors import DataError
from pool.errors import EXIT_FAILED, PoolError
from pool.launch import Launch, read_descriptor
from pool.protocol.channel import Link
from pool.protocol.identity import COORDINATOR, FEEDER, SUPERVISOR, WORKER, Peer
from pool.protocol.messages import Failure

PLANNER = "planner"
_MODULES = {
    PLANNER: "pool.planner.planner",
    COORDINATOR: "pool.coordinator.coordinator",
    FEEDER: "pool.feeder.feeder",
    WORKER: "pool.worker.worker",
}
_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """The kernel kills this process when the supervisor is gone; if it is gone already, so are we."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(EXIT_FAILED)


def main() -> int:
    launch = Launch.from_json(read_descriptor(int(sys.argv[1])))
    die_with_parent(launch.parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is the supervisor's to answer
    os.umask(0o077)
    logging.basicConfig(
        level=logging.INFO, format=f"%(asctime)s {launch.peer.role} {launch.peer.index} %(levelname)s %(message)s"
    )
    run: Callable[[Launch], None] = importlib.import_module(_MODULES[launch.peer.role]).run
    try:
        run(launch)
    except (PoolError, DataError) as error:
        _report(launch, str(error), error.exit_code if isinstance(error, PoolError) else EXIT_FAILED)
        return EXIT_FAILED
    return 0


def _report(launch: Launch, reason: str, exit_code: int) -> None:
    """Tells the supervisor why this process ends."""
    context = zmq.Context[zmq.Socket[bytes]]()
    link = Link(context, launch.supervisor_socket, launch.peer, Peer(SUPERVISOR))
    link.send(Failure(reason, exit_code))
    link.close()
    context.term()


if __name__ == "__main__":
    sys.exit(main())
