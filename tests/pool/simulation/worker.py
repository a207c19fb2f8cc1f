"""A simulated worker: the real queue between a mailbox and a computing thread that reads and writes the memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pool.protocol.blame import DeathInBatch
from pool.protocol.identity import Peer
from pool.protocol.messages import Assignment, ExcludedBatch, Outcome, Times, WorkerOrders, WorkerReport
from pool.worker.job import Job
from pool.worker.job_queue import JobQueue, is_sound
from tests.pool.simulation.arithmetic import BUFFERS, Weights, add, collected, gradient, loss, weights_of
from tests.pool.simulation.memory import TORN
from tests.pool.simulation.process import Child

if TYPE_CHECKING:
    from tests.pool.simulation.world import World


class SimWorker(Child):
    def __init__(self, world: World, peer: Peer, ready: int, coordinator: Peer) -> None:
        super().__init__(world, peer, ready, coordinator)
        self._queue = JobQueue(coordinator.incarnation)
        self._shortcut = world.memory.worker_signals(peer.index)
        self._bell = True
        self._pace = 0.1 + 0.6 * world.chance()  # share of its moves that compute
        self._computing: Iterator[None] | None = None  # goes from one point at which it may be killed to the next
        self._raised = False
        self.holds: tuple[Peer, int] | None = None  # who ordered it, and which training batch is in work
        self.validates: tuple[Peer, int] | None = None  # the same, of a validation batch
        self._held: DeathInBatch | None = None  # if it dies now
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
        if self._held is not None and self.world.setup.one_process:
            self.world.deaths.append(replace(self._held, raised="ValueError" if self._raised else ""))
        if self.holds is not None:
            self.world.history.ended_with(*self.holds, raised=self._raised)
        if self.validates is not None:
            self.world.history.ended_validating(*self.validates)

    # --- the mailbox ---

    def _serve(self) -> None:
        if self.follow():
            self._queue.replace_coordinator(self.coordinator.incarnation)
            self._bell = True
        elif (message := self.hear()) is not None:
            assert isinstance(message, WorkerOrders)
            self._bell |= self._queue.accept_orders(message)
        if self._bell or self._again():
            if self._queue.can_report:
                self._bell = False
                self.tell(WorkerReport(self._queue.reports(), Times(), self._queue.released_orders))
            else:
                self.world.seen["worker not finished with the old life"] += 1

    # --- the computing thread ---

    def _compute(self) -> None:
        if self._computing is None:
            self._queue.update_version(self._shortcut.newest_version(self._queue.incarnation))
            if (job := self._queue.start_next()) is not None:
                self._computing = self._work(job)
            elif (job := self._queue.start_preparing_next()) is not None:
                self._computing = self._prepare(job)
            else:
                return
        if next(self._computing, self) is self:
            self._computing = None

    def _prepare(self, job: Job) -> Iterator[None]:
        assignment = job.assignment
        self._begin_reading(assignment, assignment.batch)
        yield
        if assignment.batch in self.world.setup.deadly and self.world.chance() < 0.5:
            self.world.kill(self.peer.role_index)
            return
        self._end_reading(assignment, assignment.batch)
        self.world.memory.attempts[self.peer.index] = 0, 0
        self._bell |= self._queue.finish_preparing(job)

    def _work(self, job: Job) -> Iterator[None]:
        assignment = job.assignment
        outcomes: list[Outcome] = []
        if assignment.purpose == "train":
            self.world.memory.begin_gradients(self.peer.index, assignment.gradient_slot)
        for batch in assignment.batches:
            self._begin_reading(assignment, batch)
            yield
            yield from self._train(job, batch) if assignment.purpose == "train" else self._validate(job, batch)
            if self.world.processes.get(self.peer.role_index) is not self:
                return
            self._end_reading(assignment, batch)
            outcomes.append(self._outcome(job, batch))
            if len(assignment.batches) > 1:
                self.world.seen["batch of a group computed"] += 1
        self.world.memory.attempts[self.peer.index] = 0, 0
        self._bell |= self._queue.finish(job, tuple(outcomes), ())
        if is_sound(outcomes):
            losses = [number for outcome in outcomes for number in outcome.losses]
            self._shortcut.report_finished(assignment.attempt, losses, Times())

    def _validate(self, job: Job, batch: int) -> Iterator[None]:
        memory, members = self.world.memory, self.world.setup.members
        memory.write_collected(self.peer.index, batch, (TORN,) * len(members))
        yield
        values = tuple(collected(self._weights(job, m), memory.averages[m], batch) for m in members)
        memory.write_collected(self.peer.index, batch, values)
        yield

    def _train(self, job: Job, batch: int) -> Iterator[None]:
        """The gradients are added to those of the group's batches before; the last batch announces the buckets."""
        assignment, setup = job.assignment, self.world.setup
        is_last = batch == assignment.batches[-1]
        buckets = [b for b in range(setup.rules.num_buckets) if self._takes_part(job, setup.member_of(b), batch)]
        for bucket in buckets:
            self._write(job, batch, bucket)
            if is_last and bucket != buckets[-1] and not self._hides(job, bucket):  # the last is told with the end
                job.buckets.append(bucket)
                self._bell = True
            if batch in setup.deadly and self.world.chance() < 0.5:
                self.world.kill(self.peer.role_index)
            yield
        if setup.rules.has_buffers and assignment.first and batch == assignment.batch:
            for member in setup.members:
                self._write(job, batch, BUFFERS - member)
        if batch in setup.deadly:
            self.world.kill(self.peer.role_index)
        elif batch in setup.raising or (setup.flaky and self.world.chance() < setup.flaky):
            self._raise(assignment)

    def _outcome(self, job: Job, batch: int) -> Outcome:
        setup, train = self.world.setup, job.assignment.purpose == "train"
        unsound = tuple(
            "the loss" if train and self._takes_part(job, m, batch) and (m, batch) in setup.unsound else ""
            for m in setup.members
        )
        return Outcome(tuple(loss(self._weights(job, member), batch) for member in setup.members), unsound)

    def _takes_part(self, job: Job, member: int, batch: int) -> bool:
        return member not in job.frozen and ExcludedBatch(batch, member) not in job.assignment.left_out

    def _hides(self, job: Job, bucket: int) -> bool:
        """A member's last one is told if all is sound."""
        setup = self.world.setup
        member = setup.member_of(bucket)
        is_last = bucket + 1 == setup.rules.num_buckets or setup.member_of(bucket + 1) != member
        own = [batch for batch in job.assignment.batches if self._takes_part(job, member, batch)]
        return is_last and any((member, batch) in setup.unsound for batch in own)

    def _raise(self, assignment: Assignment) -> None:
        self._raised = True
        self.world.memory.exception_texts[self.peer.index].write(assignment.attempt, "ValueError")
        self.world.seen["exception"] += 1
        self.world.kill(self.peer.role_index)

    def _begin_reading(self, assignment: Assignment, batch: int) -> None:
        memory = self.world.memory
        memory.attempts[self.peer.index] = assignment.attempt, batch
        self._held = DeathInBatch(assignment.purpose, assignment.step, batch, "")
        held = self.coordinator, batch
        self.holds, self.validates = (held, None) if assignment.purpose == "train" else (None, held)
        memory.begin_reading(self.peer, assignment.purpose, batch)
        memory.check_batch(assignment.purpose, batch)

    def _end_reading(self, assignment: Assignment, batch: int) -> None:
        memory = self.world.memory
        memory.check_batch(assignment.purpose, batch)
        memory.end_reading(self.peer)
        self.holds = self.validates = self._held = None

    def _write(self, job: Job, batch: int, bucket: int) -> None:
        setup, memory, slot = self.world.setup, self.world.memory, job.assignment.gradient_slot
        member = BUFFERS - bucket if bucket <= BUFFERS else setup.member_of(bucket)
        value = gradient(self._weights(job, member), batch, bucket)
        before = memory.gradient(self.peer.index, slot, bucket)
        if before != TORN and bucket > BUFFERS:
            value = add(before, value)
        memory.write_gradient(self.peer.index, slot, bucket, value)

    def _weights(self, job: Job, member: int) -> Weights:
        return weights_of(self.world.setup, self.world.memory.weights(job.assignment.step), member)
