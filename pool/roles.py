"""What every forked process does: hear who it is, tie its life to the supervisor's, become that, end."""

from __future__ import annotations

import importlib
import logging
import os
import socket
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

import zmq

from loader.errors import DataError
from pool import crash_points, lifeline, prctl
from pool.errors import EXIT_DATA, EXIT_FAILED, PoolError
from pool.launch import Launch
from pool.protocol.channel import Link
from pool.protocol.identity import COORDINATOR, FEEDER, PLANNER, SUPERVISOR, WORKER, Peer
from pool.protocol.messages import Failure
from pool.run_dir import shown

_ROLES = {
    COORDINATOR: "pool.coordinator.coordinator",
    FEEDER: "pool.feeder.feeder",
    PLANNER: "pool.planner.planner",
    WORKER: "pool.worker.worker",
}


def play(channel: socket.socket, parent: int) -> NoReturn:
    """The life of a process that has just been forked; `parent`: the supervisor's pid."""
    os.setpgid(0, 0)
    launch, folder = lifeline.receive(channel)
    lifeline.die_with_parent(parent)  # it is the parent by now: who is told who it is has been adopted
    logging.raiseExceptions = False  # a log that can't be written is no reason to say so in it
    code = EXIT_FAILED
    try:
        try:
            code = _become(launch, channel, folder)
        except BaseException:
            traceback.print_exc()
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)  # there is nothing to clean up (I6), and to take torch apart takes long


def _become(launch: Launch, channel: socket.socket, folder: int) -> int:
    """The exit code. `folder`: descriptor of the run's."""
    prctl.show_as(str(launch.peer))  # the command line is the fork server's
    crash_points.arm(launch.config.testing.crash_points, launch.peer)
    lifeline.forks_die_with_this_process()
    run: Callable[[Launch], bytes | None] = importlib.import_module(_ROLES[launch.peer.role]).run
    if launch.peer.role == PLANNER:
        answer = run(launch)
        assert answer is not None
        lifeline.answer(channel, answer)
        return 0
    lifeline.die_with(channel, folder)
    logging.basicConfig(
        level=logging.INFO, format=f"%(asctime)s {launch.peer.role} {launch.peer.index} %(levelname)s %(message)s"
    )
    try:
        run(launch)
    except (PoolError, DataError) as error:
        _report(launch, str(error), error.exit_code if isinstance(error, PoolError) else EXIT_DATA)
        return EXIT_FAILED
    return 0


def _report(launch: Launch, reason: str, exit_code: int) -> None:
    """Tells the supervisor why this process ends."""
    context = zmq.Context[zmq.Socket[bytes]]()
    link = Link(context, launch.address_key, launch.peer, Peer(SUPERVISOR), os.getppid())
    link.send(Failure(shown(reason), exit_code))
    link.close()
    context.term()
