"""A simulated worker: the real desk between a mailbox and a computing thread that reads and writes the memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pool.protocol.identity import Peer
from pool.protocol.messages import Assignment, Times, WorkerOrders, WorkerReport
from pool.worker.desk import Desk
from pool.worker.job import Job
from tests.pool.simulation.arithmetic import BUFFERS, Weights, collected, gradient, loss, weights_of
from tests.pool.simulation.memory import TORN
from tests.pool.simulation.process import Child

if TYPE_CHECKING:
    from tests.pool.simulation.world import World


class SimWorker(Child):
    def __init__(self, world: World, peer: Peer, ready: int, coordinator: Peer) -> None:
        super().__init__(world, peer, ready, coordinator)
        self._desk = Desk(coordinator.incarnation)
        self._shortcut = world.memory.worker_end(peer.index)
        self._bell = True
        self._pace = 0.1 + 0.6 * world.chance()  # share of its moves that compute
        self._computing: Iterator[None] | None = None  # goes from one point at which it may be killed to the next
        self._raised = False
        self.holds: tuple[Peer, int] | None = None  # who ordered it, and which training batch is in work
        self.computing_asleep_until = 0  # only the thread that computes
        self._computing_moved_at = ready

    def step(self) -> None:
        now = self.world.time
        if self.world.chance() < self._pace and self.computing_asleep_until <= now:
            self._computing_moved_at = now
            self._compute()
        else:
            self._serve()

    def still(self, now: int) -> int:
        return max(super().still(now), now - self._computing_moved_at if self._computing is not None else 0)

    def die(self) -> None:
        self.world.memory.end_reading(self.peer)
        if self.holds is not None:
            self.world.history.ended_with(*self.holds, raised=self._raised)

    # --- the mailbox ---

    def _serve(self) -> None:
        if self.follow():
            self._desk.new_coordinator(self.coordinator.incarnation)
            self._bell = True
        elif (message := self.hear()) is not None:
            assert isinstance(message, WorkerOrders)
            self._bell |= self._desk.orders(message)
        if self._bell or self._again():
            if self._desk.may_speak:
                self._bell = False
                self.tell(WorkerReport(self._desk.reports(), Times(), self._desk.settled))
            else:
                self.world.seen["worker not finished with the old life"] += 1

    # --- the computing thread ---

    def _compute(self) -> None:
        if self._computing is None:
            self._desk.complete(self._shortcut.newest(self._desk.incarnation))
            if (job := self._desk.next()) is not None:
                self._computing = self._work(job)
            elif (job := self._desk.next_to_prepare()) is not None:
                self._computing = self._prepare(job)
            else:
                return
        if next(self._computing, self) is self:
            self._computing = None

    def _prepare(self, job: Job) -> Iterator[None]:
        assignment = job.assignment
        self._begin_reading(assignment)
        yield
        if assignment.batch in self.world.setup.deadly and self.world.chance() < 0.5:
            self.world.kill(self.peer.place)
            return
        self._end_reading(assignment)
        self._bell |= self._desk.prepared(job)

    def _work(self, job: Job) -> Iterator[None]:
        memory, assignment, setup = self.world.memory, job.assignment, self.world.setup
        train = assignment.purpose == "train"
        self._begin_reading(assignment)
        if train:
            memory.begin_gradients(self.peer.index, assignment.gradient_slot)
        else:
            memory.write_collected(self.peer.index, assignment.batch, (TORN,) * len(setup.members))
        yield
        buckets = [b for b in range(setup.rules.num_buckets) if train and setup.member_of(b) not in job.frozen]
        for bucket in buckets:
            self._write(job, bucket)
            if bucket != buckets[-1] and not self._hides(job, bucket):  # the last one is told with the end
                job.buckets.append(bucket)
                self._bell = True
            if assignment.batch in setup.deadly and self.world.chance() < 0.5:
                self.world.kill(self.peer.place)
            yield
        if train and setup.rules.has_buffers and assignment.first:
            for member in setup.members:
                self._write(job, BUFFERS - member)
        if train and assignment.batch in setup.deadly:
            self.world.kill(self.peer.place)
            return
        if train and (assignment.batch in setup.raising or (setup.flaky and self.world.chance() < setup.flaky)):
            self._raise(assignment)
            return
        if not train:
            values = tuple(
                collected(self._weights(job, member), memory.averages[member], assignment.batch)
                for member in setup.members
            )
            memory.write_collected(self.peer.index, assignment.batch, values)
            yield
        self._end_reading(assignment)
        unsound = tuple(
            "the loss" if train and m not in job.frozen and (m, assignment.batch) in setup.unsound else ""
            for m in setup.members
        )
        losses = tuple(loss(self._weights(job, member), assignment.batch) for member in setup.members)
        self._bell |= self._desk.finish(job, losses, (), unsound)
        if not any(unsound):
            self._shortcut.finish(assignment.attempt, losses, Times())

    def _hides(self, job: Job, bucket: int) -> bool:
        """A member's last one is told if all is sound."""
        setup = self.world.setup
        member = setup.member_of(bucket)
        is_last = bucket + 1 == setup.rules.num_buckets or setup.member_of(bucket + 1) != member
        return is_last and (member, job.assignment.batch) in setup.unsound

    def _raise(self, assignment: Assignment) -> None:
        self._raised = True
        self.world.memory.raised[self.peer.index].say(assignment.attempt, "ValueError")
        self.world.seen["exception"] += 1
        self.world.kill(self.peer.place)

    def _begin_reading(self, assignment: Assignment) -> None:
        memory = self.world.memory
        memory.attempts[self.peer.index] = assignment.attempt
        self.holds = (self.coordinator, assignment.batch) if assignment.purpose == "train" else None
        memory.begin_reading(self.peer, assignment)
        memory.check_batch(assignment.purpose, assignment.batch)

    def _end_reading(self, assignment: Assignment) -> None:
        memory = self.world.memory
        memory.check_batch(assignment.purpose, assignment.batch)
        memory.end_reading(self.peer)
        memory.attempts[self.peer.index] = 0
        self.holds = None

    def _write(self, job: Job, bucket: int) -> None:
        setup, assignment = self.world.setup, job.assignment
        member = BUFFERS - bucket if bucket <= BUFFERS else setup.member_of(bucket)
        value = gradient(self._weights(job, member), assignment.batch, bucket)
        self.world.memory.write_gradient(self.peer.index, assignment.gradient_slot, bucket, value)

    def _weights(self, job: Job, member: int) -> Weights:
        return weights_of(self.world.setup, self.world.memory.weights(job.assignment.step), member)
