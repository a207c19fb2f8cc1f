"""Asking the planner, a process that knows torch, so that the supervisor need not."""

from __future__ import annotations

import itertools
import json
import os
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
from pool.protocol.identity import PLANNER, Peer
from pool.supervisor.child import Child
from pool.supervisor.signals import StopSignals

GRACE = 5.0  # seconds that a planner which gives up may take to say why


def ask_planner(launch: Launch, signals: StopSignals | None) -> tuple[Launch, Child]:
    """The launch with all that the planner knows, and the planner, which lives on and can become another.

    One that dies of a signal is asked anew, `pool.restarts` times. Raises what it says, RunError if it says nothing
    or a signal comes.
    """
    for attempt in itertools.count(1):
        log = os.memfd_create("planner.log", os.MFD_CLOEXEC)
        try:
            planner = Child(path := Path(f"/proc/self/fd/{log}"))
            try:
                planner.become(replace(launch, peer=Peer(PLANNER, incarnation=attempt)), path, {}, {})
                output = _wait_for(planner, launch.config.pool.start_timeout, signals)
            except BaseException:
                planner.end()
                raise
            if output is not None:
                return _with_answer(launch, planner, json.loads(output)), planner
            how = planner.end(GRACE)
            gave_up = planner.returncode is None or planner.returncode >= 0
            if gave_up or attempt > launch.config.pool.restarts:
                raise RunError(f"the planner {how}:\n{planner.last_lines()}")
        finally:
            os.close(log)
    raise AssertionError("unreachable")


def _with_answer(launch: Launch, planner: Child, answer: Mapping[str, Any]) -> Launch:
    if "error" in answer:
        planner.end()
        raise PoolError(answer["error"], answer["exit_code"])
    return replace(
        launch,
        schema=BatchSchema.from_dict(answer["schema"]),
        plan=Plan.from_dict(answer["plan"]),
        devices=tuple(answer["devices"]),
        state_nbytes=answer["state_nbytes"],
        fingerprint=answer["fingerprint"],
    )


def _wait_for(planner: Child, timeout: float, signals: StopSignals | None) -> bytes | None:
    """Its answer, None if it is dead. There is nothing to keep yet: the first signal ends it, and the run."""
    poller = select.poll()
    poller.register(planner.channel, select.POLLIN)
    if signals is not None:
        poller.register(signals, select.POLLIN)
    if not poller.poll(1000 * timeout):
        raise RunError(f"the planner did not answer within pool.start_timeout = {timeout:g} s")
    if signals is not None and signals.count > 0:
        raise RunError("stopped before the first step", signals.exit_code)
    return lifeline.take_answer(planner.channel)
