"""A worker's desk: what is begun when, what is reported, and when a new coordinator may hear of it."""

from __future__ import annotations

import pytest

from pool.protocol.messages import Assignment, Outcome, WorkerOrders
from pool.worker.job import NEXT, Job, Stage
from pool.worker.job_queue import Desk

SOUND = (Outcome((0.5,), ("",)),)
UNSOUND = (Outcome((0.5,), ("the loss",)),)


def assignment(batch: int, step: int = 0, attempt: int = 1) -> Assignment:
    return Assignment("train", step, (batch,), 0, attempt)


def begun(desk: Desk, *assignments: Assignment, version: int = 0) -> Job:
    desk.orders(WorkerOrders(version, assignments))
    job = desk.next()
    assert job is not None
    return job


def test_a_batch_is_begun_once_and_only_with_its_own_version() -> None:
    """I3."""
    desk = Desk(1)
    desk.orders(WorkerOrders(3, (assignment(0, step=3), assignment(1, step=4))))
    job = desk.next()
    assert job is not None
    assert job.assignment.batch == 0
    assert desk.next() is None
    assert desk.waits_for_weights
    desk.orders(WorkerOrders(4, (assignment(1, step=4),)))
    job = desk.next()
    assert job is not None
    assert job.assignment.batch == 1


def test_a_batch_is_begun_as_soon_as_its_version_is_known_to_be_complete() -> None:
    desk = Desk(1)
    desk.orders(WorkerOrders(3, (assignment(1, step=4),)))
    for version in (-1, 3):  # -1: nothing is known
        desk.complete(version)
        assert desk.next() is None
    desk.complete(4)
    assert desk.next() is not None
    desk.complete(-1)
    assert desk.version == 4


def test_what_else_than_attempt_and_loss_somebody_waits_for_is_said() -> None:
    desk = Desk(1)
    assert not desk.finish(begun(desk, assignment(0)), SOUND, ())
    assert desk.finish(begun(desk, assignment(1, attempt=2)), SOUND, (3,))
    assert desk.finish(begun(desk, assignment(2, attempt=3)), UNSOUND, ())
    both = assignment(3, attempt=4), assignment(4, attempt=5)
    assert not desk.finish(begun(desk, *both), SOUND, ())
    assert desk.finish(begun(desk, *both), SOUND, ())  # whoever has not heard of the first would not any more


def test_nothing_is_said_of_a_batch_that_the_newest_version_has_in_it() -> None:
    desk = Desk(1)
    desk.orders(WorkerOrders(3, (assignment(0, step=3), assignment(1, step=4, attempt=2))))
    for version in (3, 4):
        desk.complete(version)
        job = desk.next()
        assert job is not None
        assert not desk.finish(job, SOUND, ())


def test_what_is_ordered_twice_is_one_batch() -> None:
    """I5."""
    desk = Desk(1)
    job = begun(desk, assignment(0))
    job.buckets.append(1)
    desk.orders(WorkerOrders(0, (assignment(0),)))
    assert desk.next() is None
    assert [report.buckets for report in desk.reports()] == [(1,)]


def test_a_new_coordinator_hears_nothing_before_the_old_ones_batch_has_ended() -> None:
    """I4: until then the batch's slot is read."""
    desk = Desk(1)
    job = begun(desk, assignment(0), assignment(1, attempt=2))
    assert desk.may_speak
    desk.new_coordinator(2)
    assert not desk.may_speak
    assert desk.next() is None  # nothing more of the old life is begun
    desk.new_coordinator(3)  # nor does it help when that one dies too
    assert not desk.may_speak
    desk.finish(job, SOUND, ())
    assert desk.may_speak
    assert desk.reports() == ()


def test_the_same_assignment_of_a_new_coordinator_is_another_job() -> None:
    """Its version 0 is not the dead one's."""
    desk = Desk(1)
    old = begun(desk, assignment(0))
    desk.new_coordinator(2)
    desk.finish(old, SOUND, ())
    new = begun(desk, assignment(0))
    assert new is not old
    assert new.incarnation != old.incarnation
    assert [report.finished for report in desk.reports()] == [False]


