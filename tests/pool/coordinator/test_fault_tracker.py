"""Which batches can't be computed, and when the run gives up: the scheduler, told of workers' ends."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from loader.stream.interface import Cursor
from pool.coordinator.scheduler.actions import AbortRun, Action, BadBatch, Commit, CopyBuffers, OrderWorker
from pool.coordinator.scheduler.fault_tracker import MAX_UNUSABLE_BATCHES, FaultTracker
from pool.coordinator.scheduler.rules import Rules
from pool.coordinator.scheduler.scheduler import StepScheduler
from pool.metrics.validation_pass import ValidationPass
from pool.protocol.blame import MAX_DEATHS, MAX_EXCEPTIONS, DeathInBatch
from pool.protocol.identity import FEEDER, WORKER, Peer
from pool.protocol.messages import (
    Assignment,
    AssignmentReport,
    FeederReport,
    Outcome,
    StreamReport,
    Times,
    WorkerReport,
)

WHY = "ValueError: bad (task.py:3, in loss)"


class OneWorker:
    """StepScheduler of a run with one worker, who takes what is assigned in order and ends as it is told."""

    def __init__(self, rules: Rules, batches: int = 100, *, deaths: Sequence[DeathInBatch] = ()) -> None:
        self.scheduler = StepScheduler(rules, 0, Cursor(0, 0, 0, 0), deaths=deaths)
        assert not self.scheduler.start()
        self._peer = Peer(WORKER)
        self._assigned: tuple[Assignment, ...] = ()
        self.left_out: list[tuple[int, bool]] = []  # as soon as the ring is filled
        self.scheduler.on_feeder_joined(Peer(FEEDER))
        cursors = tuple(Cursor(i, 0, 0, i) for i in range(batches + 1))
        train = StreamReport(self.scheduler.train.generation, 0, cursors)
        validation = self.scheduler.validation
        of_validation = None if validation is None else StreamReport(validation.ring.generation, 0, cursors[:4])
        actions = self._take(self.scheduler.on_feeder_report(Peer(FEEDER), FeederReport(train, of_validation)))
        self.left_out += [(action.batch, action.is_fatal) for action in bad(actions)]
        self._take(self.scheduler.on_worker_joined(self._peer))

    def _take(self, actions: Sequence[Action]) -> Sequence[Action]:
        for action in actions:
            if isinstance(action, OrderWorker):
                self._assigned = action.orders.assignments
        return actions

    @property
    def next(self) -> Assignment:
        return self._assigned[0]

    def raises(self, why: str = WHY) -> Sequence[Action]:
        """In the first batch that it has; and is back in its next life."""
        actions = self._take(self.scheduler.on_worker_lost(self._peer, self.next.attempt, self.next.batch, why))
        self._peer = Peer(WORKER, 0, self._peer.incarnation + 1)
        return [*actions, *self._take(self.scheduler.on_worker_joined(self._peer))]

    def finishes(self) -> Sequence[Action]:
        report = WorkerReport((AssignmentReport(self.next, (), outcomes=(Outcome((0.5,), ("",)),)),), Times())
        return self._take(self.scheduler.on_worker_report(self._peer, report))


def rules(batches: int, *, stop: bool = False, validate_every: int = 0) -> Rules:
    return Rules(20, batches, (0,), 2, False, validate_every, ValidationPass(3, 1), "stop" if stop else "skip")


def bad(actions: Sequence[Action]) -> list[BadBatch]:
    return [action for action in actions if isinstance(action, BadBatch)]


def test_a_batch_is_bad_that_raises_in_a_second_life_or_that_three_die_of() -> None:
    blame = FaultTracker((0,))
    for number in range(MAX_DEATHS):
        assert not blame.reason_unusable("train", 4, 9)
        blame.add_death(DeathInBatch("train", 4, 9, WHY if number == 0 else ""))
    assert not blame.reason_unusable("train", 4, 9), "two deaths and one exception"
    blame.add_death(DeathInBatch("train", 4, 9, "KeyError: other"))
    assert blame.reason_unusable("train", 4, 9) == "it failed 2 times, in different processes: KeyError: other"
    assert not blame.reason_unusable("validate", 4, 9)
    assert not blame.reason_unusable("train", 4, 8)
    blame.end_step(4, (0,))
    assert not blame.reason_unusable("train", 4, 9), "forgotten with its step"


@pytest.mark.parametrize("stop", [True, False])
def test_a_batch_that_raises_is_tried_once_more_by_another_life(stop: bool) -> None:
    worker = OneWorker(rules(2, stop=stop))
    assert worker.next.batch == 0
    assert not bad(worker.raises())
    assert worker.next.batch == 0
    (action,) = bad(worker.raises())
    assert (action.batch, action.is_fatal) == (0, stop)
    assert WHY in action.reason


@pytest.mark.parametrize("stop", [True, False])
def test_what_a_dead_coordinator_knew_counts_on(stop: bool) -> None:
    """Of a worker in its process: neither could see the other's death."""
    first = DeathInBatch("train", 0, 0, WHY)
    worker = OneWorker(rules(2, stop=stop), deaths=[first])
    assert worker.next.batch == 0
    (action,) = bad(worker.raises())
    assert (action.batch, action.is_fatal) == (0, stop)
    later = OneWorker(rules(2, stop=stop), deaths=[first, first])
    assert later.left_out == [(0, stop)]


