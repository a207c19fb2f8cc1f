"""A worker's queue: what is begun when, what is reported, and when a new coordinator may hear of it."""

from __future__ import annotations

import pytest

from pool.protocol.messages import Assignment, Outcome, WorkerOrders
from pool.worker.job import NEXT_STAGES, Job, Stage
from pool.worker.job_queue import JobQueue

SOUND = (Outcome((0.5,), ("",)),)
UNSOUND = (Outcome((0.5,), ("the loss",)),)


def assignment(batch: int, step: int = 0, attempt: int = 1) -> Assignment:
    return Assignment("train", step, (batch,), 0, attempt)


def begun(queue: JobQueue, *assignments: Assignment, version: int = 0) -> Job:
    queue.accept_orders(WorkerOrders(version, assignments))
    job = queue.start_next()
    assert job is not None
    return job


def test_a_batch_is_begun_once_and_only_with_its_own_version() -> None:
    """I3."""
    queue = JobQueue(1)
    queue.accept_orders(WorkerOrders(3, (assignment(0, step=3), assignment(1, step=4))))
    job = queue.start_next()
    assert job is not None
    assert job.assignment.batch == 0
    assert queue.start_next() is None
    assert queue.waits_for_weights
    queue.accept_orders(WorkerOrders(4, (assignment(1, step=4),)))
    job = queue.start_next()
    assert job is not None
    assert job.assignment.batch == 1


def test_a_batch_is_begun_as_soon_as_its_version_is_known_to_be_complete() -> None:
    queue = JobQueue(1)
    queue.accept_orders(WorkerOrders(3, (assignment(1, step=4),)))
    for version in (-1, 3):  # -1: nothing is known
        queue.update_version(version)
        assert queue.start_next() is None
    queue.update_version(4)
    assert queue.start_next() is not None
    queue.update_version(-1)
    assert queue.version == 4


def test_what_else_than_attempt_and_loss_somebody_waits_for_is_said() -> None:
    queue = JobQueue(1)
    assert not queue.finish(begun(queue, assignment(0)), SOUND, ())
    assert queue.finish(begun(queue, assignment(1, attempt=2)), SOUND, (3,))
    assert queue.finish(begun(queue, assignment(2, attempt=3)), UNSOUND, ())
    both = assignment(3, attempt=4), assignment(4, attempt=5)
    assert not queue.finish(begun(queue, *both), SOUND, ())
    assert queue.finish(begun(queue, *both), SOUND, ())  # whoever has not heard of the first would not any more


def test_nothing_is_said_of_a_batch_that_the_newest_version_has_in_it() -> None:
    queue = JobQueue(1)
    queue.accept_orders(WorkerOrders(3, (assignment(0, step=3), assignment(1, step=4, attempt=2))))
    for version in (3, 4):
        queue.update_version(version)
        job = queue.start_next()
        assert job is not None
        assert not queue.finish(job, SOUND, ())


def test_what_is_ordered_twice_is_one_batch() -> None:
    """I5."""
    queue = JobQueue(1)
    job = begun(queue, assignment(0))
    job.buckets.append(1)
    queue.accept_orders(WorkerOrders(0, (assignment(0),)))
    assert queue.start_next() is None
    assert [report.buckets for report in queue.reports()] == [(1,)]


def test_a_new_coordinator_hears_nothing_before_the_old_ones_batch_has_ended() -> None:
    """I4: until then the batch's slot is read."""
    queue = JobQueue(1)
    job = begun(queue, assignment(0), assignment(1, attempt=2))
    assert queue.can_report
    queue.replace_coordinator(2)
    assert not queue.can_report
    assert queue.start_next() is None  # nothing more of the old life is begun
    queue.replace_coordinator(3)  # nor does it help when that one dies too
    assert not queue.can_report
    queue.finish(job, SOUND, ())
    assert queue.can_report
    assert queue.reports() == ()


def test_the_same_assignment_of_a_new_coordinator_is_another_job() -> None:
    """Its version 0 is not the dead one's."""
    queue = JobQueue(1)
    old = begun(queue, assignment(0))
    queue.replace_coordinator(2)
    queue.finish(old, SOUND, ())
    new = begun(queue, assignment(0))
    assert new is not old
    assert new.incarnation != old.incarnation
    assert [report.finished for report in queue.reports()] == [False]


