"""The state of one step: which groups of batches are added up already, bucket by bucket. Pure: no sockets, no torch.

A group is consecutive batches that one worker computes. A bucket is parameters that the optimizer steps together. A
bucket is updated when its sum is complete and no batch of the step can be left out any more, which is when all numbers
of all batches are known to be finite. If a bad batch is not left out, but ends the run or freezes a member (`eager`),
it is enough that the numbers of the bucket's own member are finite. With a single member nothing is waited for, because
a bad batch would end the run, and the step with it.

A batch that is left out takes no part in the step: its group is computed again without it, and the sums begin anew. It
may be left out for one member (network of an ensemble) alone.

Where several machines compute a step, each adds up the groups of its own share. When all numbers of its batches are
known to be finite, it announces that (`AnnounceShare`) and sends the sums (`SendPartialSum`). From then on nothing of
the share changes. The sum of another machine is one more contribution to a bucket.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import fmean

from pool.coordinator.scheduler.actions import AnnounceShare, CopyBuffers, Reduce, SendPartialSum, Update
from pool.coordinator.scheduler.rules import Rules
from pool.exchange.groups import Contribution
from pool.protocol.messages import Assignment, BatchLosses, LeftOut, MetricValue, Outcome, ShareReport, Unusable


@dataclass
class AssignedGroup:
    """A group of training batches that is assigned to a worker, kept until every bucket has added up its gradients."""

    assignment: Assignment
    worker: int
    incarnation: int = 1  # of the worker
    buckets: set[int] = field(default_factory=set)  # whose gradients are complete in the gradient slot
    absent: tuple[int, ...] = ()  # parameters that got no gradient
    outcomes: dict[int, Outcome] = field(default_factory=dict)  # by batch, when it is finished
    computed_by: str = ""  # name of the worker, when it is finished

    @property
    def finished(self) -> bool:
        """True if all batches of the group are computed."""
        return bool(self.outcomes)


@dataclass
class ReceivedShare:
    """What another machine has sent of its share of a step so far."""

    report: ShareReport | None = None
    buckets: set[int] = field(default_factory=set)  # whose sums have arrived


@dataclass(frozen=True)
class MemberGroup:
    """The batches of one group that belong to a member's step: at least one, all that were not left out for the
    member."""

    place: int
    batches: tuple[int, ...]


FindGroup = Callable[[int], AssignedGroup | None]  # index of a group in the step -> its work, None: not assigned


class StepProgress:
    """Keeps the state of one step for the members that are trained in it. Each member has its own list of batches: all
    of the step's but for those that were left out for it."""

    def __init__(self, step: int, rules: Rules, frozen: Container[int] = ()) -> None:
        """Makes the record of a step of which nothing is computed yet. `frozen`: members (networks of an ensemble) that
        are not trained; their buckets take no part in the step."""
        groups, member_of = rules.groups, rules.member_of
        self.step = step
        self._share = rules.share
        self._other_places = rules.other_shares
        self._others = {machine: ReceivedShare() for machine in self._other_places}
        self._announced = not self._others  # the other machines have been sent the report of the share
        self._sent: set[int] = set()  # buckets whose sums were sent to the other machines
        self._unusable: list[Unusable] = []  # batches of this machine's share that were left out
        self._eager = rules.on_bad_batch == "stop" and not self._others  # no batch is ever left out
        batches = range(step * groups.batches_per_step, (step + 1) * groups.batches_per_step)
        self._groups = groups
        self._first = batches.start
        self._member_of = member_of
        self._buckets: dict[int, set[int]] = {}  # by member
        for bucket, member in enumerate(member_of):
            self._buckets.setdefault(member, set()).add(bucket)
        self._batches = {member: list(batches) for member in self._buckets if member not in frozen}
        self._parts = {member: self._parts_of(own) for member, own in self._batches.items()}  # ascending by index
        self._left_out: set[LeftOut] = set()
        self.batches = list(batches) if self._batches else []  # in the step of any member, in their order (I2)
        self.losses: dict[int, tuple[float, ...]] = {}  # finished batch -> losses, one a member, then metrics
        self._num_reduced = [0] * len(member_of)  # how many of its member's parts are in each bucket's sum
        self._updated = [member in frozen for member in member_of]  # by bucket: nothing is left to be done
        self._has_buffers = rules.has_buffers
        self._buffers_wanted = set(self._batches) if rules.has_buffers else set()  # members without new buffers yet

    @property
    def begun(self) -> bool:
        """True if any bucket has begun to add up gradients."""
        return any(self._num_reduced)

    @property
    def announced(self) -> bool:
        """True if the other machines have been sent this machine's report, so that its share of the step can't change
        any more."""
        return self._announced and bool(self._others)

    @property
    def waits_for_others(self) -> bool:
        """True if the step waits only for results that other machines have still to compute or to send."""
        return self.announced and not self.complete

    @property
    def complete(self) -> bool:
        """True if all buckets are updated and all batches finished, on all machines."""
        return all(self._updated) and self._all_finished

    @property
    def _all_finished(self) -> bool:
        return all(batch in self.losses for batch in self.batches) and all(
            other.report is not None for other in self._others.values()
        )

    def is_own(self, batch: int) -> bool:
        """True if the batch is computed on this machine, not on another one."""
        return self._groups.group_index(batch) in self._share

    def batches_of(self, member: int) -> Sequence[int]:
        """Returns the batches that the member's step is made of; none if the member is frozen."""
        return self._batches.get(member, ())

    def losses_of(self, member: int) -> tuple[float, ...]:
        """Returns the losses of the member's batches, in the order of the batches. All of these must be finished."""
        return tuple(self.losses[batch][member] for batch in self.batches_of(member))

    def metrics_of(self, names: Sequence[str], members: int) -> tuple[MetricValue, ...]:
        """Returns each metric's mean over each member's batches; NaN for a member without batches.

        `names`: of the metrics that each batch was measured by. All batches must be finished. The mean does not depend
        on the order of the batches.
        """

        def mean(member: int, place: int) -> float:
            at = members + member * len(names) + place
            own = [self.losses[batch][at] for batch in self.batches_of(member)]
            return fmean(own) if own else math.nan

        return tuple(
            MetricValue(name, tuple(mean(member, place) for member in range(members)))
            for place, name in enumerate(names)
        )

    def left_out_of(self, batches: Collection[int]) -> tuple[LeftOut, ...]:
        """Returns which of these batches are left out of the step, and for which member (network of an ensemble)
        each."""
        return tuple(sorted(each for each in self._left_out if each.batch in batches))

    def is_reduced(self, place: int) -> bool:
        """True if all buckets have added up the gradients of a group of batches, and nothing else in the group's
        gradient slot is needed. `place`: the index of the group in the step."""
        if self._buffers_wanted and place == 0:
            return False
        counts = {member: _count_up_to(place, parts) for member, parts in self._parts.items()}
        return all(
            counts.get(member, 0) <= count for member, count in zip(self._member_of, self._num_reduced, strict=True)
        )

    def shares_sum(self, batch: int, members: Iterable[int]) -> bool:
        """True if a gradient slot holds the sum of this batch and others that are in the step of one of these members.
        The slot's gradients can't be used once the batch is left out."""
        parts = (part for member in members for part in self._parts[member])
        return any(batch in part.batches and len(part.batches) > 1 for part in parts)

    def leave_out(self, batch: int, members: Iterable[int], work_of: FindGroup) -> Iterator[CopyBuffers]:
        """Takes a batch out of the step of these members, whose sums begin anew without it. Batches whose gradients are
        in no slot any more have to be computed again.

        A slot that holds the batch's sum with other batches must have been given up before (`shares_sum`).
        """
        for member in members:
            if batch == self._first:
                self._buffers_wanted.discard(member)
                if self._has_buffers:
                    yield CopyBuffers(self.step, member, None)
            self._batches[member].remove(batch)
            self._left_out.add(LeftOut(batch, member))
            for bucket in self._buckets[member]:
                assert not self._updated[bucket], f"batch {batch} of step {self.step} is in the weights already"
            if self.is_own(batch):
                assert not self.announced, f"batch {batch} of step {self.step} is in what other machines have"
                self._begin_anew(member, work_of)
        self._settle_batches()

    def _begin_anew(self, member: int, work_of: FindGroup) -> None:
        """Empties the sums of a member's gradients, so that they are added up again. Batches whose gradients are in no
        slot any more count as not computed."""
        self._parts[member] = self._parts_of(self._batches[member])
        for bucket in self._buckets[member]:
            self._num_reduced[bucket] = 0
        for other in filter(self.is_own, self._batches[member]):
            if work_of(self._groups.group_index(other)) is None:
                self.losses.pop(other, None)

    def note_unusable(self, batch: int, members: Iterable[int], why: str) -> None:
        """Notes a left-out batch of this machine's share of the step, for the report to the other machines. `why`: the
        reason in words."""
        if self.is_own(batch):
            self._unusable.append(Unusable(batch, tuple(members), why))

    def other_report(self, machine: int, report: ShareReport) -> None:
        """Takes another machine's report of its share of the step: losses of its batches. Batches that it can't use
        must have been left out before."""
        self._others[machine].report = report
        self.losses.update({each.batch: each.losses for each in report.losses if each.batch in self.batches})

    def other_sums(self, machine: int, bucket: int) -> None:
        """Notes that another machine's sum of a bucket's gradients has arrived."""
        self._others[machine].buckets.add(bucket)

    def give_up(self, place: int) -> None:
        """Forgets the losses of a group's batches, so that the group is computed again. Sums that it is in already stay
        as they are. `place`: the index of the group in the step."""
        for batch in self._groups.batches(self.step, place):
            self.losses.pop(batch, None)

    def freeze(self, member: int) -> None:
        """Takes a member (network of an ensemble) out of the step. None of its parameters may have been updated in it
        yet."""
        del self._batches[member], self._parts[member]
        self._buffers_wanted.discard(member)
        for bucket in self._buckets[member]:
            assert not self._updated[bucket], f"member {member} of step {self.step} is in the weights already"
            self._num_reduced[bucket], self._updated[bucket] = 0, True
        self._settle_batches()

    def advance(
        self, work_of: FindGroup, *, starved: bool
    ) -> Iterator[Reduce | CopyBuffers | AnnounceShare | SendPartialSum | Update]:
        """Yields all actions that are possible now: sums of gradients, updates of weights, and messages to other
        machines.

        The gradients of a bucket (parameters that are stepped together) are added up in one pass when those of all
        groups of batches are there. Some are added up earlier only if workers need gradient slots (`starved`).
        `work_of`: returns the work on a group.
        """
        yield from self._take_buffers(work_of)
        if not self._announced and all(batch in self.losses for batch in filter(self.is_own, self.batches)):
            self._announced = True
            yield AnnounceShare(self._report())
        settled = {member for member in self._batches if self._settled(member, work_of)}
        for bucket, begin in enumerate(self._num_reduced):
            if self._updated[bucket]:
                continue
            member = self._member_of[bucket]
            parts, count = self._parts[member], len(self._batches[member])
            reduction = self._reduce(bucket, parts, count, work_of, starved=starved)
            if reduction is not None:
                self._num_reduced[bucket] = begin = begin + len(reduction.contributions)
            if self._others:
                if reduction is not None:
                    yield reduction
                if begin == len(parts):
                    yield from self._with_others(bucket, settled=member in settled)
            elif begin == len(parts) and member in settled:
                self._updated[bucket] = True
                yield Update(self.step, bucket, count, reduction)
            elif reduction is not None:
                yield reduction

    def _with_others(self, bucket: int, *, settled: bool) -> Iterator[SendPartialSum | Update]:
        """Yields the next actions for a bucket that several machines add up, when this machine's sum is complete: sends
        the sum, and updates the bucket once the sums of all other machines have arrived. `settled`: no batch can be
        left out any more."""
        member = self._member_of[bucket]
        parts, count = self._parts[member], len(self._batches[member])
        if self._announced and parts and bucket not in self._sent:
            self._sent.add(bucket)
            yield SendPartialSum(self.step, bucket)
        found = {machine: self._batches_on(machine, member) for machine in self._others}
        missing = [m for m, batches in found.items() if batches and bucket not in self._others[m].buckets]
        if not settled or missing:
            return
        self._updated[bucket] = True
        rest = tuple(self._of_other(machine, batches) for machine, batches in found.items() if batches)
        places = range(self._groups.per_step)
        reduction = (
            Reduce(self.step, bucket, rest, places, first=not parts, last=True, batches=count) if count else None
        )
        yield Update(self.step, bucket, count, reduction)

    def _of_other(self, machine: int, batches: tuple[int, ...]) -> Contribution:
        """Returns the sum that another machine has sent as a contribution to a bucket's gradients. `batches`: those
        that it is made of."""
        return Contribution(batches, self._other_places[machine].start, -1, -1, (), machine=machine)

    def _batches_on(self, machine: int, member: int) -> tuple[int, ...]:
        """Returns the batches of the member's step that another machine computes."""
        places = self._other_places[machine]
        return tuple(batch for batch in self._batches[member] if self._groups.group_index(batch) in places)

    def _take_buffers(self, work_of: FindGroup) -> Iterator[CopyBuffers]:
        """Yields, for each member, the action that takes the model's buffers after the step's first batch, as soon as
        that is computed, on whichever machine."""
        if not self._buffers_wanted:
            return
        machine = next((m for m, places in self._other_places.items() if 0 in places), None)
        first = work_of(0) if machine is None else None
        is_there = first is not None and first.finished
        if machine is not None:
            is_there = self._others[machine].report is not None
        if not is_there:
            return
        wanted, self._buffers_wanted = sorted(self._buffers_wanted), set()
        for member in wanted:
            if first is not None:
                source = _contribution(first, self._parts[member][0])
            else:
                assert machine is not None
                source = self._of_other(machine, (self._first,))
            yield CopyBuffers(self.step, member, source)

    def _report(self) -> ShareReport:
        """Returns this machine's report on its share of the step, for the other machines: the losses of its batches,
        and the batches that can't be used."""
        own = filter(self.is_own, self.batches)
        losses = tuple(BatchLosses(batch, self.losses[batch]) for batch in own)
        return ShareReport(self.step, losses, tuple(self._unusable))

    def _reduce(
        self, bucket: int, parts: Sequence[MemberGroup], batches: int, work_of: FindGroup, *, starved: bool
    ) -> Reduce | None:
        """Returns the action that adds up the next groups of a bucket that are there, None if there are none. Unless
        `starved`, it waits until all remaining groups are there. `parts`: the member's groups; `batches`: how many
        batches its step has."""
        begin = self._num_reduced[bucket]
        contributions = []
        for part in parts[begin:]:
            work = work_of(part.place)
            if work is None or bucket not in work.buckets:
                break
            contributions.append(_contribution(work, part))
        complete = begin + len(contributions) == len(parts)
        if not contributions or not (complete or starved):
            return None
        places = self._share if complete else range(self._share.start, contributions[-1].group_index + 1)
        last = complete and not self._others
        return Reduce(self.step, bucket, tuple(contributions), places, begin == 0, last, batches)

    def _settled(self, member: int, work_of: FindGroup) -> bool:
        """True if no batch can be left out of the member's step any more, and none can freeze the member."""
        if not self._eager:
            return self._all_finished
        return len(self._batches) == 1 or all(self._is_sound(part, member, work_of) for part in self._parts[member])

    def _is_sound(self, part: MemberGroup, member: int, work_of: FindGroup) -> bool:
        """True if all of a member's losses and gradients from the batches of a group are known to be finite. If the
        group is not finished, the worker has reported all of the member's buckets, which it does only then."""
        work = work_of(part.place)
        if work is None or work.finished:
            return all(batch in self.losses for batch in part.batches)
        return self._buckets[member] <= work.buckets

    def _settle_batches(self) -> None:
        """Forgets the batches that were left out for every member that is trained."""
        wanted = set().union(*self._batches.values())
        for batch in self.batches:
            if batch not in wanted:
                self.losses.pop(batch, None)
        self.batches = sorted(wanted)

    def _parts_of(self, batches: Sequence[int]) -> list[MemberGroup]:
        """Returns the groups that these batches form, without those that other machines compute."""
        by_place = groupby(filter(self.is_own, batches), self._groups.group_index)
        return [MemberGroup(place, tuple(own)) for place, own in by_place]


def _contribution(work: AssignedGroup, part: MemberGroup) -> Contribution:
    slot = work.assignment.gradient_slot
    return Contribution(part.batches, part.place, work.worker, slot, work.absent, work.incarnation)


def _count_up_to(place: int, parts: Sequence[MemberGroup]) -> int:
    """Returns how many groups, in their order, a sum must hold so that the group at index `place` is among them; 0 if
    no part is of that group."""
    return next((index + 1 for index, part in enumerate(parts) if part.place == place), 0)
