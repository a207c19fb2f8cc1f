"""The coordinator's scheduler, event by event. test_simulation.py has them run whole runs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import pytest

from loader.stream.interface import Cursor
from pool.checkpoint.validations import Validation, Validations
from pool.coordinator.scheduler.actions import (
    Action,
    BadBatch,
    CollectArrays,
    Commit,
    EndRun,
    FinishValidation,
    Notify,
    OrderFeeder,
    OrderWorker,
    Reduce,
    Update,
)
from pool.coordinator.scheduler.rules import Rules
from pool.coordinator.scheduler.scheduler import StepScheduler
from pool.coordinator.scheduler.worker_pool import WorkerPool
from pool.metrics.validation_pass import ValidationPass
from pool.protocol.identity import FEEDER, WORKER, Peer
from pool.protocol.messages import (
    Assignment,
    AssignmentReport,
    FeederReport,
    Outcome,
    StreamReport,
    Times,
    WorkerOrders,
    WorkerReport,
)
from pool.shm.signals import FinishedBatches

START = Cursor(0, 0, 0, 0)


def rules(
    steps: int = 6,
    batches: int = 2,
    buckets: int = 2,
    slots: int = 2,
    validate_every: int = 0,
    buffers: bool = False,
    on_bad_batch: Literal["stop", "skip"] = "skip",
) -> Rules:
    return Rules(
        steps=steps,
        batches_per_step=batches,
        member_of=(0,) * buckets,
        gradient_slots=slots,
        has_buffers=buffers,
        validate_every=validate_every,
        validation=ValidationPass(3, 1),
        on_bad_batch=on_bad_batch,
    )


def computed(assignment: Assignment, loss: float, unsound: str = "") -> WorkerReport:
    """Its one batch, of one bucket."""
    outcome = Outcome((loss,), (unsound,))
    return WorkerReport((AssignmentReport(assignment, (0,), outcomes=(outcome,)),), Times())


def filled(scheduler: StepScheduler, feeder: Peer, count: int) -> None:
    cursors = tuple(Cursor(i, 0, 0, i) for i in range(count + 1))
    scheduler.on_feeder_report(feeder, FeederReport(StreamReport(scheduler.train.generation, 0, cursors), None))


def with_two_workers(rules: Rules, batches: int) -> tuple[StepScheduler, Peer, Peer]:
    """Of a run that begins, with so many batches in the ring."""
    scheduler = StepScheduler(rules, 0, START)
    feeder, first, second = Peer(FEEDER), Peer(WORKER, 0), Peer(WORKER, 1)
    scheduler.on_feeder_joined(feeder)
    scheduler.on_worker_joined(first)
    scheduler.on_worker_joined(second)
    filled(scheduler, feeder, batches)
    return scheduler, first, second


def orders_of(actions: list[Action], peer: Peer) -> WorkerOrders:
    return next(a.orders for a in reversed(actions) if isinstance(a, OrderWorker) and a.peer == peer)


def reductions_of(actions: list[Action]) -> list[Reduce]:
    """Those that go along with an update included."""
    found = [action.reduction if isinstance(action, Update) else action for action in actions]
    return [reduction for reduction in found if isinstance(reduction, Reduce)]


def test_a_worker_gets_two_batches_at_most_and_none_beyond_the_next_step() -> None:
    scheduler = StepScheduler(rules(batches=1, slots=4), 0, START)
    feeder, worker = Peer(FEEDER), Peer(WORKER)
    scheduler.on_feeder_joined(feeder)
    filled(scheduler, feeder, 8)
    actions = scheduler.on_worker_joined(worker)
    assert [a.batch for a in orders_of(actions, worker).assignments] == [0, 1]


def test_a_finished_batch_is_known_by_its_attempt_and_counts_once() -> None:
    scheduler, first, second = with_two_workers(rules(steps=1, batches=2, buckets=1), 3)
    (one,), (other,) = (orders_of(scheduler.resend_orders(), worker).assignments for worker in (first, second))
    stranger = Peer(WORKER, 0, 2)
    for peer, attempt in ((first, other.attempt), (first, 0), (stranger, one.attempt)):
        assert scheduler.on_finished({peer: FinishedBatches(attempt, (0.5,), Times())}) == []
    assert scheduler.on_finished({first: FinishedBatches(one.attempt, (0.5,), Times())}) == []
    late = WorkerReport((AssignmentReport(one, (0,)),), Times())
    assert scheduler.on_worker_report(first, late) == []  # it was sent before the batch was finished
    news = {
        first: FinishedBatches(one.attempt, (0.5,), Times()),
        second: FinishedBatches(other.attempt, (1.5,), Times()),
    }
    commits = [action for action in scheduler.on_finished(news) if isinstance(action, Commit)]
    assert [commit.losses for commit in commits] == [((0.5, 1.5),)]


def test_who_has_finished_is_told_so_with_the_next_orders_only() -> None:
    """Till then it repeats what is known, once in half a second."""
    scheduler, first, second = with_two_workers(rules(batches=2, buckets=1, slots=4), 8)
    orders = {worker: orders_of(scheduler.resend_orders(), worker) for worker in (first, second)}
    assert scheduler.on_finished({first: FinishedBatches(orders[first].assignments[0].attempt, (0.5,), Times())}) == []
    actions = scheduler.on_finished({second: FinishedBatches(orders[second].assignments[0].attempt, (0.5,), Times())})
    for worker in (first, second):
        told = orders_of(actions, worker)
        assert told.version == 1
        assert [a.step for a in told.assignments] == [1, 2]


def test_what_a_dead_worker_finished_is_kept_and_what_it_had_begun_is_given_away() -> None:
    scheduler, first, second = with_two_workers(rules(steps=1, batches=2, buckets=1), 3)
    done = orders_of(scheduler.resend_orders(), first).assignments[0]
    scheduler.on_worker_report(first, computed(done, 0.5))
    assert scheduler.on_worker_lost(first) == []  # batch 0 stays where it lies, batch 1 is the other's
    lost = scheduler.on_worker_lost(second)
    assert lost == []
    back = Peer(WORKER, 1, 2)
    actions = scheduler.on_worker_joined(back)
    again = orders_of(actions, back).assignments
    assert [a.batch for a in again] == [1]
    actions = scheduler.on_worker_report(back, computed(again[0], 1.5))
    reductions = reductions_of(actions)
    assert [each.batches for each in reductions[0].contributions] == [(0,), (1,)]
    assert [each.group_index for each in reductions[0].contributions] == [0, 1]
    assert [each.worker for each in reductions[0].contributions] == [0, 1]
    assert [a.losses for a in actions if isinstance(a, Commit)] == [((0.5, 1.5),)]


def test_a_batch_that_a_dead_worker_had_goes_before_what_the_others_have_finished_behind_it() -> None:
    """No successor comes: the other's last gradients are given up, and computed again with the same bits."""
    scheduler, first, second = with_two_workers(rules(steps=1, batches=4, buckets=1), 5)
    (_, two), (one, three) = (orders_of(scheduler.resend_orders(), worker).assignments for worker in (first, second))
    assert (one.batch, two.batch, three.batch) == (1, 2, 3)
    for assignment in (one, three):
        assert reductions_of(scheduler.on_worker_report(second, computed(assignment, 0.5))) == []
    assert [a.batch for a in orders_of(scheduler.on_worker_lost(first), second).assignments] == [0]
    done: list[Reduce] = []
    commits: list[Commit] = []
    for batch in (0, 2, 3):
        told = orders_of(scheduler.resend_orders(), second).assignments
        assert told[0].batch == batch
        actions = scheduler.on_worker_report(second, computed(told[0], float(batch)))
        done += reductions_of(actions)
        commits += [action for action in actions if isinstance(action, Commit)]
    assert [batch for reduction in done for each in reduction.contributions for batch in each.batches] == [0, 1, 2, 3]
    assert [commit.losses for commit in commits] == [((0.0, 0.5, 2.0, 3.0),)]


