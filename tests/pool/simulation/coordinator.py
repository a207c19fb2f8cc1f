"""A simulated coordinator: the real inbox and scheduler, and hands that carry out one action after the other.

What it alone knows (optimizer state, the sums, the scheduler) dies with it; its successor begins with what was saved.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from loader.stream.interface import Cursor
from pool.checkpoint.plateau import Plateau
from pool.checkpoint.validations import Validation, Validations
from pool.coordinator.scheduler.actions import (
    AbortRun,
    Action,
    AnnounceShare,
    BadBatch,
    CollectArrays,
    Commit,
    CopyBuffers,
    EndRun,
    FinishValidation,
    Freeze,
    Notify,
    OrderFeeder,
    OrderWorker,
    Reduce,
    ReduceRates,
    SaveValidation,
    SendPartialSum,
    Update,
)
from pool.coordinator.scheduler.inbox import Inbox
from pool.coordinator.scheduler.scheduler import StepScheduler
from pool.kernels.tree import join_into_nodes, max_nodes, max_nodes_anywhere, tree_sum
from pool.protocol.admission import Admission
from pool.protocol.blame import DeathInBatch
from pool.protocol.identity import Peer
from pool.protocol.messages import Roster, ShareReport
from pool.shm.signals import CoordinatorSignals, FinishedBatches
from tests.pool.simulation.arithmetic import (
    BUFFERS,
    Version,
    add,
    averaged,
    batches_of,
    metric,
    stepped,
    weights_of,
)
from tests.pool.simulation.links import Node, Others
from tests.pool.simulation.process import THE_SUPERVISOR, Process
from tests.pool.simulation.setup import GOAL

if TYPE_CHECKING:
    from tests.pool.simulation.world import World


MACHINES_HEARD = 0.3  # share of its moves in which it listens to other machines
ENDED = 0.1  # share of its last moves that are the last: a checkpoint takes time
BELL_HEARD = 0.2  # share of its idle moves in which the coordinator looks at what workers have finished


@dataclass(frozen=True)
class Saved:
    """A snapshot or a checkpoint."""

    step: int
    cursor: Cursor
    version: Version
    validations: Validations
    frozen: tuple[int, ...] = ()
    unused: tuple[int, ...] = ()
    plateaus: tuple[Plateau, ...] = ()  # of each member; empty before the first validation
    reductions: tuple[int, ...] = ()  # of each member's learning rate; empty: none


FOREVER = 1 << 30  # beyond all groups


def sum_of(found: list[Node]) -> int:
    return tree_sum([node.leaf for node in found], [node.total for node in found], add)


class WorkersMemory:
    """As `pool.coordinator.exchange_setup.workers_memory` reads it."""

    def __init__(self, world: World, shortcut: CoordinatorSignals) -> None:
        self._memory = world.memory
        self._shortcut = shortcut

    def finished(self, worker: int) -> FinishedBatches:
        return self._shortcut.read_finished(worker)

    def in_work(self, worker: int) -> tuple[int, int]:
        return self._memory.attempts[worker]

    def raised(self, worker: int, attempt: int) -> str:
        return self._memory.exception_texts[worker].read(attempt)


class SimCoordinator(Process):
    def __init__(
        self,
        world: World,
        peer: Peer,
        ready: int,
        saved: Saved,
        deaths: Sequence[DeathInBatch],
        generation: int = 0,
    ) -> None:
        """`generation`: that it begins in with those of other machines."""
        super().__init__(world, peer, ready)
        self._others = Others(world, generation)
        self._from_supervisor = Admission(peer, (THE_SUPERVISOR,))
        self._from_others = Admission(peer)
        self._todo: deque[Action] = deque()
        self._at_end = False
        self._optimizer = list(saved.version.optimizer)
        self._sums: list[list[Node]] = [[] for _ in self._optimizer]  # as far as they were added up
        self._counts = [0] * len(self._optimizer)  # batches in each sum
        self._divisors = [0] * len(self._optimizer)  # that make its mean
        self._version = saved.step
        self._frozen = set(saved.frozen)
        if world.history.resumed(saved.step, self._frozen):
            world.seen["steps to do again"] += 1
        self._to_restore: Version | None = saved.version
        self._shortcut = world.memory.coordinator_signals(peer.incarnation)
        self._validations = saved.validations
        self._plateaus = saved.plateaus
        self._reductions = list(saved.reductions) or [0] * len(world.setup.members)
        self.scheduler = StepScheduler(
            world.setup.rules,
            saved.step,
            saved.cursor,
            incarnation=peer.incarnation,
            validations=saved.validations,
            plateaus=saved.plateaus,
            frozen=self._frozen,
            unused=saved.unused,
            deaths=tuple(deaths),
        )
        self._inbox = Inbox(self.scheduler, WorkersMemory(world, self._shortcut), lambda *_: None)
        self._buffers_taken: set[int] = set()
        self._collected: dict[int, tuple[int, ...]] = {}  # by validation batch, a number a member
        self._to_save: Saved | None = None  # until it is validated
        self._unsettled: Commit | None = None  # the workers know of it, and nothing else has followed from it

    def die(self) -> None:
        self._others.die()

    def step(self) -> None:
        if self._to_restore is not None:
            self.world.memory.begin_version(self._version, self._to_restore)
            for member in sorted(self._frozen):
                self.world.memory.freeze(self._version, member)
            self._todo += self.scheduler.start()
            self._shortcut.publish(self._version)
            self._to_restore = None
        elif self._todo:
            action = self._todo.popleft()
            if not isinstance(action, OrderWorker | OrderFeeder | CollectArrays):
                self._settle()
            self.carry_out(action)
            if not self._todo:
                self._settle()
        elif self._at_end:
            self._hear_supervisor()
            self._end_with_others()
        elif self._again():
            self._todo += self.scheduler.resend_orders()
        elif self._hear_supervisor() or self._hear_others():
            pass
        elif self._inbox.joined and self.world.chance() < BELL_HEARD:
            self._todo += self._inbox.handle_signal()
        elif self._inbox.alive:
            envelope = self.world.network.receive(self.peer.role_index, from_supervisor=False)
            if envelope is None:
                return
            if self._from_others.refusal(envelope):
                self.world.seen["message to the coordinator refused"] += 1
            else:
                self._todo += self._inbox.handle_message(envelope.sender, envelope.message)

    def _hear_supervisor(self) -> bool:
        """Takes one message; whether there was one."""
        envelope = self.world.network.receive(self.peer.role_index, from_supervisor=True)
        if envelope is None:
            return False
        if not self._from_supervisor.refusal(envelope):
            assert isinstance(envelope.message, Roster)
            self._others.finished = {each.machine for each in envelope.message.machines if each.finished}
            self._todo += self._inbox.handle_roster(envelope.message)
            self._from_others.set_alive(self._inbox.alive)
        return True

    # --- hands ---

    def carry_out(self, action: Action) -> None:
        match action:
            case CopyBuffers():
                self.take_buffers(action)
            case Freeze():
                self.freeze(action)
            case BadBatch():
                self.bad_batch(action)
            case CollectArrays():
                self.collect(action)
            case FinishValidation():
                self.measure(action)
            case ReduceRates():
                self.reduce_rates(action)
            case SaveValidation():
                self.validated(action)
            case Notify():
                self.world.seen["stopped early"] += 1
            case OrderWorker():
                self.order_worker(action)
            case OrderFeeder():
                self.order_feeder(action)
            case AbortRun():
                self.give_up(action)
            case EndRun():
                self.end(action)
            case AnnounceShare():
                self._others.announce(action.report, self.world.memory.buffers[(action.report.step + 1) % 2])
            case SendPartialSum():
                self._others.send(action.step, action.bucket, self._sums[action.bucket])
            case Reduce():
                self.reduce(action)
            case Update():
                self.update(action)
            case Commit():
                self.commit(action)

    def take_buffers(self, action: CopyBuffers) -> None:
        self._buffers_taken.discard(action.member)
        if (source := action.source) is not None:
            self._buffers_taken.add(action.member)
            if source.machine is not None:
                taken = self._others.buffers[action.step, source.machine][action.member]
            else:
                taken = self.world.memory.gradient(source.worker, source.slot, BUFFERS - action.member)
            self.world.memory.buffers[(action.step + 1) % 2][action.member] = taken

    def freeze(self, action: Freeze) -> None:
        assert action.step == self._version
        self.world.memory.freeze(action.step, action.member)
        self.world.history.froze(action)
        self._frozen.add(action.member)
        self.world.seen["member frozen"] += 1

    def bad_batch(self, action: BadBatch) -> None:
        if action.machine is None:
            self.world.memory.check_batch("train", action.batch)  # it is kept for its user
        self.world.history.left_out(self.peer, action)
        if action.is_fatal and self.world.cluster is not None:
            self.world.cluster.ended = True
        self.world.seen["stopped by a bad batch" if action.is_fatal else "batch left out"] += 1
        if action.members and not action.frozen_members:
            self.world.seen["batch left out for one member"] += 1
        self.world.ended |= action.is_fatal

    def collect(self, action: CollectArrays) -> None:
        self._collected[action.batch] = self.world.memory.collected(action.worker, action.batch)

    def measure(self, action: FinishValidation) -> None:
        arrays = [self._collected[batch] for batch in sorted(self._collected)]
        collects, members = self.world.setup.rules.collects, self.world.setup.members
        values = [metric([of_members[m] for of_members in arrays]) if collects else math.nan for m in members]
        self._collected.clear()
        self.world.history.measured(action, self.world.memory.weights(self._version), values)
        self._todo += self.scheduler.on_validation(
            [Validation(action.version, action.losses[m], {GOAL.metric: values[m]}) for m in members]
        )

    def reduce_rates(self, action: ReduceRates) -> None:
        self.world.history.reduced(action)
        for member in action.rules:
            self._reductions[member] += 1
        self.world.seen["learning rate reduced"] += 1

    def validated(self, action: SaveValidation) -> None:
        self._validations, self._plateaus = action.validations, action.plateaus
        if self._to_save is not None:
            reductions = tuple(self._reductions)
            self.world.save(
                replace(self._to_save, validations=action.validations, plateaus=action.plateaus, reductions=reductions)
            )

    def order_worker(self, action: OrderWorker) -> None:
        self.world.network.send(self.peer, action.peer, action.orders)

    def order_feeder(self, action: OrderFeeder) -> None:
        self.world.network.send(self.peer, action.peer, action.orders)

    def give_up(self, action: AbortRun) -> None:
        del action  # it says why
        self.world.history.gave_up(self.peer)
        self.world.ended = True
        if self.world.cluster is not None:
            self.world.cluster.ended = True

    def end(self, action: EndRun) -> None:
        del action  # it says no more than that
        self._at_end = True

    def reduce(self, action: Reduce) -> None:
        memory, bucket = self.world.memory, action.bucket
        if not (action.is_first and action.is_last):
            self.world.seen["sum in parts"] += 1
        if action.is_first:
            self._sums[bucket] = []
            self._counts[bucket] = 0
        for each in action.contributions:
            if each.machine is not None:
                self._sums[bucket] += self._others.sums[action.step, each.machine][bucket]
                self._counts[bucket] += len(each.batches)
                continue
            for batch in each.batches:
                memory.check_batch("train", batch)  # its touched rows are read
            self._sums[bucket].append(Node(each.group_index, memory.gradient(each.worker, each.slot, bucket)))
            self._counts[bucket] += len(each.batches)
        self._sums[bucket].sort(key=lambda node: node.leaf)
        end = range(FOREVER) if action.is_last else action.covered
        self._sums[bucket] = [Node(node[0].leaf, sum_of(node)) for node in join_into_nodes(self._sums[bucket], end)]
        rules = self.world.setup.rules
        most = max_nodes(rules.groups.groups_per_step) if rules.machines == 1 else max_nodes_anywhere(len(rules.share))
        assert len(self._sums[bucket]) <= most, "memory for sums"
        self._divisors[bucket] = action.num_batches

    def update(self, action: Update) -> None:
        if action.reduction is not None:
            self.reduce(action.reduction)
        memory, bucket, count = self.world.memory, action.bucket, action.num_batches
        assert action.step == self._version, f"I3: step {action.step} updates version {self._version}"
        total = sum_of(self._sums[bucket]) if count else 0
        if count:
            assert count == self._counts[bucket] == self._divisors[bucket], (
                f"mean of {self._divisors[bucket]}: {action}"
            )
        old = memory.halves[action.step % 2][bucket]
        reductions = self._reductions[self.world.setup.member_of(bucket)]
        weight, self._optimizer[bucket] = stepped(old, self._optimizer[bucket], total, count, reductions)
        memory.halves[(action.step + 1) % 2][bucket] = weight
        batches = batches_of(self.world.setup, action.step)
        if any(process.holds and process.holds[1] in batches for process in self.world.workers()):
            self.world.seen["stepped while a batch was in work"] += 1

    def _end_with_others(self) -> None:
        """The last checkpoint is written, and all machines have made the last version."""
        if self._others.world.cluster is None:
            self.world.ended |= self.world.chance() < ENDED
            return
        self._hear_others()
        if self._others.all_end(self._version) and self.world.chance() < ENDED:
            self.world.finished = True
            self.world.kill(self.peer.role_index)

    def _hear_others(self) -> bool:
        """Takes one message of another machine; whether there was one that it listened to."""
        if self.world.cluster is None or self.world.chance() > MACHINES_HEARD:
            return False
        for machine, message in self._others.receive(self.scheduler.step):
            if isinstance(message, ShareReport):
                self._todo += self.scheduler.on_share_report(machine, message)
            else:
                self._todo += self.scheduler.on_partial_sum(machine, message.step, message.bucket)
            return True
        return False

    def commit(self, action: Commit) -> None:
        memory = self.world.memory
        self._others.committed(action.step)
        assert action.step == self._version, f"I3: step {action.step} committed on version {self._version}"
        new = (action.step + 1) % 2
        for member in self.world.setup.members:
            if member not in self._buffers_taken | self._frozen:
                memory.buffers[new][member] = memory.buffers[action.step % 2][member]
        self._buffers_taken.clear()
        self._version += 1
        self.world.done = max(self.world.done, self._version)
        self._shortcut.publish(self._version)
        self._unsettled = action
        if action.is_validated_next:
            self._settle()

    def _settle(self) -> None:
        """After the workers know of a version, and before it is validated or anything changes."""
        if (action := self._unsettled) is None:
            return
        self._unsettled = None
        memory, setup = self.world.memory, self.world.setup
        weights = memory.weights(self._version)
        for member in setup.members:
            if member not in self._frozen:
                own = weights_of(setup, weights, member)
                memory.averages[member] = averaged(setup, memory.averages[member], self._version, own)
        buffers = memory.buffers[self._version % 2]
        version = Version(weights, tuple(self._optimizer), tuple(buffers), tuple(memory.averages))
        self.world.history.committed(action, version)
        saved = Saved(
            self._version,
            action.next_cursor,
            version,
            self._validations,
            tuple(sorted(self._frozen)),
            action.unused,
            self._plateaus,
            tuple(self._reductions),
        )
        self._to_save = saved if action.is_validated_next else None
        if not action.is_validated_next:
            self.world.save(saved)
