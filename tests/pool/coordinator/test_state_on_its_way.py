"""A copy of the state on a device that is still on its way when the coordinator goes on (I9)."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from loader.stream.interface import Cursor
from pool.checkpoint.schedule import Schedule
from pool.checkpoint.store import Checkpoint
from pool.coordinator.checkpoints import Checkpoints
from pool.coordinator.executor import Executor
from pool.coordinator.metrics.metrics import Traffic
from pool.coordinator.models import Models
from pool.coordinator.scheduler.actions import Commit
from pool.coordinator.snapshots import Snapshots
from pool.coordinator.step_record import StepRecord
from pool.protocol.identity import COORDINATOR, Peer
from pool.telemetry.trace import Trace
from tests.pool.checkpoint.test_best_checkpoint import state


@dataclass
class Late:
    """A StateCopy that does not arrive before it is waited for."""

    state: Checkpoint
    log: list[str]
    is_complete: bool = False

    def wait(self) -> None:
        self.log.append("waited for")

    def protect(self) -> None:
        self.log.append("protect")


class Calls:
    """An object of any methods, which are noted."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: self._log.append(name)


def test_the_next_version_says_that_it_is_there_before_anything_is_made_of_the_one_behind_it() -> None:
    log: list[str] = []

    def start(state: Checkpoint) -> Late:
        log.append("copied")
        return Late(state, log)

    def ignored(*_: object, **__: object) -> None:
        pass

    anything: Any = SimpleNamespace(
        is_busy=False,
        learning_rates=(0.1,),
        on_commit=ignored,
        add_step=ignored,
        committing=lambda _: nullcontext(),
        start=start,
    )
    areas = [np.frombuffer(mmap.mmap(-1, 64 << 10), np.uint8) for _ in range(2)]
    schedule = Schedule(0, -1, snapshots=1)
    checkpoints = Checkpoints(
        Snapshots(areas), anything, schedule, state=lambda: state(1), notify=log.append, copies=anything
    )
    trace, models = Trace(Path(), Peer(COORDINATOR), on=False), cast(Models, Calls(log))
    record = StepRecord(anything, checkpoints, trace, anything, None, anything, first_step=-1, traffic=Traffic)
    executor = Executor(anything, models, anything, record, anything, anything, anything, log.append, None)
    executor.execute([Commit(0, (), Cursor())])
    assert log[log.index("commit") :] == ["commit", "publish", "update_averages", "copy_early", "copied"]
    log.clear()
    executor.execute([Commit(1, (), Cursor())])
    assert log[log.index("commit") :] == [
        "commit",
        "publish",
        "protect",
        "update_averages",
        "copy_early",
        "waited for",
        "copied",
    ]