def test_draining_finishes_the_step_that_was_begun_and_begins_no_other() -> None:
    scheduler = StepScheduler(rules(steps=9, batches=1, buckets=1), 0, START)
    feeder, worker = Peer(FEEDER), Peer(WORKER)
    scheduler.on_feeder_joined(feeder)
    scheduler.on_worker_joined(worker)
    filled(scheduler, feeder, 5)
    assignment = orders_of(scheduler.resend_orders(), worker).assignments[0]
    assert EndRun() not in scheduler.drain()
    actions = scheduler.on_worker_report(worker, computed(assignment, 1.0))
    assert any(isinstance(a, Commit) for a in actions)
    assert EndRun() in actions
    assert scheduler.step == 1


def test_draining_before_the_first_batch_ends_at_once() -> None:
    scheduler = StepScheduler(rules(), 0, START)
    assert scheduler.drain() == [EndRun()]


def ordered_feeder(actions: list[Action]) -> bool:
    return any(isinstance(action, OrderFeeder) for action in actions)


def test_the_first_coordinator_orders_the_feeder_at_once() -> None:
    scheduler = StepScheduler(rules(), 0, START)
    assert not ordered_feeder(scheduler.on_roster({Peer(WORKER, 0), Peer(WORKER, 1)}))
    assert ordered_feeder(scheduler.on_feeder_joined(Peer(FEEDER)))


