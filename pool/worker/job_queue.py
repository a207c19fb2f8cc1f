"""The jobs of a worker and how far each is. Pure: no sockets, no torch, no threads.

A new coordinator begins with an empty queue, but a job in work still reads the ring and the weights until it ends.
Until then the worker sends the new coordinator nothing: its first message says that no job of the old incarnation is
in work (I4). One job is computed at a time; on a device others may be on their way to it meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

from pool.protocol.messages import Assignment, AssignmentReport, Outcome, WorkerOrders
from pool.worker.job import Job, Stage


class JobQueue:
    """The jobs of one worker, for its computing thread to take from and for its mailbox to fill."""

    def __init__(self, incarnation: int) -> None:
        """`incarnation`: of the coordinator."""
        self.incarnation = incarnation
        self.version = -1
        self._jobs: dict[Assignment, Job] = {}
        self._in_work: list[Job] = []
        self._frozen: tuple[int, ...] = ()
        self._number = 0  # of the newest orders
        self.settled = 0  # of the newest with nothing in work that they no longer have: no such batch is read any more

    def new_coordinator(self, incarnation: int) -> None:
        """Forgets the orders of the dead one; none of its batches will be begun."""
        self.incarnation = incarnation
        self.version = -1
        self._jobs = {}
        self._frozen = ()
        self._number = self.settled = 0

    @property
    def may_speak(self) -> bool:
        """Nothing is in work for an earlier coordinator."""
        return all(job.incarnation == self.incarnation for job in self._in_work)

    def orders(self, orders: WorkerOrders) -> bool:
        """Takes new assignments, forgets revoked ones. True if the coordinator waits for an answer and
        nothing revoked is in work."""
        self.complete(orders.version)
        self._frozen = orders.frozen
        self._jobs = {
            assignment: self._jobs.get(assignment, Job(assignment, self.incarnation))
            for assignment in orders.assignments
        }
        self._number = orders.number
        self._settle()
        return orders.wants_answer and self.settled == self._number

    def complete(self, version: int) -> bool:
        """The weights of this version are complete; -1: nothing is known of any. True if that is new."""
        is_new = version > self.version
        self.version = max(self.version, version)
        return is_new

    def next(self) -> Job | None:
        """The first that can be computed with the newest weights; begun from now on."""
        for job in self._jobs.values():
            if not job.begun and job.assignment.step == self.version:
                return self._take_up(job, Stage.COMPUTING)
        return None

    def next_to_prepare(self) -> Job | None:
        """The first that waits for its weights: what does not need them may be done meanwhile; once."""
        for job in self._jobs.values():
            if job.stage is Stage.WAITING and job.assignment.purpose == "train":
                return self._take_up(job, Stage.PREPARING)
        return None

    def prepared(self, job: Job) -> bool:
        """The job is prepared: it reads no batch any more until it is begun, if it has not been by now. True if a
        coordinator waits to hear that."""
        return job.stage is Stage.PREPARING and self._end(job, Stage.PREPARED)

    def finish(self, job: Job, outcomes: tuple[Outcome, ...], absent: tuple[int, ...]) -> bool:
        """The job has ended: it reads no batch and no weights any more. True if a coordinator waits to hear
        more than attempt and losses of this one, or may not have heard of the one before yet: of the same step, since
        the version that this one was computed with has all batches of earlier steps in it."""
        step = job.assignment.step
        another = any(other.stage is Stage.FINISHED and other.assignment.step == step for other in self._jobs.values())
        job.outcomes, job.absent = outcomes, absent
        return self._end(job, Stage.FINISHED) or another or bool(absent) or not is_sound(outcomes)

    @property
    def waits_for_weights(self) -> bool:
        """There is a batch, but its weights are not complete."""
        return any(not job.begun for job in self._jobs.values())

    def reports(self) -> tuple[AssignmentReport, ...]:
        """How far every job is that was begun."""
        return tuple(
            AssignmentReport(job.assignment, tuple(job.buckets), job.absent, job.outcomes)
            for job in self._jobs.values()
            if job.begun
        )

    def _take_up(self, job: Job, stage: Stage) -> Job:
        job.enter(stage)
        job.frozen = self._frozen
        if job not in self._in_work:
            self._in_work.append(job)
        return job

    def _end(self, job: Job, stage: Stage) -> bool:
        """True if by this the worker may speak, or has settled orders."""
        assert job in self._in_work, f"{job.assignment} is not in work"
        before = self.may_speak, self.settled
        job.enter(stage)
        self._in_work.remove(job)
        self._settle()
        return before != (self.may_speak, self.settled)

    def _settle(self) -> None:
        if all(self._jobs.get(job.assignment) is job for job in self._in_work):
            self.settled = self._number


def is_sound(outcomes: Iterable[Outcome]) -> bool:
    """All numbers are finite."""
    return not any(any(outcome.unsound) for outcome in outcomes)
