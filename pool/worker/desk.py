"""What lies on a worker's desk: its jobs and how far each is. Pure: no sockets, no torch, no threads."""

from __future__ import annotations

from dataclasses import dataclass, field

from pool.protocol.messages import Assignment, BatchReport, WorkerOrders


@dataclass(eq=False)
class Job:
    """One assignment in work. Who computes it holds it even after the desk has forgotten it: a result that
    nobody waits for any more changes nothing, even if the same batch was assigned anew."""

    assignment: Assignment
    life: int  # of the coordinator that assigned it: another one's version 7 is not this one's
    buckets: list[int] = field(default_factory=list)  # complete in the gradient slot
    absent: tuple[int, ...] = ()
    begun: bool = False
    finished: bool = False
    loss: float = 0.0
    unsound: str = ""

    def finish(self, loss: float, absent: tuple[int, ...], unsound: str) -> None:
        self.loss, self.absent, self.unsound, self.finished = loss, absent, unsound, True


class Desk:
    """Of one coordinator's life: its successor's orders begin with an empty desk."""

    def __init__(self, life: int = 0) -> None:
        self.life = life
        self.version = -1
        self._jobs: dict[Assignment, Job] = {}

    def orders(self, orders: WorkerOrders) -> None:
        """Takes over what is assigned; forgets what no longer is."""
        self.version = max(self.version, orders.version)
        self._jobs = {
            assignment: self._jobs.get(assignment, Job(assignment, self.life)) for assignment in orders.assignments
        }

    def next(self) -> Job | None:
        """The first batch that can be computed with the newest weights; begun from now on."""
        for job in self._jobs.values():
            if not job.begun and job.assignment.step == self.version:
                job.begun = True
                return job
        return None

    @property
    def waits_for_weights(self) -> bool:
        """There is a batch, but its weights are not complete."""
        return any(not job.begun for job in self._jobs.values())

    def reports(self) -> tuple[BatchReport, ...]:
        """How far every batch is that was begun."""
        return tuple(
            BatchReport(job.assignment, tuple(job.buckets), job.absent, job.finished, job.loss, job.unsound)
            for job in self._jobs.values()
            if job.begun
        )
