"""The life of every forked process: read its start document, arrange to die with the supervisor, run its role, end."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import logging
import os
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import NoReturn

from loader.exit_codes import EXIT_FAILED
from loader.plugins.error_text import error_line
from pool import crash_points
from pool.device.plugins import add_devices
from pool.process import lifeline, prctl
from pool.process.document import to_json
from pool.process.failure import failure_of
from pool.process.plan_result import Answer, Refused
from pool.process.start import Start
from pool.protocol.identity import COORDINATOR, FEEDER, PLANNER, WORKER
from pool.run_folder.access import shown

_ROLES = {
    COORDINATOR: "pool.coordinator.coordinator",
    FEEDER: "pool.feeder.feeder",
    PLANNER: "pool.planner.planner",
    WORKER: "pool.worker.worker",
}


def play(channel: socket.socket, parent: int) -> NoReturn:
    """Runs a process that has just been forked; `parent`: the supervisor's pid."""
    os.setpgid(0, 0)
    start, folder = lifeline.receive(channel)
    lifeline.die_with_parent(parent)  # it is the parent by now: a process is sent its document after it was adopted
    logging.raiseExceptions = False  # if the log can't be written, that can't be logged either
    code = EXIT_FAILED
    try:
        faulthandler.enable()  # the log has the Python frames of a SIGSEGV
        code = _plan(start, channel) if start.peer.role == PLANNER else _become(start, channel, folder)
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:
        _log(error)
    finally:
        os._exit(code)  # there is nothing to clean up (I6), and to take torch apart takes long


def _plan(start: Start, channel: socket.socket) -> int:
    """Runs the planner: one answer. Returns the exit code."""
    try:
        answer: Answer = _role(start).run(start)
    except BaseException as error:
        _log(error)
        answer = Refused(f"the planner failed: {shown(error_line(error))}", EXIT_FAILED)
    lifeline.answer(channel, to_json(answer))
    return 0


def _become(start: Start, channel: socket.socket, folder: int) -> int:
    """Runs any other role: calls its `begin`, then the function that this returns. Returns the exit code. `folder`:
    descriptor of the run folder."""
    started, me = False, os.getpid()
    try:
        lifeline.die_with(channel, folder)
        logging.basicConfig(
            level=logging.INFO, format=f"%(asctime)s {start.peer.role} {start.peer.index} %(levelname)s %(message)s"
        )
        go_on: Callable[[], object] = _role(start).begin(start)
        started = True
        go_on()
    except BaseException as error:
        failure = failure_of(error, started=started)
        failure = replace(failure, reason=shown(failure.reason))  # the supervisor's descriptors have other numbers
        if failure.signature:
            _log(error)
        if os.getpid() == me:  # else a task has forked: that is not this process's end
            lifeline.leave(channel, failure)
        return EXIT_FAILED
    return 0


def _role(start: Start) -> ModuleType:
    prctl.show_as(str(start.peer))  # the command line is the fork server's
    crash_points.arm(start.crash_points, start.peer)
    add_devices(start.device_module)
    lifeline.forks_die_with_this_process()
    return importlib.import_module(_ROLES[start.peer.role])


def _log(error: BaseException) -> None:
    """All of it, as far as it can be printed and the log be written."""
    with contextlib.suppress(BaseException):
        traceback.print_exception(error)
