"""The jobs of a worker and their progress. A job is one assignment of the coordinator. Pure: no sockets, no torch, no
threads.

A new coordinator begins with an empty queue, but a job in work still reads the ring and the weights until it ends.
Until then the worker sends the new coordinator nothing. Its first message means that no job of the old coordinator is
in work (I4). One job is computed at a time. On a GPU, batches of other jobs may be copied to the device meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

from pool.protocol.messages import Assignment, AssignmentReport, Outcome, WorkerOrders
from pool.worker.job import Job, Stage


class JobQueue:
    """Holds the jobs of one worker. Its mailbox fills the queue, and its computing thread starts jobs from it."""

    def __init__(self, incarnation: int) -> None:
        """Makes an empty queue for the jobs of a coordinator. `incarnation`: the number of the coordinator's
        process."""
        self.incarnation = incarnation
        self.version = -1
        self._jobs: dict[Assignment, Job] = {}
        self._in_work: list[Job] = []
        self._frozen: tuple[int, ...] = ()
        self._newest_orders = 0  # number of the newest orders received
        self.released_orders = 0  # number of the newest orders such that nothing they have revoked is in work

    def replace_coordinator(self, incarnation: int) -> None:
        """Forgets the orders of a dead coordinator, none of whose batches will be started any more."""
        self.incarnation = incarnation
        self.version = -1
        self._jobs = {}
        self._frozen = ()
        self._newest_orders = self.released_orders = 0

    @property
    def can_report(self) -> bool:
        """Returns whether nothing is in work for an earlier coordinator, so that the worker may send messages to the
        present one."""
        return all(job.incarnation == self.incarnation for job in self._in_work)

    def accept_orders(self, orders: WorkerOrders) -> bool:
        """Adds the assignments of the coordinator's newest orders and forgets revoked ones. Returns True if the
        coordinator waits for an answer and nothing revoked is in work."""
        self.update_version(orders.version)
        self._frozen = orders.frozen
        self._jobs = {
            assignment: self._jobs.get(assignment, Job(assignment, self.incarnation))
            for assignment in orders.assignments
        }
        self._newest_orders = orders.number
        self._release_revoked()
        return orders.needs_report and self.released_orders == self._newest_orders

    def update_version(self, version: int) -> bool:
        """Records that a version of the weights is complete, -1 if none is known to be. Returns True if it is newer
        than all before."""
        is_newer = version > self.version
        self.version = max(self.version, version)
        return is_newer

    def start_next(self) -> Job | None:
        """Returns the first job that can be computed with the newest weights, and marks it as being computed. None if
        there is none."""
        for job in self._jobs.values():
            if not job.is_started and job.assignment.step == self.version:
                return self._start_work(job, Stage.COMPUTING)
        return None

    def start_preparing_next(self) -> Job | None:
        """Returns the first training job that waits for its weights, and marks it as being prepared: what needs no
        weights may be done meanwhile. None if there is none. Each job is prepared at most once."""
        for job in self._jobs.values():
            if job.stage is Stage.WAITING and job.assignment.purpose == "train":
                return self._start_work(job, Stage.PREPARING)
        return None

    def finish_preparing(self, job: Job) -> bool:
        """Records that a job's batch was read and will not be read again before the job is computed. Does nothing if
        the job is being computed already. Returns True if the coordinator waits for a report of that."""
        return job.stage is Stage.PREPARING and self._end_work(job, Stage.PREPARED)

    def finish(self, job: Job, outcomes: tuple[Outcome, ...], absent: tuple[int, ...]) -> bool:
        """Records that a job has ended, and reads no batch and no weights any more.

        Returns True if the coordinator needs a message: if it has to know more than the attempt and the losses, which
        it reads in shared memory, or may not have noticed an earlier job of the same step there yet. Jobs of earlier
        steps don't count, because the version that this job was computed with contains all their batches.
        """
        follows_another = any(
            other.stage is Stage.FINISHED and other.assignment.step == job.assignment.step
            for other in self._jobs.values()
        )
        job.outcomes, job.absent = outcomes, absent
        is_awaited = self._end_work(job, Stage.FINISHED)
        return is_awaited or follows_another or bool(absent) or not is_sound(outcomes)

    @property
    def waits_for_weights(self) -> bool:
        """Returns whether there is a job whose weights are not complete yet."""
        return any(not job.is_started for job in self._jobs.values())

    def reports(self) -> tuple[AssignmentReport, ...]:
        """Returns the progress of every job that was started."""
        return tuple(
            AssignmentReport(job.assignment, tuple(job.buckets), job.absent, job.outcomes)
            for job in self._jobs.values()
            if job.is_started
        )

    def _start_work(self, job: Job, stage: Stage) -> Job:
        """Moves a job to a stage in which it is in work."""
        job.enter(stage)
        job.frozen = self._frozen
        if job not in self._in_work:
            self._in_work.append(job)
        return job

    def _end_work(self, job: Job, stage: Stage) -> bool:
        """Moves a job to a stage in which it is not in work. Returns True if the worker may send messages now and could
        not before, or if newer orders are released."""
        assert job in self._in_work, f"{job.assignment} is not in work"
        before = self.can_report, self.released_orders
        job.enter(stage)
        self._in_work.remove(job)
        self._release_revoked()
        return before != (self.can_report, self.released_orders)

    def _release_revoked(self) -> None:
        """Records the newest orders as released if they revoke nothing that is in work."""
        if all(self._jobs.get(job.assignment) is job for job in self._in_work):
            self.released_orders = self._newest_orders


def is_sound(outcomes: Iterable[Outcome]) -> bool:
    """Returns whether all losses and gradients of the batches are finite."""
    return not any(any(outcome.nonfinite) for outcome in outcomes)