def test_a_successor_orders_the_feeder_nothing_before_every_worker_has_spoken_or_is_dead() -> None:
    """I4: who has not spoken may still read a ring slot for the dead coordinator."""
    scheduler = StepScheduler(rules(), 0, START, incarnation=2)
    first, second, third = (Peer(WORKER, index) for index in range(3))
    assert not ordered_feeder(scheduler.on_feeder_joined(Peer(FEEDER)))  # before it knows whom to wait for
    assert not ordered_feeder(scheduler.on_roster({first, second, third}))
    assert not ordered_feeder(scheduler.on_worker_joined(second))
    assert not ordered_feeder(scheduler.on_worker_joined(first))
    assert not ordered_feeder(scheduler.resend_orders())
    assert not ordered_feeder(scheduler.on_worker_lost(second))
    assert ordered_feeder(scheduler.on_roster({first}))  # the third is dead and never spoke
    assert not ordered_feeder(
        scheduler.on_roster({first, Peer(WORKER, 1, 2)})
    )  # said already; a new life holds nothing old


def test_attempts_of_an_earlier_coordinator_are_nobodys_now() -> None:
    """A worker that dies of the old life's batch is not put down to one that it was given since."""
    feeder, worker = Peer(FEEDER), Peer(WORKER)
    of_lives = []
    for incarnation in (1, 2):
        scheduler = StepScheduler(rules(), 0, START, incarnation=incarnation)
        scheduler.on_roster(set())
        scheduler.on_feeder_joined(feeder)
        filled(scheduler, feeder, 1)
        of_lives.append({a.attempt for a in orders_of(scheduler.on_worker_joined(worker), worker).assignments})
    assert all(of_lives)
    assert of_lives[0].isdisjoint(of_lives[1])


def finished(scheduler: StepScheduler, peer: Peer, batch: int, unsound: str = "") -> list[Action]:
    assignment = next(a for a in orders_of(scheduler.resend_orders(), peer).assignments if a.batch == batch)
    return scheduler.on_worker_report(
        peer,
        computed(assignment, float(batch), unsound),
    )


def held(scheduler: StepScheduler, peer: Peer) -> list[int]:
    return [a.batch for a in orders_of(scheduler.resend_orders(), peer).assignments]


