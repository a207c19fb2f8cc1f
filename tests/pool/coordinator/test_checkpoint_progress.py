"""What is saved while a checkpoint is under way, in any order of events: versions, copies and writes that end (I9)."""

from __future__ import annotations

import mmap
import time
from dataclasses import dataclass
from itertools import product
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pool.checkpoint.schedule import FIRST_PAUSE, Schedule
from pool.checkpoint.snapshot import read_snapshot
from pool.checkpoint.store import Checkpoint
from pool.checkpoint.validations import Validation
from pool.checkpoint.writer import CheckpointWriter
from pool.coordinator.checkpoint_progress import NEXT, CheckpointProgress, Choice, Reason, Stage
from pool.coordinator.checkpoints import Checkpoints
from pool.coordinator.snapshots import Snapshots
from tests.pool.checkpoint.test_best_checkpoint import SlowWriter, state

REASONS = (Reason.SCHEDULE, Reason.BEST, Reason.NET, Reason.MACHINES, Reason.FINAL)


def in_stage(stage: Stage, reason: Reason) -> CheckpointProgress:
    progress = CheckpointProgress()
    if stage is not Stage.IDLE:
        progress.start_copy(reason)
    if stage in (Stage.WRITING, Stage.WRITING_FIRST):
        progress.start_write()
    if stage is Stage.WRITING_FIRST:
        progress.keep_waiting()
    return progress


@pytest.mark.parametrize(("stage", "under_way", "reason"), [*product(Stage, REASONS, REASONS)])
def test_each_choice_leads_to_a_stage_of_the_table(stage: Stage, under_way: Reason, reason: Reason) -> None:
    progress = in_stage(stage, under_way)
    if progress.must_wait(reason):
        return
    match progress.choose(reason, snapshot=True):
        case Choice.WRITE:
            assert Stage.COPYING in NEXT[progress.stage]
        case Choice.KEEP:
            assert stage is not Stage.IDLE
            assert under_way is not Reason.NET, "no version is copied before the checkpoint of a net is on the disk"
            if stage is Stage.COPYING:  # that copy ends before the next one begins
                progress.start_write()
            assert Stage.WRITING_FIRST in NEXT[progress.stage]
        case Choice.SNAPSHOT:
            assert stage in (Stage.COPYING, Stage.WRITING), "an area is free"
            assert under_way is not Reason.NET
        case Choice.NOTHING:
            assert reason is not Reason.BEST, "one that is better is never passed by"
            assert stage is Stage.WRITING_FIRST or under_way is Reason.NET


def test_what_waited_is_made_for_a_reason_of_its_own() -> None:
    progress = in_stage(Stage.WRITING_FIRST, Reason.SCHEDULE)
    assert progress.end_write() is Reason.SCHEDULE
    assert (progress.stage, progress.reason) == (Stage.WRITING, Reason.BEST)
    assert progress.end_write() is Reason.BEST
    assert (progress.stage, progress.reason) == (Stage.IDLE, None)


@pytest.mark.parametrize("stage", [Stage.COPYING, Stage.WRITING, Stage.WRITING_FIRST])
def test_two_checkpoints_are_not_begun_at_once(stage: Stage) -> None:
    with pytest.raises(AssertionError, match=f"COPYING after {stage.name}"):
        in_stage(stage, Reason.SCHEDULE).start_copy(Reason.SCHEDULE)


@dataclass
class Copy:
    """A StateCopy that arrives when its test says so, or when it is waited for. Its memory is that of the next one."""

    state: Checkpoint
    is_complete: bool = False

    def wait(self) -> None:
        self.is_complete = True

    def protect(self) -> None:
        pass


class Device:
    """Copies from a device: the one before has been read when the next one begins."""

    def __init__(self) -> None:
        self.newest: Copy | None = None

    def start(self, state: Checkpoint) -> Copy:
        if self.newest is not None:
            assert self.newest.is_complete, "it was not read yet"
        self.newest = Copy(state)
        return self.newest


EVERY, NETS = 3, 7
EVENTS = ("step", "better", "worse", "copied", "written", "failed", "pause")


class Run:
    """Checkpoints with a device, a disk and a clock that do what the events say."""

    def __init__(self, nets: int) -> None:
        self.now = 0.0
        self.step = 0
        self.best: Validation | None = None
        self.areas = [np.frombuffer(mmap.mmap(-1, 64 << 10), np.uint8) for _ in range(2)]
        self.writer = SlowWriter()
        self.device = Device()
        self.nets = nets
        self.checkpoints = Checkpoints(
            Snapshots(self.areas),
            cast(CheckpointWriter, self.writer),
            Schedule(EVERY, -1, nets=nets, snapshots=1),
            state=lambda: state(self.step),
            notify=lambda _: None,
            copies=self.device,
        )
        self.checkpoints.while_waiting = self.write

    def happen(self, event: str) -> None:
        match event:
            case "step" | "better" | "worse":
                self.advance(event)
            case "copied":
                if self.device.newest is not None:
                    self.device.newest.is_complete = True
            case "written":
                self.write()
            case "failed":
                self.write("No space left on device")
            case "pause":
                self.now += FIRST_PAUSE
        self.checkpoints.handle_ended()

    def advance(self, event: str) -> None:
        self.step += 1
        self.checkpoints.on_next_version()
        self.checkpoints.on_commit(self.step, validated_next=event != "step")
        if event == "step":
            return
        lowest = 100.0 if self.best is None else self.best.loss
        newest = Validation(self.step, lowest - 1 if event == "better" else lowest + 1)
        if self.best is None or event == "better":
            self.best = newest
        self.checkpoints.on_validation(self.checkpoints.validations.with_results([newest]))

    def write(self, problem: str | None = None) -> None:
        """Ends the write that is under way; its memory must be as it was when that began."""
        if self.writer.is_busy:
            self.writer.end(problem)

    def snapshots(self) -> list[int]:
        found = [read_snapshot(area) for area in self.areas]
        return [snapshot.step for snapshot in found if snapshot is not None]


@given(events=st.lists(st.sampled_from(EVENTS), max_size=60), nets=st.sampled_from([0, NETS]))
def test_in_any_order_of_events_nothing_is_overwritten_and_all_that_must_be_is_written(
    events: list[str], nets: int
) -> None:
    run = Run(nets)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: run.now)
        for event in events:
            run.happen(event)
            net = run.step - run.step % NETS if nets else 0
            if net and run.writer.is_busy and run.writer.begun[-1] == net:
                assert max(run.snapshots()) == net, "a successor of this coordinator comes by the net again"
        while not run.checkpoints.finish(run.step):
            run.now += FIRST_PAUSE
            run.write()
            run.checkpoints.handle_ended()
    assert run.writer.written[-1] == run.step
    assert run.checkpoints.saved_step == run.step
    assert run.writer.begun == sorted(run.writer.begun)
    if nets:
        assert set(range(nets, run.step + 1, nets)) <= set(run.writer.begun)
    if "failed" not in events and run.best is not None:
        assert run.checkpoints.best_on_disk == run.best
        assert run.best.step in run.writer.written


def test_the_copy_that_is_written_has_the_numbers_of_its_step() -> None:
    run = Run(0)
    for event in ("better", "copied", "step", "better", "copied", "step", "step"):
        run.happen(event)
    assert run.writer.in_work is not None
    assert torch.equal(run.writer.in_work.weights["w"], state(1).weights["w"])
    run.happen("written")
    assert run.writer.begun == [1, 3]