def test_a_validation_batch_that_raised_in_two_lives_of_the_coordinator_ends_the_run() -> None:
    deaths = [DeathInBatch("validate", 4, 1, WHY)] * MAX_EXCEPTIONS
    scheduler = StepScheduler(rules(1, validate_every=4), 0, Cursor(0, 0, 0, 0), deaths=deaths)
    (action,) = scheduler.start()
    assert isinstance(action, AbortRun)
    assert action.reason.startswith("validation batch 1 of version 4: it failed 2 times")


def test_an_exception_that_does_not_come_again_changes_nothing() -> None:
    worker = OneWorker(rules(1))
    worker.raises()
    (commit,) = [action for action in worker.finishes() if isinstance(action, Commit)]
    assert commit.losses == ((0.5,),)
    worker.raises()
    assert not bad(worker.finishes())


@pytest.mark.parametrize("batches", [1, 2, 3, 16])
def test_if_every_batch_raises_the_run_gives_up_instead_of_leaving_all_out(batches: int) -> None:
    worker = OneWorker(rules(batches))
    left_out: list[BadBatch] = []
    while not any(action.is_fatal for action in left_out):
        for _ in range(MAX_EXCEPTIONS):
            found = worker.raises()
        left_out += bad(found)
        assert len(left_out) <= MAX_UNUSABLE_BATCHES + batches
    assert len(left_out) == batches * -(-MAX_UNUSABLE_BATCHES // batches), (
        "whole steps, so that timing has no say in it"
    )
    assert "no batch of the last steps could be used" in left_out[-1].reason


def test_a_batch_that_can_be_used_now_and_then_keeps_the_run_going() -> None:
    worker = OneWorker(rules(2))
    for _ in range(2 * MAX_UNUSABLE_BATCHES):
        for _ in range(MAX_EXCEPTIONS):
            found = worker.raises()
        assert [action.is_fatal for action in bad(found)] == [False]
        worker.finishes()


def test_a_step_whose_first_batch_is_left_out_late_keeps_the_old_buffers() -> None:
    """They were taken when it was computed for the first time; with one slot its gradients had to be computed again."""
    rules = Rules(20, 2, (0,), 1, True, 0, ValidationPass(3, 1), "skip")
    worker = OneWorker(rules)
    taken = [action for action in worker.finishes() if isinstance(action, CopyBuffers)]
    assert [action.source is not None for action in taken] == [True]
    for _ in range(MAX_EXCEPTIONS):
        worker.raises()  # batch 1: the sums begin anew, and batch 0 is no longer in its slot
    assert worker.next.batch == 0
    found = [action for _ in range(MAX_EXCEPTIONS) for action in worker.raises()]
    assert [action.batch for action in bad(found)] == [0]
    assert [action.source for action in found if isinstance(action, CopyBuffers)] == [None]


def test_a_validation_batch_that_raises_twice_ends_the_run_for_it_can_not_be_left_out() -> None:
    worker = OneWorker(rules(2, validate_every=1))
    assert worker.next.purpose == "validate"
    assert not [action for action in worker.raises() if isinstance(action, AbortRun)]
    (action,) = [action for action in worker.raises() if isinstance(action, AbortRun)]
    assert action.reason == f"validation batch 0 of version 0: it failed 2 times, in different processes: {WHY}"