def test_batches_to_be_computed_again_come_before_those_of_the_next_step() -> None:
    """Else these keep the places that those need, and wait for a step that can't end."""
    scheduler = StepScheduler(rules(batches=5, buckets=1, slots=3), 0, START)
    feeder, first, second = Peer(FEEDER), Peer(WORKER, 0), Peer(WORKER, 1)
    scheduler.on_feeder_joined(feeder)
    scheduler.on_worker_joined(first)
    filled(scheduler, feeder, 10)
    for batch in range(3):
        finished(scheduler, first, batch)
    assert held(scheduler, first) == [3, 4]  # 0 and 1 are in the sum, and their slots were needed
    scheduler.on_worker_joined(second)
    assert held(scheduler, second) == [5, 6]
    actions = finished(scheduler, first, 3, "the loss")
    assert [a.batch for a in actions if isinstance(a, BadBatch)] == [3]
    assert {*held(scheduler, first), *held(scheduler, second)} >= {0, 1, 4}
    actions = []
    for peer in (first, second):
        for batch in [batch for batch in held(scheduler, peer) if batch < 5]:
            actions += finished(scheduler, peer, batch)
    assert [a.losses for a in actions if isinstance(a, Commit)] == [((0.0, 1.0, 2.0, 4.0),)]


@pytest.mark.parametrize(("on_bad_batch", "at_once"), [("stop", True), ("skip", False)])
def test_a_bucket_is_stepped_before_the_batch_ends_only_if_no_batch_can_be_left_out(
    on_bad_batch: Literal["stop", "skip"], at_once: bool
) -> None:
    scheduler = StepScheduler(rules(batches=1, on_bad_batch=on_bad_batch), 0, START)
    feeder, worker = Peer(FEEDER), Peer(WORKER)
    scheduler.on_feeder_joined(feeder)
    scheduler.on_worker_joined(worker)
    filled(scheduler, feeder, 1)
    assignment = orders_of(scheduler.resend_orders(), worker).assignments[0]
    report = AssignmentReport(assignment, (0,))
    actions = scheduler.on_worker_report(worker, WorkerReport((report,), Times()))
    assert [reduction.bucket for reduction in reductions_of(actions)] == [0]
    assert [a.bucket for a in actions if isinstance(a, Update)] == ([0] if at_once else [])
    actions = finished(scheduler, worker, 0)
    assert [reduction.bucket for reduction in reductions_of(actions)] == [1]
    assert [a.bucket for a in actions if isinstance(a, Update)] == ([1] if at_once else [0, 1])
    assert [a.step for a in actions if isinstance(a, Commit)] == [0]


def test_a_batch_that_ends_the_run_ends_its_step_too() -> None:
    scheduler = StepScheduler(rules(batches=1, on_bad_batch="stop"), 0, START)
    feeder, worker = Peer(FEEDER), Peer(WORKER)
    scheduler.on_feeder_joined(feeder)
    scheduler.on_worker_joined(worker)
    filled(scheduler, feeder, 2)
    actions = finished(scheduler, worker, 0, "the loss")
    assert [a.is_fatal for a in actions if isinstance(a, BadBatch)] == [True]
    assert not [a for a in actions if isinstance(a, Commit | Reduce | Update)]


def test_a_batch_that_was_taken_back_keeps_its_ring_slot_until_its_worker_has_let_go() -> None:
    """I4: the worker may be preparing it, which reads the slot."""
    crew = WorkerPool(2, successor=False)
    peer = Peer(WORKER)
    crew.add(peer)
    worker = crew.find(peer)
    assert worker is not None
    assignment = Assignment("train", 1, (2,), 0, 7)
    crew.assign(worker, assignment)
    (first,) = crew.pop_changed_orders(0)
    assert (first.orders.number, first.orders.needs_report) == (1, False)
    crew.take_back(0, assignment)
    assert crew.first_batch_in_use(10) == 2
    (second,) = crew.pop_changed_orders(0)
    assert (second.orders.number, second.orders.needs_report) == (2, True)
    crew.confirm_revoked(worker, 1)
    crew.resend_orders()
    assert [action.orders.needs_report for action in crew.pop_changed_orders(0)] == [True]
    assert crew.first_batch_in_use(10) == 2
    crew.confirm_revoked(worker, 2)
    crew.resend_orders()
    assert [action.orders.needs_report for action in crew.pop_changed_orders(0)] == [False]
    assert crew.first_batch_in_use(10) == 10


