"""Runs every forked process from its fork to its exit.

The process reads its start document, arranges to die with the supervisor, runs its role (planner, feeder, worker or
coordinator), and ends.

With `Exchange.one_process` the coordinator's process also runs the only worker. The worker has the main thread, as in a
process of its own, and the coordinator another thread. If either ends, by itself or by an exception, the process ends.
Both draw from the random generators of one process. That changes no bits, since the coordinator calls a task's code
(`initialize`, `after_step`, metrics) only while its one worker has no batch in work.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import logging
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from types import ModuleType
from typing import Any, NoReturn

from loader.exit_codes import EXIT_FAILED
from loader.plugins.error_text import format_error_with_location
from pool import crash_points
from pool.device.plugins import add_devices
from pool.process import lifeline, prctl
from pool.process.document import to_json
from pool.process.failure import describe_failure
from pool.process.log_streams import tolerate_full_disk
from pool.process.plan_result import Answer, Refused
from pool.process.start import CoordinatorStart, Start
from pool.protocol.identity import COORDINATOR, FEEDER, PLANNER, WORKER
from pool.run_folder.access import show_real_paths

_ROLES = {
    COORDINATOR: "pool.coordinator.assembly",
    FEEDER: "pool.feeder.feeder",
    PLANNER: "pool.planner.planner",
    WORKER: "pool.worker.assembly",
}
_REPORT_DELAY = 1.0  # seconds that one role waits for the other to report the cause of an error first


def run_role(channel: socket.socket, parent: int) -> NoReturn:
    """Runs the role of a process that has just been forked, then exits. `parent`: the supervisor's pid."""
    os.setpgid(0, 0)
    start, folder = lifeline.receive_start(channel)
    worker: Start | None = None
    if isinstance(start, CoordinatorStart) and start.exchange.one_process:
        worker, _ = lifeline.receive_start(channel, folder)
    lifeline.die_with_parent(parent)  # it is the parent by now: documents are sent after adoption
    logging.raiseExceptions = False  # if the log can't be written, that can't be logged either
    tolerate_full_disk()
    code = EXIT_FAILED
    try:
        faulthandler.enable()  # the log has the Python frames of a SIGSEGV
        if start.peer.role == PLANNER:
            code = _run_planner(start, channel)
        elif worker is None:
            code = _run_until_end(channel, lambda: _prepare_role(start, channel, folder).begin(start))
        else:
            code = _run_two_roles(start, worker, channel, folder)
    except BaseException as error:
        _log_error(error)
    finally:
        _exit(code)


def _run_planner(start: Start, channel: socket.socket) -> int:
    """Runs the planner and sends its answer. Returns the exit code."""
    try:
        answer: Answer = _configure_process(start).run(start)
    except BaseException as error:
        _log_error(error)
        reason = show_real_paths(format_error_with_location(error))
        answer = Refused(f"the planner failed: {reason}", EXIT_FAILED)
    lifeline.send_answer(channel, to_json(answer))
    return 0


def _run_until_end(
    channel: socket.socket,
    begin: Callable[[], Callable[[], object]],
    *,
    of_worker: bool = False,
    report_delay: float = 0.0,
) -> int:
    """Runs a role: calls `begin`, then the loop that `begin` returns. Returns the exit code.

    An exception is sent to the supervisor. `of_worker`: the role is the worker in the coordinator's process.
    `report_delay`: seconds to wait before a RuntimeError is sent, so that the process's other role can be first to
    report an error that both have met.
    """
    started, role_pid = False, os.getpid()
    try:
        run_loop = begin()
        started = True
        run_loop()
    except BaseException as error:
        failure = describe_failure(error, started=started)
        reason = show_real_paths(failure.reason)  # paths through this process's descriptors mean nothing elsewhere
        failure = replace(failure, reason=reason, of_worker=of_worker)
        if failure.signature:
            _log_error(error)
        is_fork_of_task = os.getpid() != role_pid
        if not is_fork_of_task:
            time.sleep(report_delay if isinstance(error, RuntimeError) else 0.0)
            lifeline.send_failure(channel, failure)
        return EXIT_FAILED
    return 0


def _run_two_roles(start: Start, worker: Start, channel: socket.socket, folder: int) -> int:
    """Runs the worker in this thread and the coordinator in another one. Returns the exit code.

    They begin one after the other, because both build models, for which tasks draw random numbers.
    """
    exported: Future[Any] = Future()  # device memory that the coordinator exports to the worker
    coordinator_begun, worker_begun = threading.Event(), threading.Event()

    def run_coordinator(role: ModuleType) -> NoReturn:
        def begin() -> Callable[[], object]:
            run_loop: Callable[[], object] = role.begin(start, exported)
            coordinator_begun.set()
            worker_begun.wait()
            return run_loop

        _exit(_run_until_end(channel, begin, report_delay=_REPORT_DELAY))

    def begin_worker() -> Callable[[], object]:
        role = _prepare_role(start, channel, folder)
        threading.Thread(target=run_coordinator, args=(role,), name=COORDINATOR, daemon=True).start()
        coordinator_begun.wait()
        crash_points.arm(worker.crash_points, worker.peer)
        run_loop: Callable[[], object] = _import_role(worker).begin(worker, exported)
        worker_begun.set()
        return run_loop

    return _run_until_end(channel, begin_worker, of_worker=True)


def _exit(code: int) -> NoReturn:
    """Writes buffered output and exits without cleaning up."""
    try:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:
        _log_error(error)
    finally:
        os._exit(code)  # there is nothing to clean up (I6), and torch's own cleanup takes long


def _prepare_role(start: Start, channel: socket.socket, folder: int) -> ModuleType:
    """Prepares this process for a role that lives as long as the run. Returns the role's module.

    `folder`: descriptor of the run folder.
    """
    lifeline.start_watch_thread(channel, folder)
    logging.basicConfig(
        level=logging.INFO, format=f"%(asctime)s {start.peer.role} {start.peer.index} %(levelname)s %(message)s"
    )
    return _configure_process(start)


def _configure_process(start: Start) -> ModuleType:
    """Sets the process's name, crash points and devices for its role. Returns the role's module."""
    prctl.set_process_name(str(start.peer))  # the command line still shows the fork server's
    crash_points.arm(start.crash_points, start.peer)
    add_devices(start.device_module)
    lifeline.forks_die_with_this_process()
    return _import_role(start)


def _import_role(start: Start) -> ModuleType:
    return importlib.import_module(_ROLES[start.peer.role])


def _log_error(error: BaseException) -> None:
    """Prints the whole traceback of an error, as far as it can be printed and the log can be written."""
    with contextlib.suppress(BaseException):
        traceback.print_exception(error)
