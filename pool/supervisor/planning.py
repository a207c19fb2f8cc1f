"""Asking the planner, a process that knows torch, so that the supervisor need not."""

from __future__ import annotations

import itertools
import json
import select
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loader.schema import BatchSchema
from pool import lifeline
from pool.buckets.plan import Plan
from pool.errors import PoolError, RunError
from pool.launch import Launch
from pool.protocol.identity import FORKSERVER, PLANNER, Peer
from pool.supervisor.child import Child
from pool.supervisor.forkserver import ForkServer
from pool.supervisor.signals import StopSignals

GRACE = 5.0  # seconds that a planner which gives up may take to say why


def ask_planner(launch: Launch, logs: Path, signals: StopSignals | None) -> tuple[Launch, ForkServer]:
    """The launch with all that the planner knows, and the fork server that the planner came from.

    If either dies of a signal both are started anew, `pool.restarts` times. Raises what the planner says, RunError if
    it says nothing or a signal comes.
    """
    planner = Peer(PLANNER)
    for attempt in itertools.count(1):
        forkserver = ForkServer(replace(launch, peer=Peer(FORKSERVER, incarnation=attempt)), logs / "forkserver-0.log")
        try:
            answer, last = _ask(forkserver, replace(launch, peer=planner), logs, signals)
            if answer is not None:
                return _with_answer(launch, json.loads(answer)), forkserver
        except BaseException:
            forkserver.end()
            raise
        how = last.end(GRACE)
        if last is not forkserver:
            forkserver.end()
            planner = replace(planner, incarnation=planner.incarnation + 1)
        gave_up = last.returncode is None or last.returncode >= 0
        if gave_up or attempt > launch.config.pool.restarts:
            raise RunError(f"the {last.peer} {how}:\n{last.last_lines()}")
    raise AssertionError("unreachable")


def _ask(forkserver: ForkServer, launch: Launch, logs: Path, signals: StopSignals | None) -> tuple[bytes | None, Child]:
    """The planner's answer, and the planner, which is no more; None, and whoever died instead, not reaped."""
    timeout = launch.config.pool.start_timeout
    _wait_for(forkserver, timeout, signals)
    planner = forkserver.start(launch, logs / "planner-0.log", {}, {}) if forkserver.take_ready() else None
    if planner is None:
        return None, forkserver
    try:
        _wait_for(planner, timeout, signals)
        answer = lifeline.take_answer(planner.channel)
    except BaseException:
        planner.end()
        raise
    if answer is not None:
        planner.end()
    return answer, planner


def _with_answer(launch: Launch, answer: Mapping[str, Any]) -> Launch:
    if "error" in answer:
        raise PoolError(answer["error"], answer["exit_code"])
    return replace(
        launch,
        schema=BatchSchema.from_dict(answer["schema"]),
        plan=Plan.from_dict(answer["plan"]),
        devices=tuple(answer["devices"]),
        state_nbytes=answer["state_nbytes"],
        fingerprint=answer["fingerprint"],
    )


def _wait_for(child: Child, timeout: float, signals: StopSignals | None) -> None:
    """Until it has said something or is dead. There is nothing to keep yet: the first signal ends it, and the run."""
    poller = select.poll()
    poller.register(child.channel, select.POLLIN)
    if signals is not None:
        poller.register(signals, select.POLLIN)
    if not poller.poll(1000 * timeout):
        raise RunError(f"the {child.peer} did not answer within pool.start_timeout = {timeout:g} s")
    if signals is not None and signals.count > 0:
        raise RunError("stopped before the first step", signals.exit_code)