def test_a_batch_that_kills_who_prepares_it_is_left_out_when_its_step_comes() -> None:
    scheduler = StepScheduler(rules(batches=1, buckets=1), 0, START)
    feeder = Peer(FEEDER)
    alive = {index: Peer(WORKER, index) for index in range(2)}
    scheduler.on_feeder_joined(feeder)
    for peer in alive.values():
        scheduler.on_worker_joined(peer)
    filled(scheduler, feeder, 4)
    for _ in range(3):
        actions = scheduler.resend_orders()
        peer, attempt = next(
            (peer, a.attempt) for peer in alive.values() for a in orders_of(actions, peer).assignments if a.batch == 1
        )
        assert not [a for a in scheduler.on_worker_lost(peer, attempt, 1) if isinstance(a, BadBatch)]
        alive[peer.index] = Peer(WORKER, peer.index, peer.incarnation + 1)
        scheduler.on_worker_joined(alive[peer.index])
    holder = next(peer for peer in alive.values() if 0 in held(scheduler, peer))
    assert not any(1 in held(scheduler, peer) for peer in alive.values())
    actions = finished(scheduler, holder, 0)
    assert [(a.step, a.batch) for a in actions if isinstance(a, BadBatch)] == [(1, 1)]


def validate(scheduler: StepScheduler, worker: Peer) -> list[Action]:
    """The worker computes the three batches of a validation, one after the other; what came of it."""
    feeder, actions = Peer(FEEDER), []
    assert scheduler.validation is not None
    cursors = tuple(Cursor(i, 0, 0, i) for i in range(4))
    report = StreamReport(scheduler.validation.ring.generation, 0, cursors)
    actions += scheduler.on_feeder_report(feeder, FeederReport(None, report))
    for batch in range(3):
        assignments = orders_of(scheduler.resend_orders(), worker).assignments
        (assignment,) = [each for each in assignments if each.purpose == "validate" and each.batch == batch]
        actions += scheduler.on_finished({worker: FinishedBatches(assignment.attempt, (float(batch),), Times())})
    return actions


@pytest.mark.parametrize("stop", [False, True])
def test_the_step_after_a_validation_waits_for_what_follows_from_its_result(stop: bool) -> None:
    of_run = replace(rules(batches=1, buckets=1, validate_every=1), collects=True, early_stopping=1)
    scheduler = StepScheduler(of_run, 1, Cursor(1, 0, 0, 1))
    feeder, worker = Peer(FEEDER), Peer(WORKER)
    scheduler.on_feeder_joined(feeder)
    scheduler.on_worker_joined(worker)
    filled(scheduler, feeder, 3)
    actions = validate(scheduler, worker)
    assert [a for a in actions if isinstance(a, CollectArrays)] == [CollectArrays(batch, 0) for batch in range(3)]
    assert [a for a in actions if isinstance(a, FinishValidation)] == [FinishValidation(1, (1.0,))]
    assert not orders_of(scheduler.resend_orders(), worker).assignments
    actions = scheduler.on_validation([Validation(1, math.nan if stop else 1.0)])
    told = "stopped early at step 1: loss was finite in none of 1 validation (train.early_stopping = 1)"
    assert ([EndRun(), Notify(told)] == [a for a in reversed(actions) if isinstance(a, EndRun | Notify)]) == stop
    assert bool(orders_of(scheduler.resend_orders(), worker).assignments) != stop


def test_a_run_that_has_stopped_early_ends_without_a_step() -> None:
    best = Validation(2, 1.0)
    known = Validations(Validation(4, 2.0), best, best, since=1)
    of_run = replace(rules(validate_every=2), early_stopping=1)
    scheduler = StepScheduler(of_run, 4, Cursor(8, 0, 0, 8), incarnation=2, validations=known)
    assert [type(action) for action in scheduler.start()] == [Notify]
    actions = scheduler.on_worker_joined(Peer(WORKER))
    assert EndRun() in actions
    assert not orders_of(scheduler.resend_orders(), Peer(WORKER)).assignments
