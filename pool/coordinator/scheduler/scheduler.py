"""The scheduler decides which worker computes which batch, when gradients are added up, and when a step is complete.

It is pure: no sockets, no torch, no clock. Events go in (`begin`, `worker_joined`, `worker_lost`, `worker_report`,
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
  `WorkerPool.all_heard`). Weights need no such wait. A worker may still compute a batch while its weights are
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
from pool.coordinator.scheduler.step_progress import AssignedGroup, ReceivedShare, StepProgress
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
from pool.shm.signals import Finished

_MOST_NAMED = 3  # parameters that one line names at most

_Key = tuple[int, int]  # of a group: its step and its index in the step


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
        known: Validations = NONE,
        plateaus: Sequence[Plateau] = (),
        frozen: Iterable[int] = (),
        unused: Sequence[int] = (),
        deaths: Sequence[DeathInBatch] = (),
    ) -> None:
        """Makes the scheduler of a run that begins or is resumed. `step`, `start`: the first step of this process and
        where its first batch begins in the data stream.

        `incarnation`: of the coordinator; above 1, workers and feeder may still follow orders of the coordinator that
        died. `known`, `plateaus`: results of validations so far, and each member's state of the rule that lowers its
        learning rate. `frozen`: members (networks of an ensemble) that are trained no further. `unused`: for each
        member, the batches in a row that could not be used, as of the last commit. `deaths`: of workers whose failure
        ended an earlier coordinator too, in batches of steps that are not committed yet.
        """
        generation = incarnation << 32  # above all generations and attempts of earlier incarnations
        self.rules = rules
        self.step = step  # the step in progress, and so the newest complete version
        self.train = RingState(start, generation)
        self.validation = ValidationProgress(rules, generation, known, plateaus) if rules.validate_every else None
        self._workers = WorkerPool(rules.gradient_slots, successor=incarnation > 1)
        self._feeder: Peer | None = None
        self._feeder_sent: FeederOrders | None = None
        self._groups = rules.groups
        self._work: dict[_Key, AssignedGroup] = {}  # assigned groups of steps `step` and `step + 1`
        self._attempts = generation  # never used twice: a worker may die of a batch of an earlier coordinator
        self._training = set(range(rules.members)) - set(frozen)
        self._faults = FaultTracker(unused or (0,) * rules.members)
        self._earlier_deaths = deaths
        self._step = StepProgress(step, rules, self._frozen)
        self._from_others: dict[tuple[int, int], ReceivedShare] = {}  # by step and machine: received, not yet handled
        self._draining = False
        self._last: int | None = None  # the last step of the run, when several machines were told to stop
        self.stopped_elsewhere = False  # another machine was told to stop
        self._stopped = False  # by early stopping: the step in progress is not begun any more
        self._ended = False

    # --- events ---

    def begin(self) -> list[Action]:
        """Starts the scheduler, before all other events. Counts deaths that earlier coordinators have seen, and stops
        members that validations of the present version stop."""
        actions = [action for death in self._earlier_deaths for action in self._blame(death)]
        if self.validation is None or self._ended:
            return actions
        stops = self._stop_early(self.validation.known)
        if self._stopped:
            return [Notify(self.rules.stopping.describe_again(self.validation.known, stops))]
        return [self._freeze(member) for member in sorted(stops)]

    def roster(self, workers: Set[Peer]) -> list[Action]:
        """Notes which workers are alive, also those that have not joined yet."""
        self._workers.roster(workers)
        return list(self._orders())

    def worker_joined(self, peer: Peer) -> list[Action]:
        """Adds a worker that has started. A worker with the same index must have been reported lost before."""
        self._workers.join(peer)
        return self._advance()

    def worker_lost(self, peer: Peer, attempt: int = 0, in_work: int = -1, raised: str = "") -> list[Action]:
        """Removes a dead worker. Groups of batches that it had not finished are assigned again. Gradients that it had
        finished stay valid in its slots.

        `attempt`: the number of the assignment that it was computing, 0 if none. `in_work`: the batch of it that was
        being computed. `raised`: the exception that ended the worker in this attempt, empty if there was none.
        """
        if (worker := self._workers.find(peer)) is None:
            return []
        self._workers.leave(worker)
        for key, work in list(self._work.items()):
            if work.worker == peer.index and not work.finished:
                self._drop_work(key)
        if self.validation is not None:
            self.validation.worker_lost(peer.index)
        self._take_back_next_step()
        actions: list[Action] = []
        for held in [assignment for assignment in worker.assignments if assignment.attempt == attempt]:
            actions += self._blame(DeathInBatch(held.purpose, held.step, in_work, raised))
        return actions + self._advance()

    def worker_report(self, peer: Peer, report: WorkerReport) -> list[Action]:
        """Takes a worker's report on its assignments, and returns what follows. A report of a worker that is not known
        is ignored."""
        if (worker := self._workers.find(peer)) is None:
            return []
        actions: list[Action] = []
        self._workers.settled(worker, report.settled)
        for each in report.assignments:
            if each.assignment in worker.assignments:
                actions += self._report(worker, each)
        return actions + self._advance()

    def finished(self, news: Mapping[Peer, Finished]) -> list[Action]:
        """Takes the assignment that each worker has finished last, as it was read from shared memory. The gradients of
        such an assignment are complete in its slot, and all its numbers are finite."""
        actions: list[Action] = []
        for peer, last in news.items():
            if (worker := self._workers.find(peer)) is None:
                continue
            for assignment in [each for each in worker.assignments if each.attempt == last.attempt]:
                actions += self._report(worker, AssignmentReport(assignment, outcomes=self._outcomes(assignment, last)))
        return actions + self._advance()

    def feeder_joined(self, peer: Peer) -> list[Action]:
        """Takes a feeder that has started, and orders it to fill the rings."""
        self._feeder = peer
        self._feeder_sent = None
        return self._advance()

    def feeder_lost(self, peer: Peer) -> list[Action]:
        """Notes that the feeder is dead. Batches that it had reported stay ready; its successor begins with the next
        one."""
        if self._feeder == peer:
            self._feeder = None
            self.train.restart()
            if self.validation is not None:
                self.validation.ring.restart()
        return []

    def feeder_report(self, peer: Peer, report: FeederReport) -> list[Action]:
        """Takes the feeder's report on the batches that are ready in the rings, and returns what follows. A report of a
        feeder that is not the present one is ignored."""
        if self._feeder != peer:
            return []
        self.train.report(report.train)
        if self.validation is not None:
            self.validation.ring.report(report.validation)
        return self._advance()

    def measured(self, validations: Sequence[Validation]) -> list[Action]:
        """Takes the results of the validation that `FinishValidation` has asked for, one for each member.

        Members whose validations don't improve get a lower learning rate, or stop. After that the step that begins with
        the validated version may begin.
        """
        assert self.validation is not None
        assert all(validation.step == self.step for validation in validations), f"measured in step {self.step}"
        actions: list[Action] = list(self.validation.measured(validations, self._training))
        stops = self._stop_early(self.validation.known)
        if stops:
            actions.append(Notify(self.rules.stopping.why(self.validation.known, stops)))
        if not self._stopped:
            actions += [self._freeze(member) for member in sorted(stops)]
        return actions + self._advance()

    def drain(self) -> list[Action]:
        """Ends the run early: the step in progress is finished, and no new one is begun. Where several machines compute
        the run, all end after the same step: the first one whose share (this machine's part of the batches) was not
        announced to the others yet."""
        self._draining = True
        if not self._machines:
            self._take_back_next_step()
        return self._advance()

    @property
    def waits_for_machines(self) -> bool:
        """True if the step waits only for results that other machines have still to compute or to send."""
        return self._step.waits_for_others

    def share_computed(self, machine: int, report: ShareReport) -> list[Action]:
        """Takes another machine's report that it has computed its share of the batches of a step: the one in progress,
        or the next one."""
        if report.step < self.step:
            return []
        self._from_others.setdefault((report.step, machine), ReceivedShare()).report = report
        return self._advance()

    def share_summed(self, machine: int, step: int, bucket: int) -> list[Action]:
        """Notes that another machine has sent its sum of a bucket's gradients, for the step in progress or the next
        one."""
        if step < self.step:
            return []
        self._from_others.setdefault((step, machine), ReceivedShare()).buckets.add(bucket)
        return self._advance()

    def resend_orders(self) -> list[Action]:
        """Returns all orders once more, for processes that may have missed them (I5)."""
        self._workers.resend_orders()
        self._feeder_sent = None
        return list(self._orders())

    # --- decisions ---

    def _advance(self) -> list[Action]:
        """Returns all actions that the present state allows, in one fixed order: validation, bad batches, assignments,
        sums and updates, commits, orders."""
        actions: list[Action] = []
        while not (self._ended or self._at_end):
            if self.validation is not None and self.validation.due(self.step):
                actions += self.validation.advance(self.step)
            if self._validation_due:
                self._assign_validation()
                break
            actions += self._judge()
            if self._ended:
                break
            self._assign()
            reductions = list(self._reduce())
            actions += reductions
            if self.step < self.rules.steps and self._step.complete and self._knows_next_cursor:
                actions.append(self._commit())
            elif not reductions and not self._make_room():
                break
        if not self._ended and self._at_end:
            self._ended = True
            actions.append(EndRun())
        self._free()
        actions += self._orders()
        return actions

    @property
    def _at_end(self) -> bool:
        """True if the run is over: all steps are committed and validated, or it was stopped."""
        if self._stopped or self._stops_here:
            return True
        return self.step == self.rules.steps and not self._validation_due

    @property
    def _machines(self) -> bool:
        """True if several machines compute each step together."""
        return self.rules.machines > 1

    @property
    def _stops_here(self) -> bool:
        """True if the run was told to stop and the step in progress is not to be begun."""
        if self._machines:
            return self._last is not None and self.step > self._last
        return self._draining and not self._begun

    @property
    def _begun(self) -> bool:
        """True if work on the step in progress exists: something was added up, or a group is assigned."""
        return self._step.begun or any(work.assignment.step == self.step for work in self._work.values())

    @property
    def _validation_due(self) -> bool:
        """True if the newest version has to be validated before its step begins."""
        return self.validation is not None and self.validation.due(self.step)

    def _assign_validation(self) -> None:
        """Assigns validation batches that are ready to the workers that have least to do."""
        assert self.validation is not None
        for batch in self.validation.wanted():
            if (worker := self._workers.least_busy()) is None:
                return
            self._workers.assign(worker, self._assignment("validate", self.step, (batch,), -1))
            self.validation.assigned(batch, worker.peer.index)

    def _assign(self) -> None:
        """Assigns the groups of this step and the next one to workers, as far as batches and gradient slots are there.

        The next step's groups are assigned one step ahead, so that workers can prepare their batches. A draining run
        assigns only the step in progress.
        """
        ahead = 1 if self._draining else 2
        end = self.rules.steps if self._last is None else self._last + 1
        for step, place in product(range(self.step, min(self.step + ahead, end)), self.rules.share):
            if self._groups.batches(step, place).start >= self.train.filled:
                return
            batches = self._wanted(step, place)
            if not self._is_ready(batches) or (step, place) in self._work or any(map(self._verdict, batches)):
                continue
            if self._stops_here:
                return
            now, share = step == self.step, self._groups.per_step
            worker = (
                self._workers.least_busy(with_slot=True) if now else self._workers.least_busy_for_next_step(step, share)
            )
            if worker is None:
                return
            assignment = self._assignment("train", step, batches, self._workers.free_slots(worker)[0])
            self._workers.assign(worker, assignment)
            self._work[step, place] = AssignedGroup(assignment, worker.peer.index, worker.peer.incarnation)

    def _assignment(self, purpose: Purpose, step: int, batches: tuple[int, ...], slot: int) -> Assignment:
        """Makes an assignment with a new attempt number. `slot`: the worker's gradient slot, -1 for a validation."""
        self._attempts += 1
        train = purpose == "train"
        first = train and batches[0] == step * self.rules.batches_per_step
        left_out = self._step.left_out_of(batches) if train and step == self.step else ()
        return Assignment(purpose, step, batches, slot, self._attempts, first, left_out)

    def _wanted(self, step: int, place: int) -> tuple[int, ...]:
        """Returns the batches of a group whose gradients are still to be computed; none if all of the group's losses
        are there. Batches that were left out of the step are not among them. `place`: the index of the group in its
        step."""
        batches = tuple(self._groups.batches(step, place))
        if step > self.step:
            return batches
        batches = tuple(batch for batch in batches if batch in self._step.batches)
        return () if all(batch in self._step.losses for batch in batches) else batches

    def _is_ready(self, batches: tuple[int, ...]) -> bool:
        """True if there are batches, and all of them are in the ring."""
        return bool(batches) and batches[-1] < self.train.filled

    def _take_back_next_step(self) -> None:
        """Revokes the groups of the next step, which were assigned early, to free their gradient slots.

        A worker may still read such a batch, so the ring keeps it until it does not (`WorkerPool.first_read`). The
        result is ignored, because its attempt is not known any more. The same worker computes the slot's next group,
        after the revoked one.
        """
        for key, work in list(self._work.items()):
            if work.assignment.step > self.step:
                self._workers.take_back(work.worker, work.assignment)
                del self._work[key]

    def _make_room(self) -> bool:
        """Gives up the last finished group of the step, so that its gradient slot is free and the group is computed
        again. Returns True if it has.

        It does so only if all slots hold groups that come after one that a dead worker had. That group can't be
        assigned, and the dead worker's successor, which would have free slots, may never come.
        """
        missing = next(self._missing, None)
        if missing is None or not self._workers.out_of_slots:
            return False
        works = (item for item in self._work.items() if item[0][0] == self.step)
        held = {key[1]: work for key, work in works if self._workers.is_alive(work.worker)}
        finished = [place for place, work in held.items() if work.finished]
        if not finished or min(held) < missing:  # an earlier group can be added up, which frees its slot
            return False
        self._step.give_up(max(finished))
        self._drop_work((self.step, max(finished)))
        return True

    def _drop_work(self, key: _Key) -> None:
        """Forgets a group's work and frees its gradient slot: the gradients there are not needed any more."""
        work = self._work.pop(key)
        self._workers.release(work.worker, work.assignment.gradient_slot)

    def _report(self, worker: Worker, report: AssignmentReport) -> Iterator[Action]:
        """Handles a worker's report on one assignment: notes buckets whose gradients are complete, and the losses when
        it is finished."""
        assignment = report.assignment
        if report.finished:
            worker.assignments.remove(assignment)
        if assignment.purpose == "validate":
            if report.finished and self.validation is not None:
                yield from self.validation.finished(assignment.batch, report.outcomes[0].losses)
            return
        work = self._work[self._key_of(assignment.batch)]
        work.buckets.update(report.buckets)
        if report.finished:
            work.buckets.update(range(self.rules.num_buckets))
            work.absent = report.absent
            work.computed_by = str(worker.peer)
            work.outcomes = dict(zip(assignment.batches, report.outcomes, strict=True))
            self._step.losses.update(
                {batch: (*outcome.losses, *outcome.metrics) for batch, outcome in work.outcomes.items()}
            )

    def _outcomes(self, assignment: Assignment, last: Finished) -> tuple[Outcome, ...]:
        """Returns the outcome of each batch of an assignment whose numbers are all finite. `last`: what the worker has
        written to shared memory: for each batch the members' losses, then their metrics."""
        members = self.rules.members
        measured = self.rules.metrics_of(assignment.step) if assignment.purpose == "train" else ()
        width = members * (1 + len(measured))
        each = (last.losses[i * width :][:width] for i in range(len(assignment.batches)))
        return tuple(Outcome(numbers[:members], metrics=numbers[members:]) for numbers in each)

    def _key_of(self, batch: int) -> _Key:
        """Returns the step, and the index in it, of the group that a training batch belongs to."""
        return self._groups.step_of(batch), self._groups.group_index(batch)

    def _work_of(self, place: int) -> AssignedGroup | None:
        """Returns the work on a group of batches of the step in progress; None if the group is not assigned. `place`:
        the index of the group."""
        return self._work.get((self.step, place))

    def _blame(self, death: DeathInBatch) -> Iterator[Action]:
        """Counts a worker's death against the batch that it was computing. Ends the run if that is a validation batch
        that has failed too often, because no validation can do without it."""
        self._faults.ended(death)
        if death.purpose == "validate" and (why := self._faults.verdict("validate", death.step, death.batch)):
            self._ended = True
            yield AbortRun(f"validation batch {death.batch} of version {death.step}: {why}")

    def _verdict(self, batch: int) -> str:
        """Returns the reason why a training batch is not to be assigned any more; empty if it may be."""
        return self._faults.verdict("train", self._groups.step_of(batch), batch)

    def _judge(self) -> Iterator[Action]:
        """Leaves out batches of this step whose numbers are not finite, or that no worker can compute.

        It is not called before the validation of this version and its consequences are done (`measured`). A batch may
        be finished earlier or later than that, and the state of a member that stops or is frozen must not depend on it.
        Batches that workers die of may be known early, because workers prepare batches one step ahead.
        """
        yield from self._hear_others()
        works = [work for key, work in self._work.items() if key[0] == self.step]
        finished = {batch: (work, outcome) for work in works for batch, outcome in work.outcomes.items()}
        for batch in list(self._step.batches):
            if not self._ended and batch in finished:
                yield from self._judge_numbers(batch, *finished[batch])
            if not self._step.is_own(batch):
                continue
            is_there = batch < self.train.filled  # deaths seen by an earlier coordinator may be known before that
            if not self._ended and is_there and (why := self._verdict(batch)) and (members := self._using(batch)):
                yield from self._leave_out(batch, why, members)

    def _hear_others(self) -> Iterator[Action]:
        """Handles what other machines have reported on the step in progress: the sums that they have sent, their
        losses, and batches that they can't use."""
        for machine in self.rules.other_shares:
            share = self._from_others.get((self.step, machine))
            if share is None:
                continue
            del self._from_others[self.step, machine]
            for bucket in share.buckets:
                self._step.other_sums(machine, bucket)
            if share.report is None:
                continue
            if share.report.ends:
                self._last = self.step
                self.stopped_elsewhere = True
            for each in share.report.unusable:
                members = set(each.members) & self._using(each.batch)
                if members and not self._ended:
                    yield from self._leave_out(each.batch, each.why, members, machine)
            self._step.other_report(machine, share.report)

    def _judge_numbers(self, batch: int, work: AssignedGroup, outcome: Outcome) -> Iterator[Action]:
        """Leaves a finished batch out for the members whose loss or gradients are not finite in it. Members for which
        it was left out earlier don't count.

        `work` may have been dropped meanwhile, because another batch of its group was left out.
        """
        using = self._using(batch)
        unsound = {member: what for member, what in enumerate(outcome.unsound) if what and member in using}
        if unsound:
            yield from self._leave_out(batch, f"{_first_of(unsound)} is not finite ({work.computed_by})", set(unsound))

    def _using(self, batch: int) -> set[int]:
        """Returns the trained members (networks of an ensemble) that use the batch in the step in progress."""
        return {member for member in self._training if batch in self._step.batches_of(member)}

    def _leave_out(self, batch: int, why: str, members: Set[int], machine: int | None = None) -> Iterator[Action]:
        """Decides that a batch takes no part in its step for these members. This is the only place that decides it.

        With `train.on_bad_batch = "stop"`, or if a member could use none of the last batches, the members are frozen
        instead, and the run ends if none is left. `machine`: the other machine that has the batch, None if it is this
        one.
        """
        stop = self.rules.on_bad_batch == "stop"
        hopeless = {member for member in members if self._is_hopeless(member, batch)}
        if hopeless and not stop:
            why += "; no batch of the last steps could be used, so that leaving them out is no help"
        ends = members if stop else hopeless
        fatal = self._training <= ends
        of_some = self.rules.members > 1 and (len(members) == 1 or members < self._training)
        concerned = tuple(sorted(members)) if of_some else ()
        freezes = () if fatal else tuple(sorted(ends))
        cursor = self.train.cursor(batch) if machine is None else None
        yield BadBatch(self.step, batch, why, cursor, fatal, concerned, freezes, machine)
        if fatal:
            self._ended = True
            return
        for m in freezes:
            yield self._freeze(m)
        self._step.note_unusable(batch, sorted(members), why)
        key, concerned_by_sum = self._key_of(batch), sorted(members - ends)
        if key in self._work and self._step.shares_sum(batch, concerned_by_sum):
            self._drop_work(key)  # the other batches of the group are computed again
        yield from self._step.leave_out(batch, concerned_by_sum, self._work_of)
        if key in self._work and not any(each in self._step.batches for each in self._groups.batches(*key)):
            self._drop_work(key)
        self._take_back_next_step()  # or its batches keep slots that this one needs once more

    def _is_hopeless(self, member: int, batch: int) -> bool:
        """True if the batch is the last one left of the member's step, and too many steps before were lost for the
        member too."""
        is_last = list(self._step.batches_of(member)) == [batch]
        return is_last and self._faults.hopeless(member, self.rules.batches_per_step)

    def _stop_early(self, known: Validations) -> set[int]:
        """Returns the members (networks of an ensemble) that stop training after the newest validation. The run ends if
        no other member is trained."""
        stops = self.rules.stopping.stops(known, self.step, self._training)
        self._stopped = stops == self._training
        return stops

    def _freeze(self, member: int) -> Freeze:
        """Ends the training of a member (network of an ensemble), from the step in progress on."""
        self._training.remove(member)
        self._step.freeze(member)
        return Freeze(self.step, member)

    @property
    def _frozen(self) -> tuple[int, ...]:
        """The members (networks of an ensemble) that are not trained any more."""
        return tuple(m for m in range(self.rules.members) if m not in self._training)

    def _reduce(self) -> Iterator[Action]:
        """Adds up and updates what can be, and frees the gradient slots of groups that every bucket has added up."""
        for action in self._step.advance(self._work_of, starved=self._starved):
            yield self._announced(action) if isinstance(action, AnnounceShare) else action
        for place in self.rules.share:
            work = self._work_of(place)
            if work is not None and work.finished and self._step.is_reduced(place):
                self._drop_work((self.step, place))

    def _announced(self, action: AnnounceShare) -> AnnounceShare:
        """Returns the report to the other machines, marked as the last one if this machine was told to stop. All
        machines then end with this step."""
        if not self._draining:
            return action
        self._last = self.step
        return AnnounceShare(replace(action.report, ends=True))

    @property
    def _starved(self) -> bool:
        """True if a group of this step is ready, but no worker has a free gradient slot for it."""
        return self._workers.out_of_slots and next(self._missing, None) is not None

    @property
    def _missing(self) -> Iterator[int]:
        """Yields the indices of the groups of batches of this step that could be computed and are assigned to no
        worker."""
        for place in self.rules.share:
            if self._work_of(place) is None and self._is_ready(self._wanted(self.step, place)):
                yield place

    @property
    def _knows_next_cursor(self) -> bool:
        """True if the feeder has filled all batches of the step, so that the beginning of the next one is known. Other
        machines may be ahead of this machine's feeder."""
        return self.train.filled >= (self.step + 1) * self.rules.batches_per_step

    def _commit(self) -> Commit:
        """Ends the step in progress and begins the next one. Returns the action that completes version step + 1."""
        end = (self.step + 1) * self.rules.batches_per_step
        members = range(self.rules.members)
        losses = tuple(self._step.losses_of(m) for m in members)
        metrics = self._step.metrics_of(self.rules.metrics_of(self.step), self.rules.members)
        lost = [m in self._training and not self._step.batches_of(m) for m in members]
        step, cursor = self.step, self.train.cursor(end)
        self._faults.committed(step, [self.rules.batches_per_step * each for each in lost])
        self.step += 1
        self._step = StepProgress(self.step, self.rules, self._frozen)
        ready = self.train.filled - end
        return Commit(step, losses, cursor, self._faults.unused, self._validation_due, ready, metrics)

    def _free(self) -> None:
        """Frees the ring slots of batches of committed steps, except those that a worker still reads."""
        self.train.free(self._workers.first_read(max(self.train.freed, self.step * self.rules.batches_per_step)))

    def _orders(self) -> Iterator[Action]:
        """Yields orders for each worker and for the feeder whose orders have changed since they were last sent."""
        yield from self._workers.orders(self.step, self._frozen)
        if self._feeder is not None and self._workers.all_heard:
            validation = None if self.validation is None else self.validation.ring.orders()
            orders = FeederOrders(self.train.orders(), validation)
            if orders != self._feeder_sent:
                self._feeder_sent = orders
                yield OrderFeeder(self._feeder, orders)


def _first_of(unsound: Mapping[int, str]) -> str:
    """Names what is not finite, such as `the loss` or a parameter: each name once, and at most _MOST_NAMED of them.
    `unsound`: by member."""
    different = list(dict.fromkeys(unsound.values()))
    return ", ".join(different[:_MOST_NAMED]) + (", ..." if len(different) > _MOST_NAMED else "")
