"""What lies on a worker's desk: its assignments and how far each is. Pure: no sockets, no torch, no threads."""

from __future__ import annotations

from dataclasses import dataclass, field

from pool.protocol.messages import Assignment, BatchReport, WorkerOrders


@dataclass
class _Job:
    buckets: list[int] = field(default_factory=list)
    absent: tuple[int, ...] = ()
    begun: bool = False
    finished: bool = False
    loss: float = 0.0


class Desk:
    def __init__(self) -> None:
        self.version = -1
        self._jobs: dict[Assignment, _Job] = {}

    def orders(self, orders: WorkerOrders) -> None:
        """Takes over what is assigned; forgets what no longer is."""
        self.version = max(self.version, orders.version)
        self._jobs = {assignment: self._jobs.get(assignment, _Job()) for assignment in orders.assignments}

    def next(self) -> Assignment | None:
        """The first batch that can be computed with the newest weights."""
        for assignment, job in self._jobs.items():
            if not job.begun and assignment.step == self.version:
                return assignment
        return None

    @property
    def waits_for_weights(self) -> bool:
        """There is a batch, but its weights are not complete."""
        return any(not job.begun for job in self._jobs.values())

    def begin(self, assignment: Assignment) -> None:
        self._jobs[assignment].begun = True

    def bucket(self, assignment: Assignment, bucket: int) -> None:
        """A bucket of the batch lies complete in its gradient slot."""
        if (job := self._jobs.get(assignment)) is not None:
            job.buckets.append(bucket)

    def finish(self, assignment: Assignment, loss: float, absent: tuple[int, ...]) -> None:
        if (job := self._jobs.get(assignment)) is not None:
            job.finished, job.loss, job.absent = True, loss, absent

    def reports(self) -> tuple[BatchReport, ...]:
        """How far every batch is that was begun."""
        return tuple(
            BatchReport(assignment, tuple(job.buckets), job.absent, job.finished, job.loss)
            for assignment, job in self._jobs.items()
            if job.begun
        )
