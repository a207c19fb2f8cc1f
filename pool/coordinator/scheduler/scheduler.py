"""The scheduler: who computes which batch, what is folded, when a step is complete.

Pure: no sockets, no torch, no clock. Events go in (`begin`, `worker_joined`, `worker_lost`, `worker_report`, ...),
actions come out; the caller carries them out in order. Reads like the invariants:

- step t takes batches tG .. tG+G-1, in groups that are assigned as one, and folds each bucket's gradients in that
  order, whoever computed them and in whatever order they came (I2);
- a batch of step t is computed with version t; the ring keeps it until t is committed (I3);
- a gradient slot belongs to its worker until every bucket in it is folded, or to nobody when that worker is
  dead: what it had finished stays valid, the rest is computed again (I4);
- when the coordinator has died, its successor orders the feeder nothing before every worker that was alive at its
  start has spoken to it or is dead: so no ring slot is filled again under a reader (I4, `WorkerPool.all_heard`).
  Weights need no such wait. What is computed with half of the old ones is reported to nobody, and the gradient
  slot that it lies in is assigned again to the same worker, which begins the next job when that one has ended.
  The same is true of a batch that was taken back and is begun nevertheless;
- where several machines compute a step, each has a scheduler. It computes its share of the groups, and decides which of
  their batches can't be used; the others take that, and the sums, from what it sends. Everything else every scheduler
  decides alike, from the same numbers: no machine asks another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import product

from loader.stream.interface import Cursor
from pool.checkpoint.plateau import Plateau
from pool.checkpoint.validations import NONE, Validation, Validations
from pool.coordinator.scheduler.actions import Action, Announce, BadBatch, Commit, End, Freeze, GiveUp, OrderFeeder, Say
from pool.coordinator.scheduler.fault_tracker import FaultTracker
from pool.coordinator.scheduler.ring import RingBook
from pool.coordinator.scheduler.rules import Rules
from pool.coordinator.scheduler.step_book import OtherShare, StepBook, Work
from pool.coordinator.scheduler.validation_book import ValidationBook
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

_MOST_NAMED = 3  # parameters, in a line

_Key = tuple[int, int]  # of a group: step and place


class StepScheduler:
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
        """`incarnation`: of the coordinator; after the first, workers and feeder may be those of the one that died.
        `known`, `plateaus`: as the last validation has made them; `frozen`: members that are trained no further;
        `unused`: of each member, as the last commit has said it; `deaths`: of workers that ended the coordinator with
        them, in batches of steps that have not been done since."""
        generation = incarnation << 32  # higher than all before it, and by more than an incarnation has attempts
        self.rules = rules
        self.step = step  # the step in progress, and so the newest complete version
        self.train = RingBook(start, generation)
        self.validation = ValidationBook(rules, generation, known, plateaus) if rules.validate_every else None
        self._workers = WorkerPool(rules.gradient_slots, successor=incarnation > 1)
        self._feeder: Peer | None = None
        self._feeder_sent: FeederOrders | None = None
        self._groups = rules.groups
        self._work: dict[_Key, Work] = {}  # of steps `step` and `step + 1`
        self._attempts = generation  # no number twice: a worker may die of a batch of an earlier incarnation
        self._training = set(range(rules.members)) - set(frozen)
        self._faults = FaultTracker(unused or (0,) * rules.members)
        self._earlier_deaths = deaths
        self._step = StepBook(step, rules, self._frozen)
        self._from_others: dict[tuple[int, int], OtherShare] = {}  # (step, machine): what the step does not know yet
        self._draining = False
        self._last: int | None = None  # the last step that is done, of several machines that were told to stop
        self.stopped_elsewhere = False  # another machine was told to stop
        self._stopped = False  # early: the step in progress has not begun, and does not
        self._ended = False

    # --- events ---

    def begin(self) -> list[Action]:
        """Comes before all other events: members may have stopped early with the version that the run goes on from."""
        actions = [action for death in self._earlier_deaths for action in self._blame(death)]
        if self.validation is None or self._ended:
            return actions
        stops = self._stop_early(self.validation.known)
        if self._stopped:
            return [Say(self.rules.stopping.why_again(self.validation.known, stops))]
        return [self._freeze(member) for member in sorted(stops)]

    def roster(self, workers: Set[Peer]) -> list[Action]:
        """Notes which workers are alive, those that have not joined included."""
        self._workers.roster(workers)
        return list(self._orders())

    def worker_joined(self, peer: Peer) -> list[Action]:
        """A worker is up; of an index that is new, or whose last holder was reported lost."""
        self._workers.join(peer)
        return self._advance()

    def worker_lost(self, peer: Peer, attempt: int = 0, in_work: int = -1, raised: str = "") -> list[Action]:
        """A worker is dead: what it had not finished goes back, what it had finished stays where it lies.

        `attempt`: that it was computing, 0 if it was computing none; `in_work`: which of its batches; `raised`: the
        exception in it that ended the worker, empty if none did.
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
        if (worker := self._workers.find(peer)) is None:
            return []
        actions: list[Action] = []
        self._workers.settled(worker, report.settled)
        for each in report.assignments:
            if each.assignment in worker.assignments:
                actions += self._report(worker, each)
        return actions + self._advance()

    def finished(self, news: Mapping[Peer, Finished]) -> list[Action]:
        """Notes what each of these workers has finished last: all of it is in its slot, and sound."""
        actions: list[Action] = []
        for peer, last in news.items():
            if (worker := self._workers.find(peer)) is None:
                continue
            for assignment in [each for each in worker.assignments if each.attempt == last.attempt]:
                actions += self._report(worker, AssignmentReport(assignment, outcomes=self._outcomes(assignment, last)))
        return actions + self._advance()

    def feeder_joined(self, peer: Peer) -> list[Action]:
        self._feeder = peer
        self._feeder_sent = None
        return self._advance()

    def feeder_lost(self, peer: Peer) -> list[Action]:
        if self._feeder == peer:
            self._feeder = None
            self.train.restart()
            if self.validation is not None:
                self.validation.ring.restart()
        return []

    def feeder_report(self, peer: Peer, report: FeederReport) -> list[Action]:
        if self._feeder != peer:
            return []
        self.train.report(report.train)
        if self.validation is not None:
            self.validation.ring.report(report.validation)
        return self._advance()

    def measured(self, validations: Sequence[Validation]) -> list[Action]:
        """The newest version has been measured, as `Measure` asks for, one validation a member. Members whose
        validations get no better learn more slowly, or stop; then the step that begins with the version may begin."""
        assert self.validation is not None
        assert all(validation.step == self.step for validation in validations), f"measured in step {self.step}"
        actions: list[Action] = list(self.validation.measured(validations, self._training))
        stops = self._stop_early(self.validation.known)
        if stops:
            actions.append(Say(self.rules.stopping.why(self.validation.known, stops)))
        if not self._stopped:
            actions += [self._freeze(member) for member in sorted(stops)]
        return actions + self._advance()

    def drain(self) -> list[Action]:
        """No new step is begun; the one in progress is finished. Where other machines compute with this one, all end
        with the first step of which they don't know yet what this one's share has come to."""
        self._draining = True
        if not self._machines:
            self._take_back_next_step()
        return self._advance()

    @property
    def waits_for_machines(self) -> bool:
        """All that the step lacks is what other machines have still to compute or to send."""
        return self._step.waits_for_others

    def share_computed(self, machine: int, report: ShareReport) -> list[Action]:
        """Another machine has computed its share of a step: this one, or the next."""
        if report.step < self.step:
            return []
        self._from_others.setdefault((report.step, machine), OtherShare()).report = report
        return self._advance()

    def share_summed(self, machine: int, step: int, bucket: int) -> list[Action]:
        """Another machine has sent what its share adds to a bucket, of this step or the next."""
        if step < self.step:
            return []
        self._from_others.setdefault((step, machine), OtherShare()).buckets.add(bucket)
        return self._advance()

    def say_again(self) -> list[Action]:
        """All orders once more, for whoever may have missed them (I5)."""
        self._workers.say_again()
        self._feeder_sent = None
        return list(self._orders())

    # --- decisions ---

    def _advance(self) -> list[Action]:
        """Does all that the state allows, in one fixed order."""
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
            folds = list(self._fold())
            actions += folds
            if self.step < self.rules.steps and self._step.complete and self._knows_next_cursor:
                actions.append(self._commit())
            elif not folds and not self._make_room():
                break
        if not self._ended and self._at_end:
            self._ended = True
            actions.append(End())
        self._free()
        actions += self._orders()
        return actions

    @property
    def _at_end(self) -> bool:
        if self._stopped or self._stops_here:
            return True
        return self.step == self.rules.steps and not self._validation_due

    @property
    def _machines(self) -> bool:
        """Others compute a step with this one."""
        return self.rules.machines > 1

    @property
    def _stops_here(self) -> bool:
        """The run was told to stop, and begins no new step."""
        if self._machines:
            return self._last is not None and self.step > self._last
        return self._draining and not self._begun

    @property
    def _begun(self) -> bool:
        """The step in progress has something to lose."""
        return self._step.begun or any(work.assignment.step == self.step for work in self._work.values())

    @property
    def _validation_due(self) -> bool:
        return self.validation is not None and self.validation.due(self.step)

    def _assign_validation(self) -> None:
        assert self.validation is not None
        for batch in self.validation.wanted():
            if (worker := self._workers.least_busy()) is None:
                return
            self._workers.assign(worker, self._assignment("validate", self.step, (batch,), -1))
            self.validation.assigned(batch, worker.peer.index)

    def _assign(self) -> None:
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
            worker = self._workers.least_busy(with_slot=True) if now else self._workers.least_busy_ahead(step, share)
            if worker is None:
                return
            assignment = self._assignment("train", step, batches, self._workers.free_slots(worker)[0])
            self._workers.assign(worker, assignment)
            self._work[step, place] = Work(assignment, worker.peer.index, worker.peer.incarnation)

    def _assignment(self, purpose: Purpose, step: int, batches: tuple[int, ...], slot: int) -> Assignment:
        self._attempts += 1
        train = purpose == "train"
        first = train and batches[0] == step * self.rules.batches_per_step
        left_out = self._step.left_out_of(batches) if train and step == self.step else ()
        return Assignment(purpose, step, batches, slot, self._attempts, first, left_out)

    def _wanted(self, step: int, place: int) -> tuple[int, ...]:
        """The batches of a group if its gradients are still to be computed, else none."""
        batches = tuple(self._groups.batches(step, place))
        if step > self.step:
            return batches
        batches = tuple(batch for batch in batches if batch in self._step.batches)
        return () if all(batch in self._step.losses for batch in batches) else batches

    def _is_ready(self, batches: tuple[int, ...]) -> bool:
        """There are some, and all of them are in the ring."""
        return bool(batches) and batches[-1] < self.train.filled

    def _take_back_next_step(self) -> None:
        """Revokes the batches of the next step, which are assigned early, to free their gradient slots. A worker may
        still read one: the ring keeps it so long (`WorkerPool.first_read`). Its result is of an attempt that nobody
        waits for, and the same worker computes what the slot gets next after it."""
        for key, work in list(self._work.items()):
            if work.assignment.step > self.step:
                self._workers.take_back(work.worker, work.assignment)
                del self._work[key]

    def _make_room(self) -> bool:
        """Gives up the last finished group, to be computed again, if all slots hold groups behind one that a dead
        worker had: its successor, which would have slots, may never come. True if there was one to give up."""
        missing = next(self._missing, None)
        if missing is None or not self._workers.out_of_slots:
            return False
        works = (item for item in self._work.items() if item[0][0] == self.step)
        held = {key[1]: work for key, work in works if self._workers.is_alive(work.worker)}
        finished = [place for place, work in held.items() if work.finished]
        if not finished or min(held) < missing:  # that one's slot is free when it is folded
            return False
        self._step.give_up(max(finished))
        self._drop_work((self.step, max(finished)))
        return True

    def _drop_work(self, key: _Key) -> None:
        """Its gradients are not needed any more where they lie."""
        work = self._work.pop(key)
        self._workers.release(work.worker, work.assignment.gradient_slot)

    def _report(self, worker: Worker, report: AssignmentReport) -> Iterator[Action]:
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
        """Returns the outcomes of each of a group's batches, all of it sound."""
        members = self.rules.members
        measured = self.rules.metrics_of(assignment.step) if assignment.purpose == "train" else ()
        width = members * (1 + len(measured))
        each = (last.losses[i * width :][:width] for i in range(len(assignment.batches)))
        return tuple(Outcome(numbers[:members], metrics=numbers[members:]) for numbers in each)

    def _key_of(self, batch: int) -> _Key:
        """Returns the key of the group that the batch is in."""
        return self._groups.step_of(batch), self._groups.place_of(batch)

    def _work_of(self, place: int) -> Work | None:
        """Returns the work of a group of the step in progress."""
        return self._work.get((self.step, place))

    def _blame(self, death: DeathInBatch) -> Iterator[Action]:
        self._faults.ended(death)
        if death.purpose == "validate" and (why := self._faults.verdict("validate", death.step, death.batch)):
            self._ended = True
            yield GiveUp(f"validation batch {death.batch} of version {death.step}: {why}")

    def _verdict(self, batch: int) -> str:
        """Why nobody is to compute it any more; empty if somebody may."""
        return self._faults.verdict("train", self._groups.step_of(batch), batch)

    def _judge(self) -> Iterator[Action]:
        """Batches of this step that can't be used, or computed; some workers may have ended when they prepared one.

        Not before what follows from the validation of this version is done (`measured`): a batch may be finished
        earlier or later than that, and the state of a member that stops or is frozen must not depend on it.
        """
        yield from self._hear_others()
        works = [work for key, work in self._work.items() if key[0] == self.step]
        finished = {batch: (work, outcome) for work in works for batch, outcome in work.outcomes.items()}
        for batch in list(self._step.batches):
            if not self._ended and batch in finished:
                yield from self._judge_numbers(batch, *finished[batch])
            if not self._step.is_own(batch):
                continue
            is_there = batch < self.train.filled  # not at once, if its deaths were a dead coordinator's, too
            if not self._ended and is_there and (why := self._verdict(batch)) and (members := self._using(batch)):
                yield from self._leave_out(batch, why, members)

    def _hear_others(self) -> Iterator[Action]:
        """Takes in what is known of other machines' shares of this step."""
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

    def _judge_numbers(self, batch: int, work: Work, outcome: Outcome) -> Iterator[Action]:
        """Leaves a batch out for the members that it is bad for; one that had to be computed again is left out already.
        `work` may have been dropped since, for another batch of its group."""
        using = self._using(batch)
        unsound = {member: what for member, what in enumerate(outcome.unsound) if what and member in using}
        if unsound:
            yield from self._leave_out(batch, f"{_first_of(unsound)} is not finite ({work.computed_by})", set(unsound))

    def _using(self, batch: int) -> set[int]:
        """Members in whose step the batch is."""
        return {member for member in self._training if batch in self._step.batches_of(member)}

    def _leave_out(self, batch: int, why: str, members: Set[int], machine: int | None = None) -> Iterator[Action]:
        """Only here is it decided that a batch takes no part in its step: that of these members. `machine`: another
        one, which has the batch."""
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
            self._drop_work(key)  # the others of its group are computed again
        yield from self._step.leave_out(batch, concerned_by_sum, self._work_of)
        if key in self._work and not any(each in self._step.batches for each in self._groups.batches(*key)):
            self._drop_work(key)
        self._take_back_next_step()  # or its batches keep slots that this one needs once more

    def _is_hopeless(self, member: int, batch: int) -> bool:
        """The batch is the last that is left of its step, and the member has lost those before, too."""
        is_last = list(self._step.batches_of(member)) == [batch]
        return is_last and self._faults.hopeless(member, self.rules.batches_per_step)

    def _stop_early(self, known: Validations) -> set[int]:
        """Returns the members that stop with the validation of this version. With the last ones the run ends."""
        stops = self.rules.stopping.stops(known, self.step, self._training)
        self._stopped = stops == self._training
        return stops

    def _freeze(self, member: int) -> Freeze:
        """From the step in progress on the member is not trained."""
        self._training.remove(member)
        self._step.freeze(member)
        return Freeze(self.step, member)

    @property
    def _frozen(self) -> tuple[int, ...]:
        return tuple(m for m in range(self.rules.members) if m not in self._training)

    def _fold(self) -> Iterator[Action]:
        for action in self._step.advance(self._work_of, starved=self._starved):
            yield self._announced(action) if isinstance(action, Announce) else action
        for place in self.rules.share:
            work = self._work_of(place)
            if work is not None and work.finished and self._step.is_folded(place):
                self._drop_work((self.step, place))

    def _announced(self, action: Announce) -> Announce:
        """The first step that other machines hear of after this one was told to stop is the last."""
        if not self._draining:
            return action
        self._last = self.step
        return Announce(replace(action.report, ends=True))

    @property
    def _starved(self) -> bool:
        """A group of this step is ready, and there are workers, but none has a gradient slot for it."""
        return self._workers.out_of_slots and next(self._missing, None) is not None

    @property
    def _missing(self) -> Iterator[int]:
        """Places of this step's groups that could be computed and are with nobody."""
        for place in self.rules.share:
            if self._work_of(place) is None and self._is_ready(self._wanted(self.step, place)):
                yield place

    @property
    def _knows_next_cursor(self) -> bool:
        """The feeder has got as far as the next step: other machines may be faster."""
        return self.train.filled >= (self.step + 1) * self.rules.batches_per_step

    def _commit(self) -> Commit:
        end = (self.step + 1) * self.rules.batches_per_step
        members = range(self.rules.members)
        losses = tuple(self._step.losses_of(m) for m in members)
        metrics = self._step.metrics_of(self.rules.metrics_of(self.step), self.rules.members)
        lost = [m in self._training and not self._step.batches_of(m) for m in members]
        step, cursor = self.step, self.train.cursor(end)
        self._faults.committed(step, [self.rules.batches_per_step * each for each in lost])
        self.step += 1
        self._step = StepBook(self.step, self.rules, self._frozen)
        ready = self.train.filled - end
        return Commit(step, losses, cursor, self._faults.unused, self._validation_due, ready, metrics)

    def _free(self) -> None:
        """Batches of committed steps, but for those that are still read."""
        self.train.free(self._workers.first_read(max(self.train.freed, self.step * self.rules.batches_per_step)))

    def _orders(self) -> Iterator[Action]:
        """Orders that differ from what the addressee was told last."""
        yield from self._workers.orders(self.step, self._frozen)
        if self._feeder is not None and self._workers.all_heard:
            validation = None if self.validation is None else self.validation.ring.orders()
            orders = FeederOrders(self.train.orders(), validation)
            if orders != self._feeder_sent:
                self._feeder_sent = orders
                yield OrderFeeder(self._feeder, orders)


def _first_of(unsound: Mapping[int, str]) -> str:
    """Names what is not finite, by member: each once, and no long list."""
    different = list(dict.fromkeys(unsound.values()))
    return ", ".join(different[:_MOST_NAMED]) + (", ..." if len(different) > _MOST_NAMED else "")
