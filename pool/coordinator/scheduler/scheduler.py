"""The scheduler decides which worker computes which batch, when gradients are added up, and when a step is complete.

The scheduler is pure: no sockets, no torch, no clock. Events go in (`start`, `on_worker_joined`, `on_worker_lost`,
...), actions come out, and the caller carries them out in order. It follows these rules:

- Step t takes batches tG .. tG+G-1, where G is train.batches_per_step. They are assigned in groups of consecutive
  batches. The gradients of a bucket (parameters that are stepped together) are added up along a fixed tree over the
  groups, whoever computed them and in whatever order they arrived (I2).
- A batch of step t is computed with version t, the weights after t steps. The ring keeps the batch until t is committed
  (I3).
- A gradient slot is memory for the gradients of one group. It belongs to its worker until every bucket in it is added
  up. After the worker's death it belongs to nobody: the groups that the worker had finished stay valid in it, and all
  others are computed again (I4).
- When the coordinator has died, its successor orders the feeder nothing until every worker that was alive at the start
  has sent it a message or has died. So no ring slot is filled again while a worker reads it (I4,
  `WorkerPool.all_accounted_for`). Weights need no such wait. A worker may still compute a batch while its weights are
  overwritten, but it reports the result to nobody. The gradient slot of that batch is assigned again to the same
  worker, which begins the next job when the present one has ended. The same is true of a batch that was revoked while
  the worker was beginning it.
- Where several machines compute a step, each has a scheduler. A machine computes its share of the groups, and decides
  which of their batches can't be used. The other machines take these decisions and the sums from the messages that it
  sends. All schedulers decide everything else alike, from the same numbers, without asking each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import product

from loader.stream.interface import Cursor
from pool.checkpoint.plateau import Plateau
from pool.checkpoint.validations import NONE, Validation, Validations
from pool.coordinator.scheduler.actions import (
    AbortRun,
    Action,
    AnnounceShare,
    BadBatch,
    Commit,
    EndRun,
    Freeze,
    Notify,
    OrderFeeder,
)
from pool.coordinator.scheduler.fault_tracker import FaultTracker
from pool.coordinator.scheduler.ring import RingState
from pool.coordinator.scheduler.rules import Rules
from pool.coordinator.scheduler.step_progress import AssignedGroup, RemoteShare, StepProgress
from pool.coordinator.scheduler.validation_progress import ValidationProgress
from pool.coordinator.scheduler.worker_pool import Worker, WorkerPool
from pool.protocol.blame import DeathInBatch
from pool.protocol.identity import Peer
from pool.protocol.messages import (
    Assignment,
    AssignmentReport,
    FeederOrders,
    FeederReport,
    Outcome,
    Purpose,
    ShareReport,
    WorkerReport,
)
from pool.shm.signals import FinishedBatches

_MAX_NAMES = 3  # parameters in one line

GroupKey = tuple[int, int]  # the step of a group and its index in the step


class StepScheduler:
    """Decides the course of a run, step by step: each method takes one event and returns the actions that follow from
    it, in order."""

    def __init__(
        self,
        rules: Rules,
        step: int,
        start: Cursor,
        *,
        incarnation: int = 1,
        validations: Validations = NONE,
        plateaus: Sequence[Plateau] = (),
        frozen: Iterable[int] = (),
        unused: Sequence[int] = (),
        deaths: Sequence[DeathInBatch] = (),
    ) -> None:
        """Creates the scheduler of a run that begins or is resumed. `step`, `start`: the first step of this process and
        where its first batch begins in the data stream.

        `incarnation`: of the coordinator; above 1, workers and feeder may still follow orders of the coordinator that
        died. `validations`, `plateaus`: results of validations so far, and each member's state of the rule that lowers
        its learning rate. `frozen`: members (networks of an ensemble) that are trained no further. `unused`: for each
        member, the batches in a row that could not be used, as of the last commit. `deaths`: of workers whose failure
        ended an earlier coordinator too, in batches of steps that are not committed yet.
        """
        generation = incarnation << 32  # above all generations and attempts of earlier incarnations
        self.rules = rules
        self.step = step  # the step in progress, and so the newest complete version
        self.train = RingState(start, generation)
        self.validation: ValidationProgress | None = None
        if rules.validate_every:
            self.validation = ValidationProgress(rules, generation, validations, plateaus)
        self._workers = WorkerPool(rules.gradient_slots, successor=incarnation > 1)
        self._feeder: Peer | None = None
        self._sent_to_feeder: FeederOrders | None = None
        self._groups = rules.groups
        self._assigned: dict[GroupKey, AssignedGroup] = {}  # groups of steps `step` and `step + 1`
        self._attempts = generation  # never used twice: a worker may die of a batch of an earlier coordinator
        self._training = set(range(rules.members)) - set(frozen)
        self._faults = FaultTracker(unused or (0,) * rules.members)
        self._earlier_deaths = deaths
        self._progress = StepProgress(step, rules, self._frozen)
        self._remote_shares: dict[tuple[int, int], RemoteShare] = {}  # by step and machine: received, not yet handled
        self._draining = False
        self._last_step: int | None = None  # of the run, when several machines were told to stop
        self.stopped_elsewhere = False  # another machine was told to stop
        self._stopped_early = False  # the step in progress is not begun any more
        self._ended = False

    # --- events ---

    def start(self) -> list[Action]:
        """Starts the scheduler, before all other events. Counts deaths that earlier coordinators have seen, and stops
        members that validations of the present version stop."""
        actions: list[Action] = []
        for death in self._earlier_deaths:
            actions += self._count_death(death)
        if self.validation is None or self._ended:
            return actions
        stopping = self._find_stopping(self.validation.validations)
        if self._stopped_early:
            return [Notify(self.rules.stopping_rule.describe_resumed(self.validation.validations, stopping))]
        return [self._freeze(member) for member in sorted(stopping)]

    def on_roster(self, workers: Set[Peer]) -> list[Action]:
        """Handles the list of workers that are alive, also those that have not joined yet."""
        self._workers.set_alive(workers)
        return list(self._changed_orders())

    def on_worker_joined(self, peer: Peer) -> list[Action]:
        """Adds a worker that has started. A worker with the same index must have been reported lost before."""
        self._workers.add(peer)
        return self._advance()

    def on_worker_lost(self, peer: Peer, attempt: int = 0, batch: int = -1, exception: str = "") -> list[Action]:
        """Removes a dead worker. Groups of batches that it had not finished are assigned again. Gradients that it had
        finished stay valid in its slots.

        `attempt`: the number of the assignment that the worker was computing, 0 if none. `batch`: the batch of that
        assignment that was being computed. `exception`: what ended the worker in this attempt, empty if no exception
        did.
        """
        worker = self._workers.find(peer)
        if worker is None:
            return []
        self._workers.remove(worker)
        for key, group in list(self._assigned.items()):
            if group.worker == peer.index and not group.is_finished:
                self._drop_group(key)
        if self.validation is not None:
            self.validation.remove_worker(peer.index)
        self._take_back_next_step()
        actions: list[Action] = []
        for assignment in worker.assignments:
            if assignment.attempt == attempt:
                death = DeathInBatch(assignment.purpose, assignment.step, batch, exception)
                actions += self._count_death(death)
        return actions + self._advance()

    def on_worker_report(self, peer: Peer, report: WorkerReport) -> list[Action]:
        """Handles a worker's report on its assignments. Ignores a report of a worker that has not joined or is lost."""
        worker = self._workers.find(peer)
        if worker is None:
            return []
        actions: list[Action] = []
        self._workers.confirm_revoked(worker, report.settled)
        for assignment_report in report.assignments:
            if assignment_report.assignment in worker.assignments:
                actions += self._handle_report(worker, assignment_report)
        return actions + self._advance()

    def on_finished(self, finished: Mapping[Peer, FinishedBatches]) -> list[Action]:
        """Handles the assignment that each worker has finished last, as it was read from shared memory. The gradients
        of such an assignment are complete in its slot, and all its numbers are finite."""
        actions: list[Action] = []
        for peer, last in finished.items():
            worker = self._workers.find(peer)
            if worker is None:
                continue
            for assignment in [each for each in worker.assignments if each.attempt == last.attempt]:
                report = AssignmentReport(assignment, outcomes=self._outcomes(assignment, last))
                actions += self._handle_report(worker, report)
        return actions + self._advance()

    def on_feeder_joined(self, peer: Peer) -> list[Action]:
        """Adds a feeder that has started, and orders it to fill the rings."""
        self._feeder = peer
        self._sent_to_feeder = None
        return self._advance()

    def on_feeder_lost(self, peer: Peer) -> list[Action]:
        """Removes a dead feeder. Batches that it had reported stay ready; its successor begins with the next one."""
        if self._feeder == peer:
            self._feeder = None
            self.train.restart_feeder()
            if self.validation is not None:
                self.validation.ring.restart_feeder()
        return []

    def on_feeder_report(self, peer: Peer, report: FeederReport) -> list[Action]:
        """Handles the feeder's report on the batches that are ready in the rings. Ignores a report of a feeder that is
        not the present one."""
        if self._feeder != peer:
            return []
        self.train.add_filled(report.train)
        if self.validation is not None:
            self.validation.ring.add_filled(report.validation)
        return self._advance()

    def on_validation(self, validations: Sequence[Validation]) -> list[Action]:
        """Handles the results of the validation that `FinishValidation` has computed, one for each member.

        Members whose validations don't improve get a lower learning rate, or stop. After that the step that begins with
        the validated version may begin.
        """
        assert self.validation is not None
        assert all(validation.step == self.step for validation in validations), f"validated in step {self.step}"
        actions: list[Action] = list(self.validation.finish(validations, self._training))
        stopping = self._find_stopping(self.validation.validations)
        if stopping:
            actions.append(Notify(self.rules.stopping_rule.describe(self.validation.validations, stopping)))
        if not self._stopped_early:
            actions += [self._freeze(member) for member in sorted(stopping)]
        return actions + self._advance()

    def drain(self) -> list[Action]:
        """Ends the run early: the step in progress is finished, and no new one is begun. Where several machines compute
        the run, all end after the same step: the first one whose share (this machine's part of the batches) was not
        announced to the others yet."""
        self._draining = True
        if not self._is_distributed:
            self._take_back_next_step()
        return self._advance()

    @property
    def waits_for_machines(self) -> bool:
        """True if the step waits only for results that other machines have still to compute or to send."""
        return self._progress.waits_for_machines

    def on_share_report(self, machine: int, report: ShareReport) -> list[Action]:
        """Handles another machine's report that it has computed its share of the batches of a step: the one in
        progress, or the next one."""
        if report.step < self.step:
            return []
        self._remote_shares.setdefault((report.step, machine), RemoteShare()).report = report
        return self._advance()

    def on_partial_sum(self, machine: int, step: int, bucket: int) -> list[Action]:
        """Records that another machine has sent its sum of a bucket's gradients, for the step in progress or the next
        one."""
        if step < self.step:
            return []
        self._remote_shares.setdefault((step, machine), RemoteShare()).buckets.add(bucket)
        return self._advance()

    def resend_orders(self) -> list[Action]:
        """Returns all orders once more, for processes that may have missed them (I5)."""
        self._workers.resend_orders()
        self._sent_to_feeder = None
        return list(self._changed_orders())

    # --- decisions ---

    def _advance(self) -> list[Action]:
        """Returns all actions that the present state allows, in one fixed order: validation, bad batches, assignments,
        sums and updates, commits, orders."""
        actions: list[Action] = []
        while not (self._ended or self._is_over):
            if self.validation is not None and self.validation.is_due(self.step):
                actions += self.validation.advance(self.step)
            if self._validation_due:
                self._assign_validation()
                break
            actions += self._leave_out_bad_batches()
            if self._ended:
                break
            self._assign_groups()
            reductions = list(self._reduce_and_update())
            actions += reductions
            if self._can_commit:
                actions.append(self._commit())
            elif not reductions and not self._free_last_slot():
                break
        if not self._ended and self._is_over:
            self._ended = True
            actions.append(EndRun())
        self._free_batches()
        actions += self._changed_orders()
        return actions

    @property
    def _is_over(self) -> bool:
        """True if the run is over: all steps are committed and validated, or it was stopped."""
        if self._stopped_early or self._stops_before_step:
            return True
        return self.step == self.rules.steps and not self._validation_due

    @property
    def _is_distributed(self) -> bool:
        """True if several machines compute each step together."""
        return self.rules.machines > 1

    @property
    def _stops_before_step(self) -> bool:
        """True if the run was told to stop and the step in progress is not to be begun."""
        if self._is_distributed:
            return self._last_step is not None and self.step > self._last_step
        return self._draining and not self._has_begun_step

    @property
    def _has_begun_step(self) -> bool:
        """True if something of the step in progress was added up, or one of its groups is assigned."""
        return self._progress.has_begun or any(step == self.step for step, _ in self._assigned)

    @property
    def _validation_due(self) -> bool:
        """True if the newest version has to be validated before its step begins."""
        return self.validation is not None and self.validation.is_due(self.step)

    def _assign_validation(self) -> None:
        """Assigns validation batches that are ready to the workers that have least to do."""
        assert self.validation is not None
        for batch in self.validation.unassigned():
            worker = self._workers.least_busy()
            if worker is None:
                return
            self._workers.assign(worker, self._new_assignment("validate", self.step, (batch,), -1))
            self.validation.assign(batch, worker.peer.index)

    def _assign_groups(self) -> None:
        """Assigns the groups of this step and the next one to workers, as far as batches and gradient slots are there.

        The next step's groups are assigned one step ahead, so that workers can prepare their batches. A draining run
        assigns only the step in progress.
        """
        num_steps = 1 if self._draining else 2
        end = self.rules.steps if self._last_step is None else self._last_step + 1
        for key in product(range(self.step, min(self.step + num_steps, end)), self.rules.share):
            if self._groups.batches(*key).start >= self.train.filled:
                return
            batches = self._batches_to_compute(*key)
            if not self._is_ready(batches) or key in self._assigned or any(map(self._reason_unusable, batches)):
                continue
            if self._stops_before_step:
                return
            worker = self._choose_worker(step=key[0])
            if worker is None:
                return
            assignment = self._new_assignment("train", key[0], batches, self._workers.free_slots(worker)[0])
            self._workers.assign(worker, assignment)
            self._assigned[key] = AssignedGroup(assignment, worker.peer.index, worker.peer.incarnation)

    def _choose_worker(self, step: int) -> Worker | None:
        """Returns the worker for the next group of a step; None if no worker can take one."""
        if step == self.step:
            return self._workers.least_busy(with_slot=True)
        return self._workers.least_busy_for_next_step(step, self._groups.groups_per_step)

    def _new_assignment(self, purpose: Purpose, step: int, batches: tuple[int, ...], slot: int) -> Assignment:
        """Creates an assignment with a new attempt number. `slot`: the worker's gradient slot, -1 for a validation."""
        self._attempts += 1
        is_train = purpose == "train"
        has_first_batch = is_train and batches[0] == step * self.rules.batches_per_step
        left_out = self._progress.left_out_among(batches) if is_train and step == self.step else ()
        return Assignment(purpose, step, batches, slot, self._attempts, has_first_batch, left_out)

    def _batches_to_compute(self, step: int, group_index: int) -> tuple[int, ...]:
        """Returns the batches of a group whose gradients are still to be computed; none if all of the group's losses
        are there. Batches that were left out of the step are not among them."""
        batches = tuple(self._groups.batches(step, group_index))
        if step > self.step:
            return batches
        used = tuple(batch for batch in batches if batch in self._progress.batches)
        if all(batch in self._progress.losses for batch in used):
            return ()
        return used

    def _is_ready(self, batches: tuple[int, ...]) -> bool:
        """Returns True if there are batches, and all of them are in the ring."""
        return bool(batches) and batches[-1] < self.train.filled

    def _take_back_next_step(self) -> None:
        """Revokes the groups of the next step, which were assigned early, to free their gradient slots.

        A worker may still read such a batch, so the ring keeps it until it does not (`WorkerPool.first_batch_in_use`).
        The result is ignored, because its attempt is not assigned any more. The same worker computes the slot's next
        group, after the revoked one.
        """
        for key, group in list(self._assigned.items()):
            if group.assignment.step > self.step:
                self._workers.take_back(group.worker, group.assignment)
                del self._assigned[key]

    def _free_last_slot(self) -> bool:
        """Gives up the last finished group of the step, so that its gradient slot is free and the group is computed
        again. Returns True if it has.

        It does so only if all slots hold groups that come after one that a dead worker had. That group can't be
        assigned, and the dead worker's successor, which would have free slots, may never come.
        """
        missing = next(self._unassigned_groups(), None)
        if missing is None or not self._workers.is_out_of_slots:
            return False
        groups = {
            index: group
            for (step, index), group in self._assigned.items()
            if step == self.step and self._workers.is_alive(group.worker)
        }
        finished = [index for index, group in groups.items() if group.is_finished]
        if not finished or min(groups) < missing:  # an earlier group can be added up, which frees its slot
            return False
        self._progress.forget_group(max(finished))
        self._drop_group((self.step, max(finished)))
        return True

    def _drop_group(self, key: GroupKey) -> None:
        """Forgets an assigned group and frees its gradient slot: the gradients there are not needed any more."""
        group = self._assigned.pop(key)
        self._workers.release_slot(group.worker, group.assignment.gradient_slot)

    def _handle_report(self, worker: Worker, report: AssignmentReport) -> Iterator[Action]:
        """Handles a worker's report on one assignment: records buckets whose gradients are complete, and the losses
        when the assignment is finished."""
        assignment = report.assignment
        if report.finished:
            worker.assignments.remove(assignment)
        if assignment.purpose == "validate":
            if report.finished and self.validation is not None:
                yield from self.validation.finish_batch(assignment.batch, report.outcomes[0].losses)
            return
        group = self._assigned[self._key_of(assignment.batch)]
        group.buckets.update(report.buckets)
        if report.finished:
            group.buckets.update(range(self.rules.num_buckets))
            group.absent = report.absent
            group.computed_by = str(worker.peer)
            group.outcomes = dict(zip(assignment.batches, report.outcomes, strict=True))
            for batch, outcome in group.outcomes.items():
                self._progress.losses[batch] = (*outcome.losses, *outcome.metrics)

    def _outcomes(self, assignment: Assignment, last: FinishedBatches) -> tuple[Outcome, ...]:
        """Returns the outcome of each batch of an assignment whose numbers are all finite. `last`: what the worker has
        written to shared memory: for each batch the members' losses, then their metrics."""
        num_losses = self.rules.members
        metrics = self.rules.metrics_of(assignment.step) if assignment.purpose == "train" else ()
        width = num_losses * (1 + len(metrics))
        outcomes = []
        for i in range(len(assignment.batches)):
            numbers = last.losses[i * width :][:width]
            outcomes.append(Outcome(numbers[:num_losses], metrics=numbers[num_losses:]))
        return tuple(outcomes)

    def _key_of(self, batch: int) -> GroupKey:
        """Returns the step, and the index in it, of the group that a training batch belongs to."""
        return self._groups.step_of(batch), self._groups.group_index(batch)

    def _find_group(self, group_index: int) -> AssignedGroup | None:
        """Returns an assigned group of batches of the step in progress; None if the group is not assigned."""
        return self._assigned.get((self.step, group_index))

    def _count_death(self, death: DeathInBatch) -> Iterator[Action]:
        """Counts a worker's death against the batch that it was computing. Ends the run if that is a validation batch
        that has failed too often, because no validation can do without it."""
        self._faults.add_death(death)
        if death.purpose != "validate":
            return
        reason = self._faults.reason_unusable("validate", death.step, death.batch)
        if reason:
            self._ended = True
            yield AbortRun(f"validation batch {death.batch} of version {death.step}: {reason}")

    def _reason_unusable(self, batch: int) -> str:
        """Returns the reason why a training batch is not to be assigned any more; empty if it may be."""
        return self._faults.reason_unusable("train", self._groups.step_of(batch), batch)

    def _leave_out_bad_batches(self) -> Iterator[Action]:
        """Leaves out batches of this step whose numbers are not finite, or that no worker can compute.

        Not to be called before the validation of this version and its consequences are done (`on_validation`). A batch
        may be finished earlier or later than that, and the state of a member that stops or is frozen must not depend on
        it. Batches that workers die of may be known early, because workers prepare batches one step ahead.
        """
        yield from self._handle_remote_shares()
        groups = [group for (step, _), group in self._assigned.items() if step == self.step]
        group_of = {batch: group for group in groups for batch in group.outcomes}
        for batch in list(self._progress.batches):
            if not self._ended and batch in group_of:
                yield from self._check_numbers(batch, group_of[batch])
            if not self._ended:
                yield from self._check_deaths(batch)

    def _handle_remote_shares(self) -> Iterator[Action]:
        """Handles what other machines have reported on the step in progress: the sums that they have sent, their
        losses, and batches that they can't use."""
        for machine in self.rules.remote_shares:
            share = self._remote_shares.pop((self.step, machine), None)
            if share is None:
                continue
            for bucket in share.buckets:
                self._progress.add_remote_sum(machine, bucket)
            if share.report is not None:
                yield from self._handle_remote_report(machine, share.report)

    def _handle_remote_report(self, machine: int, report: ShareReport) -> Iterator[Action]:
        """Handles another machine's report on its share of the step in progress."""
        if report.ends:
            self._last_step = self.step
            self.stopped_elsewhere = True
        for unusable in report.unusable:
            members = set(unusable.members) & self._members_using(unusable.batch)
            if members and not self._ended:
                yield from self._leave_out(unusable.batch, unusable.reason, members, machine)
        self._progress.add_remote_report(machine, report)

    def _check_numbers(self, batch: int, group: AssignedGroup) -> Iterator[Action]:
        """Leaves a finished batch out for the members whose loss or gradients are not finite in it. Members for which
        it was left out earlier don't count.

        `group` may have been dropped meanwhile, because another of its batches was left out.
        """
        using = self._members_using(batch)
        nonfinite = enumerate(group.outcomes[batch].nonfinite)
        infinite = {member: name for member, name in nonfinite if name and member in using}
        if infinite:
            names = _join_names(infinite.values())
            yield from self._leave_out(batch, f"{names} is not finite ({group.computed_by})", set(infinite))

    def _check_deaths(self, batch: int) -> Iterator[Action]:
        """Leaves a batch of this machine's share out if too many workers have died of it."""
        is_in_ring = batch < self.train.filled  # deaths seen by an earlier coordinator may be known before that
        if not is_in_ring or not self._progress.is_local(batch):
            return
        reason, members = self._reason_unusable(batch), self._members_using(batch)
        if reason and members:
            yield from self._leave_out(batch, reason, members)

    def _members_using(self, batch: int) -> set[int]:
        """Returns the trained members (networks of an ensemble) that use the batch in the step in progress."""
        return {member for member in self._training if batch in self._progress.batches_of(member)}

    def _leave_out(self, batch: int, reason: str, members: Set[int], machine: int | None = None) -> Iterator[Action]:
        """Decides that a batch takes no part in its step for these members. This is the only place that decides it.

        With `train.on_bad_batch = "stop"`, or if a member could use none of the last batches, the members are frozen
        instead, and the run ends if none is left. `machine`: the other machine that has the batch, None if it is this
        one.
        """
        stops = self.rules.on_bad_batch == "stop"
        hopeless = {member for member in members if self._is_hopeless(member, batch)}
        if hopeless and not stops:
            reason += "; no batch of the last steps could be used, so that leaving them out is no help"
        ending = members if stops else hopeless
        is_fatal = self._training <= ending
        is_for_some = self.rules.members > 1 and (len(members) == 1 or members < self._training)
        named_members = tuple(sorted(members)) if is_for_some else ()
        frozen_members = () if is_fatal else tuple(sorted(ending))
        cursor = self.train.cursor(batch) if machine is None else None
        yield BadBatch(self.step, batch, reason, cursor, is_fatal, named_members, frozen_members, machine)
        if is_fatal:
            self._ended = True
            return
        for member in frozen_members:
            yield self._freeze(member)
        self._progress.add_unusable(batch, sorted(members), reason)
        yield from self._restart_without(batch, sorted(members - ending))

    def _restart_without(self, batch: int, members: Sequence[int]) -> Iterator[Action]:
        """Takes a batch out of the sums of these members, which begin anew."""
        key = self._key_of(batch)
        if key in self._assigned and self._progress.shares_sum(batch, members):
            self._drop_group(key)  # the other batches of the group are computed again
        yield from self._progress.leave_out(batch, members, self._find_group)
        is_group_used = any(each in self._progress.batches for each in self._groups.batches(*key))
        if key in self._assigned and not is_group_used:
            self._drop_group(key)
        self._take_back_next_step()  # or its batches keep slots that this one needs once more

    def _is_hopeless(self, member: int, batch: int) -> bool:
        """Returns True if the batch is the last one left of the member's step, and too many steps before were lost for
        the member too."""
        is_last = list(self._progress.batches_of(member)) == [batch]
        return is_last and self._faults.is_hopeless(member, self.rules.batches_per_step)

    def _find_stopping(self, validations: Validations) -> set[int]:
        """Returns the members (networks of an ensemble) that stop training after the newest validation. The run ends if
        no other member is trained."""
        stopping = self.rules.stopping_rule.find_stopping(validations, self.step, self._training)
        self._stopped_early = stopping == self._training
        return stopping

    def _freeze(self, member: int) -> Freeze:
        """Ends the training of a member (network of an ensemble), from the step in progress on."""
        self._training.remove(member)
        self._progress.freeze(member)
        return Freeze(self.step, member)

    @property
    def _frozen(self) -> tuple[int, ...]:
        """The members (networks of an ensemble) that are not trained any more."""
        return tuple(member for member in range(self.rules.members) if member not in self._training)

    def _reduce_and_update(self) -> Iterator[Action]:
        """Adds up and updates what can be, and frees the gradient slots of groups that every bucket has added up."""
        for action in self._progress.advance(self._find_group, out_of_slots=self._is_starved):
            yield self._mark_last(action) if isinstance(action, AnnounceShare) else action
        for index in self.rules.share:
            group = self._find_group(index)
            if group is not None and group.is_finished and self._progress.is_reduced(index):
                self._drop_group((self.step, index))

    def _mark_last(self, action: AnnounceShare) -> AnnounceShare:
        """Returns the report to the other machines, marked as the last one if this machine was told to stop. All
        machines then end with this step."""
        if not self._draining:
            return action
        self._last_step = self.step
        return AnnounceShare(replace(action.report, ends=True))

    @property
    def _is_starved(self) -> bool:
        """True if a group of this step is ready, but no worker has a free gradient slot for it."""
        return self._workers.is_out_of_slots and next(self._unassigned_groups(), None) is not None

    def _unassigned_groups(self) -> Iterator[int]:
        """Yields the indices of the groups of batches of this step that could be computed and are assigned to no
        worker."""
        for index in self.rules.share:
            if self._find_group(index) is None and self._is_ready(self._batches_to_compute(self.step, index)):
                yield index

    @property
    def _can_commit(self) -> bool:
        """True if the step in progress is complete, and it is known where in the data stream the next one begins."""
        return self.step < self.rules.steps and self._progress.is_complete and self._knows_next_cursor

    @property
    def _knows_next_cursor(self) -> bool:
        """True if the feeder has filled all batches of the step, so that the beginning of the next one is known. Other
        machines may be ahead of this machine's feeder."""
        return self.train.filled >= (self.step + 1) * self.rules.batches_per_step

    def _commit(self) -> Commit:
        """Ends the step in progress and begins the next one. Returns the action that completes version step + 1."""
        step, progress, members = self.step, self._progress, range(self.rules.members)
        next_batch = (step + 1) * self.rules.batches_per_step
        losses = tuple(progress.losses_of(member) for member in members)
        metrics = progress.mean_metrics(self.rules.metrics_of(step), self.rules.members)
        lost_all = [member in self._training and not progress.batches_of(member) for member in members]
        self._faults.end_step(step, [self.rules.batches_per_step if lost else 0 for lost in lost_all])
        self.step += 1
        self._progress = StepProgress(self.step, self.rules, self._frozen)
        return Commit(
            step,
            losses,
            self.train.cursor(next_batch),
            self._faults.unused,
            self._validation_due,
            self.train.filled - next_batch,
            metrics,
        )

    def _free_batches(self) -> None:
        """Frees the ring slots of batches of committed steps, except those that a worker still reads."""
        committed = max(self.train.freed, self.step * self.rules.batches_per_step)
        self.train.free_below(self._workers.first_batch_in_use(committed))

    def _changed_orders(self) -> Iterator[Action]:
        """Yields orders for each worker and for the feeder whose orders have changed since they were last sent."""
        yield from self._workers.pop_changed_orders(self.step, self._frozen)
        if self._feeder is not None and self._workers.all_accounted_for:
            validation = None if self.validation is None else self.validation.ring.stream_orders()
            orders = FeederOrders(self.train.stream_orders(), validation)
            if orders != self._sent_to_feeder:
                self._sent_to_feeder = orders
                yield OrderFeeder(self._feeder, orders)


def _join_names(names: Iterable[str]) -> str:
    """Joins the names of what is not finite, such as `the loss` or a parameter: each name once, and at most _MAX_NAMES
    of them."""
    distinct = list(dict.fromkeys(names))
    joined = ", ".join(distinct[:_MAX_NAMES])
    return f"{joined}, ..." if len(distinct) > _MAX_NAMES else joined
