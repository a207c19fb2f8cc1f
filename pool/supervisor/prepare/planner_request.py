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
from pool.supervisor.processes.forkserver import ForkServer, be_the_parent
from pool.supervisor.resources.run_memory import RunMemory
from pool.supervisor.resources.signals import StopSignals

GRACE = 5.0  # seconds in which a planner that fails may still report why
LOOK = 0.5  # most seconds of one poll, so that the time of a suspended machine counts for no more


def ask_planner(run: RunPlan, logs: Path, signals: StopSignals | None) -> tuple[RunPlan, ForkServer]:
    """Starts the fork server and the planner. Returns the run with the planner's answer, and the fork server.

    If either dies, both are restarted: `pool.restarts` times, or once if one was killed because it did not answer.
    Raises the planner's error; RunError if there is no answer or a signal to stop comes; OSError.
    """
    be_the_parent()
    planner, forkserver = Peer(PLANNER), Peer(FORKSERVER)
    for attempt in itertools.count(1):
        server = ForkServer(forkserver, run.config, logs / forkserver.log_name)
        try:
            answer, last = _ask(server, run.planner_start(planner), run.config.pool.start_timeout, logs, signals)
            if answer is not None:
                return with_answer(run, from_json(ANSWER, answer)), server
        except BaseException:
            server.end()
            raise
        how = last.end(GRACE)
        if last is not server:
            server.end()
            planner = replace(planner, incarnation=planner.incarnation + 1)
        forkserver = replace(forkserver, incarnation=attempt + 1)
        gave_up = last.returncode is not None and last.returncode > 0
        if gave_up or attempt > (1 if last.killed_since else run.config.pool.restarts):
            since = f" since it {last.killed_since}" if last.killed_since else ""
            raise RunError(f"the {last.peer} {how}{since}\n{last.last_lines()}".strip())
    raise AssertionError("unreachable")


def _ask(
    server: ForkServer, start: PlannerStart, timeout: float, logs: Path, signals: StopSignals | None
) -> tuple[bytes | None, Child]:
    """Has the fork server start a planner and waits for its answer.

    Returns the answer and the planner, which has ended. Without an answer returns None and the process that has died,
    which is not reaped yet.
    """
    _wait_for(server, timeout, signals)
    if server.hear() is None:
        return None, server
    server.ask_for(start.peer, logs / start.peer.log_name)
    _wait_for(server, timeout, signals)
    planner = server.hear()
    if planner is None:
        return None, server
    try:
        planner.tell(start, RunMemory())
        _wait_for(planner, timeout, signals)
        answer = lifeline.receive_answer(planner.channel)
    except BaseException:
        planner.end()
        raise
    if answer is not None:
        planner.end()
    return answer, planner


def with_answer(run: RunPlan, answer: Answer) -> RunPlan:
    """Returns the run with the planner's findings. Raises PoolError if the planner refuses the run."""
    if isinstance(answer, Refused):
        raise PoolError(answer.error, answer.exit_code)
    return replace(
        run,
        data={
            purpose: replace(data, files=_up_to(data.files, answer.sizes[purpose]))
            for purpose, data in run.data.items()
        },
        answer=answer.planned,
    )


def _up_to(files: Sequence[DataFile], sizes: Sequence[int]) -> tuple[DataFile, ...]:
    """Returns the files, each cut to the size that the planner has seen."""
    return tuple(file.up_to(size) for file, size in zip(files, sizes, strict=True))


def _wait_for(child: Child, timeout: float, signals: StopSignals | None) -> None:
    """Waits until a process has answered or is dead. Kills a process that does not answer in time.

    A signal to stop ends the run at once, since nothing is to be saved yet. Raises RunError.
    """
    poller = select.poll()
    poller.register(child.channel, select.POLLIN)
    if signals is not None:
        poller.register(signals, select.POLLIN)
    if not any(poller.poll(1000 * min(LOOK, timeout)) for _ in range(math.ceil(timeout / LOOK))):
        child.kill(f"did not answer within pool.start_timeout = {timeout:g} s")
    if signals is not None and signals.count > 0:
        raise RunError("stopped before the first step", signals.exit_code)
