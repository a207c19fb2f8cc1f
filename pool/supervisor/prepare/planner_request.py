"""Runs the planner, a process that imports torch so that the supervisor doesn't have to, and receives its answer."""

from __future__ import annotations

import itertools
import math
import select
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from loader.files.identity import DataFile
from pool.errors import PoolError, RunError
from pool.process import lifeline
from pool.process.document import from_json
from pool.process.plan_result import ANSWER, Answer, Refused
from pool.process.start import PlannerStart
from pool.protocol.identity import FORKSERVER, PLANNER, Peer
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.processes.child import Child
from pool.supervisor.processes.forkserver import ForkServer, become_subreaper
from pool.supervisor.resources.run_memory import RunMemory
from pool.supervisor.resources.signals import StopSignals

GRACE_SECONDS = 5.0  # in which a planner that fails may still report the reason
POLL_SECONDS = 0.5  # longest poll: the time of a suspended machine counts for no more


def ask_planner(run: RunPlan, logs: Path, signals: StopSignals | None) -> tuple[RunPlan, ForkServer]:
    """Starts the fork server and the planner. Returns the run with the planner's answer, and the fork server.

    If one of the two processes dies, both are restarted: `pool.restarts` times, or once if the process was killed
    because it did not answer. Raises the planner's error; RunError if there is no answer or a signal to stop comes;
    OSError.
    """
    become_subreaper()
    planner, forkserver = Peer(PLANNER), Peer(FORKSERVER)
    for attempt in itertools.count(1):
        server = ForkServer(forkserver, run.config, logs / forkserver.log_name)
        try:
            answer, process = _request_plan(
                server, run.planner_start(planner), run.config.pool.start_timeout, logs, signals
            )
            if answer is not None:
                return add_answer(run, from_json(ANSWER, answer)), server
        except BaseException:
            server.end()
            raise
        ending = process.end(GRACE_SECONDS)
        if process is not server:
            server.end()
            planner = replace(planner, incarnation=planner.incarnation + 1)
        forkserver = replace(forkserver, incarnation=attempt + 1)
        has_exited = process.returncode is not None and process.returncode > 0  # by itself, which a restart repeats
        max_restarts = 1 if process.killed_since else run.config.pool.restarts
        if has_exited or attempt > max_restarts:
            reason = f" since it {process.killed_since}" if process.killed_since else ""
            raise RunError(f"the {process.peer} {ending}{reason}\n{process.last_lines()}".strip())
    raise AssertionError("unreachable")


def _request_plan(
    server: ForkServer, start: PlannerStart, timeout: float, logs: Path, signals: StopSignals | None
) -> tuple[bytes | None, Child]:
    """Has the fork server start a planner, and waits for the planner's answer.

    Returns the answer and the planner, which has ended. If a process has died instead, returns None and that process,
    which is not reaped yet.
    """
    _wait_until_readable(server, timeout, signals)
    if server.receive_child() is None:
        return None, server
    server.request_process(start.peer, logs / start.peer.log_name)
    _wait_until_readable(server, timeout, signals)
    planner = server.receive_child()
    if planner is None:
        return None, server
    try:
        planner.send_start(start, RunMemory())
        _wait_until_readable(planner, timeout, signals)
        answer = lifeline.receive_answer(planner.channel)
    except BaseException:
        planner.end()
        raise
    if answer is not None:
        planner.end()
    return answer, planner


def add_answer(run: RunPlan, answer: Answer) -> RunPlan:
    """Returns the run with the planner's findings. Raises PoolError if the planner refuses the run."""
    if isinstance(answer, Refused):
        raise PoolError(answer.error, answer.exit_code)
    trimmed_data = {
        purpose: replace(data, files=_trim_files(data.files, answer.sizes[purpose]))
        for purpose, data in run.data.items()
    }
    return replace(run, data=trimmed_data, answer=answer.planned)


def _trim_files(files: Sequence[DataFile], sizes: Sequence[int]) -> tuple[DataFile, ...]:
    """Returns the files, each cut to the size that the planner has seen."""
    return tuple(file.up_to(size) for file, size in zip(files, sizes, strict=True))


def _wait_until_readable(child: Child, timeout: float, signals: StopSignals | None) -> None:
    """Waits until a process has answered or is dead. Kills a process that does not answer in time.

    A signal to stop ends the run at once, since nothing is to be saved yet. Raises RunError.
    """
    poller = select.poll()
    poller.register(child.channel, select.POLLIN)
    if signals is not None:
        poller.register(signals, select.POLLIN)
    poll_ms = 1000 * min(POLL_SECONDS, timeout)
    max_polls = math.ceil(timeout / POLL_SECONDS)
    if not any(poller.poll(poll_ms) for _ in range(max_polls)):
        child.kill(f"did not answer within pool.start_timeout = {timeout:g} s")
    if signals is not None and signals.count > 0:
        raise RunError("stopped before the first step", signals.exit_code)