def test_a_batch_that_waits_for_its_weights_is_prepared_once() -> None:
    queue = JobQueue(1)
    first = begun(queue, assignment(0), assignment(1, step=1, attempt=2))
    queue.finish(first, SOUND, ())
    job = queue.start_preparing_next()
    assert job is not None
    assert job.assignment.batch == 1
    assert not queue.finish_preparing(job)  # nobody waits for that
    assert queue.start_preparing_next() is None
    queue.accept_orders(WorkerOrders(1, (assignment(1, step=1, attempt=2),)))
    assert queue.start_next() is job


def test_a_new_coordinator_hears_nothing_while_a_batch_is_prepared() -> None:
    """I4: its slot is read."""
    queue = JobQueue(1)
    queue.accept_orders(WorkerOrders(0, (assignment(1, step=1),)))
    job = queue.start_preparing_next()
    assert job is not None
    queue.replace_coordinator(2)
    assert not queue.can_report
    assert queue.finish_preparing(job)
    assert queue.can_report


def test_orders_are_settled_when_nothing_is_in_work_that_they_no_longer_have() -> None:
    """I4: the coordinator frees a ring slot by it."""
    queue = JobQueue(1)
    queue.accept_orders(WorkerOrders(0, (assignment(1, step=1),), 1))
    job = queue.start_preparing_next()
    assert job is not None
    queue.accept_orders(WorkerOrders(0, (assignment(1, step=1), assignment(2, step=1, attempt=2)), 2))
    assert queue.released_orders == 2
    queue.accept_orders(WorkerOrders(0, (assignment(2, step=1, attempt=2),), 3))
    assert queue.released_orders == 2
    assert queue.finish_preparing(job)  # which the coordinator waits to hear
    assert queue.released_orders == 3


def test_orders_that_want_an_answer_get_one_at_once_if_nothing_is_in_work() -> None:
    """Else the ring slot of a batch taken back, finished or never begun, would wait for all to be said again."""
    queue = JobQueue(1)
    assert not queue.accept_orders(WorkerOrders(0, (assignment(0),), 1))
    assert queue.accept_orders(WorkerOrders(0, (), 2, needs_report=True))
    queue.accept_orders(WorkerOrders(0, (assignment(1, attempt=2),), 3))
    job = queue.start_next()
    assert job is not None
    assert not queue.accept_orders(WorkerOrders(0, (), 4, needs_report=True))  # not yet
    assert queue.finish(job, SOUND, ())


@pytest.mark.parametrize("stage", Stage)
def test_a_job_enters_no_stage_but_those_that_follow(stage: Stage) -> None:
    for other in Stage:
        job = Job(assignment(0), incarnation=1, stage=stage)
        if other in NEXT_STAGES[stage]:
            job.enter(other)
            assert job.stage is other
        else:
            with pytest.raises(AssertionError, match=f"{other.name} after {stage.name}"):
                job.enter(other)


def test_on_a_device_a_batch_is_on_its_way_while_another_is_computed() -> None:
    queue = JobQueue(1)
    job = begun(queue, assignment(0), assignment(1, step=1, attempt=2))
    coming = queue.start_preparing_next()
    assert coming is not None
    assert coming.assignment.batch == 1
    assert not queue.finish_preparing(coming)
    queue.finish(job, SOUND, ())
    queue.update_version(1)
    assert queue.start_next() is coming


def test_a_batch_may_be_begun_before_all_of_it_has_come() -> None:
    """What computes it waits for the copy; that it has come says nothing more then."""
    queue = JobQueue(1)
    queue.accept_orders(WorkerOrders(0, (assignment(1, step=1),)))
    coming = queue.start_preparing_next()
    queue.update_version(1)
    job = queue.start_next()
    assert job is coming
    assert job is not None
    assert not queue.finish_preparing(job)
    assert job.stage is Stage.COMPUTING
    queue.finish(job, SOUND, ())


def test_orders_are_settled_when_a_revoked_batch_has_been_copied() -> None:
    queue = JobQueue(1)
    queue.accept_orders(WorkerOrders(0, (assignment(1, step=1),), number=1))
    coming = queue.start_preparing_next()
    assert coming is not None
    queue.accept_orders(WorkerOrders(0, (), number=2))
    assert queue.released_orders == 1
    assert queue.finish_preparing(coming)
    assert queue.released_orders == 2