def test_a_batch_that_waits_for_its_weights_is_prepared_once() -> None:
    desk = Desk(1)
    first = begun(desk, assignment(0), assignment(1, step=1, attempt=2))
    desk.finish(first, SOUND, ())
    job = desk.next_to_prepare()
    assert job is not None
    assert job.assignment.batch == 1
    assert not desk.prepared(job)  # nobody waits for that
    assert desk.next_to_prepare() is None
    desk.orders(WorkerOrders(1, (assignment(1, step=1, attempt=2),)))
    assert desk.next() is job


def test_a_new_coordinator_hears_nothing_while_a_batch_is_prepared() -> None:
    """I4: its slot is read."""
    desk = Desk(1)
    desk.orders(WorkerOrders(0, (assignment(1, step=1),)))
    job = desk.next_to_prepare()
    assert job is not None
    desk.new_coordinator(2)
    assert not desk.may_speak
    assert desk.prepared(job)
    assert desk.may_speak


def test_orders_are_settled_when_nothing_is_in_work_that_they_no_longer_have() -> None:
    """I4: the coordinator frees a ring slot by it."""
    desk = Desk(1)
    desk.orders(WorkerOrders(0, (assignment(1, step=1),), 1))
    job = desk.next_to_prepare()
    assert job is not None
    desk.orders(WorkerOrders(0, (assignment(1, step=1), assignment(2, step=1, attempt=2)), 2))
    assert desk.settled == 2
    desk.orders(WorkerOrders(0, (assignment(2, step=1, attempt=2),), 3))
    assert desk.settled == 2
    assert desk.prepared(job)  # which the coordinator waits to hear
    assert desk.settled == 3


def test_orders_that_want_an_answer_get_one_at_once_if_nothing_is_in_work() -> None:
    """Else the ring slot of a batch taken back, finished or never begun, would wait for all to be said again."""
    desk = Desk(1)
    assert not desk.orders(WorkerOrders(0, (assignment(0),), 1))
    assert desk.orders(WorkerOrders(0, (), 2, wants_answer=True))
    desk.orders(WorkerOrders(0, (assignment(1, attempt=2),), 3))
    job = desk.next()
    assert job is not None
    assert not desk.orders(WorkerOrders(0, (), 4, wants_answer=True))  # not yet
    assert desk.finish(job, SOUND, ())


@pytest.mark.parametrize("stage", Stage)
def test_a_job_enters_no_stage_but_those_that_follow(stage: Stage) -> None:
    for other in Stage:
        job = Job(assignment(0), incarnation=1, stage=stage)
        if other in NEXT[stage]:
            job.enter(other)
            assert job.stage is other
        else:
            with pytest.raises(AssertionError, match=f"{other.name} after {stage.name}"):
                job.enter(other)


def test_on_a_device_a_batch_is_on_its_way_while_another_is_computed() -> None:
    desk = Desk(1)
    job = begun(desk, assignment(0), assignment(1, step=1, attempt=2))
    coming = desk.next_to_prepare()
    assert coming is not None
    assert coming.assignment.batch == 1
    assert not desk.prepared(coming)
    desk.finish(job, SOUND, ())
    desk.complete(1)
    assert desk.next() is coming


def test_a_batch_may_be_begun_before_all_of_it_has_come() -> None:
    """What computes it waits for the copy; that it has come says nothing more then."""
    desk = Desk(1)
    desk.orders(WorkerOrders(0, (assignment(1, step=1),)))
    coming = desk.next_to_prepare()
    desk.complete(1)
    job = desk.next()
    assert job is coming
    assert job is not None
    assert not desk.prepared(job)
    assert job.stage is Stage.COMPUTING
    desk.finish(job, SOUND, ())


def test_orders_are_settled_when_a_revoked_batch_has_been_copied() -> None:
    desk = Desk(1)
    desk.orders(WorkerOrders(0, (assignment(1, step=1),), number=1))
    coming = desk.next_to_prepare()
    assert coming is not None
    desk.orders(WorkerOrders(0, (), number=2))
    assert desk.settled == 1
    assert desk.prepared(coming)
    assert desk.settled == 2
