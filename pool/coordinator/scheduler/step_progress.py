"""The state of one step: which groups of batches are added up already, bucket by bucket. Pure: no sockets, no torch.

A group is consecutive batches that one worker computes. A bucket is parameters that the optimizer steps together. A
bucket is updated when its sum is complete and no batch of the step can be left out any more, which is when all numbers
of all batches are known to be finite. If a bad batch is not left out, but ends the run or freezes a member
(`never_skips`), it is enough that the numbers of the bucket's own member are finite. With a single member nothing is
waited for, because a bad batch would end the run, and the step with it.

A batch that is left out takes no part in the step: its group is computed again without it, and the sums begin anew. It
may be left out for one member (network of an ensemble) alone.

Where several machines compute a step, each adds up the groups of its own share. When all numbers of its batches are
known to be finite, the machine announces that (`AnnounceShare`) and sends the sums (`SendPartialSum`). From then on
nothing of the share changes. The sum of another machine is one more contribution to a bucket.
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
from pool.protocol.messages import (
    Assignment,
    BatchLosses,
    ExcludedBatch,
    MetricValue,
    Outcome,
    ShareReport,
    UnusableBatch,
)


@dataclass
class AssignedGroup:
    """A group of training batches that is assigned to a worker, kept until every bucket has added up its gradients."""

    assignment: Assignment
    worker: int
    incarnation: int = 1  # of the worker
    buckets: set[int] = field(default_factory=set)  # whose gradients are complete in the gradient slot
    absent: tuple[int, ...] = ()  # parameters that got no gradient
    outcomes: dict[int, Outcome] = field(default_factory=dict)  # by batch, when the group is finished
    computed_by: str = ""  # name of the worker, when the group is finished

    @property
    def is_finished(self) -> bool:
        """True if all batches of the group are computed."""
        return bool(self.outcomes)


@dataclass
class RemoteShare:
    """What another machine has sent of its share of a step so far."""

    report: ShareReport | None = None
    buckets: set[int] = field(default_factory=set)  # whose sums have arrived


@dataclass(frozen=True)
class MemberGroup:
    """The batches of one group that belong to a member's step: at least one, all that were not left out for the
    member."""

    index: int  # of the group in its step
    batches: tuple[int, ...]


FindGroup = Callable[[int], AssignedGroup | None]  # from the index of a group in the step; None: not assigned


class StepProgress:
    """Keeps the state of one step for the members that are trained in it. Each member has its own list of batches: all
    of the step's but for those that were left out for it."""

    def __init__(self, step: int, rules: Rules, frozen: Container[int] = ()) -> None:
        """Creates the record of a step of which nothing is computed yet. `frozen`: members (networks of an ensemble)
        that are not trained; their buckets take no part in the step."""
        groups, member_of = rules.groups, rules.member_of
        batches = range(step * groups.batches_per_step, (step + 1) * groups.batches_per_step)
        self.step = step
        self._groups = groups
        self._first_batch = batches.start
        self._never_skips = rules.on_bad_batch == "stop" and rules.machines == 1  # no batch is ever left out

        # by machine: the indices of the groups of its share, and what it has sent of the share
        self._share = rules.share
        self._remote_groups = rules.remote_shares
        self._remote_shares = {machine: RemoteShare() for machine in self._remote_groups}
        self._is_distributed = bool(self._remote_shares)
        self._announced = False  # the report of this machine's share was sent to the other machines
        self._sent: set[int] = set()  # buckets whose sums were sent to the other machines
        self._unusable: list[UnusableBatch] = []  # batches of this machine's share that were left out

        # by member
        self._buckets: dict[int, set[int]] = {}
        for bucket, member in enumerate(member_of):
            self._buckets.setdefault(member, set()).add(bucket)
        self._batches = {member: list(batches) for member in self._buckets if member not in frozen}
        self._member_groups = {member: self._local_groups(own) for member, own in self._batches.items()}
        self._left_out: set[ExcludedBatch] = set()
        self._has_buffers = rules.has_buffers
        self._lacks_buffers = set(self._batches) if rules.has_buffers else set()  # members without new buffers yet

        # by batch
        self.batches = list(batches) if self._batches else []  # in the step of any member, in their order (I2)
        self.losses: dict[int, tuple[float, ...]] = {}  # finished batch -> losses, one a member, then metrics

        # by bucket
        self._member_of = member_of
        self._num_reduced = [0] * len(member_of)  # how many of its member's groups are in the sum
        self._updated = [member in frozen for member in member_of]  # True: nothing is left to be done

    @property
    def has_begun(self) -> bool:
        """True if any bucket has begun to add up gradients."""
        return any(self._num_reduced)

    @property
    def waits_for_machines(self) -> bool:
        """True if the step waits only for results that other machines have still to compute or to send."""
        return self._announced and not self.is_complete

    @property
    def is_complete(self) -> bool:
        """True if all buckets are updated and all batches finished, on all machines."""
        return all(self._updated) and self._all_finished

    @property
    def _all_finished(self) -> bool:
        """True if all batches of the step are computed, on all machines."""
        all_reported = all(share.report is not None for share in self._remote_shares.values())
        return all_reported and all(batch in self.losses for batch in self.batches)

    def is_local(self, batch: int) -> bool:
        """Returns True if the batch is computed on this machine, not on another one."""
        return self._groups.group_index(batch) in self._share

    def batches_of(self, member: int) -> Sequence[int]:
        """Returns the batches that the member's step is made of; none if the member is frozen."""
        return self._batches.get(member, ())

    def losses_of(self, member: int) -> tuple[float, ...]:
        """Returns the losses of the member's batches, in the order of the batches. All of these must be finished."""
        return tuple(self.losses[batch][member] for batch in self.batches_of(member))

    def mean_metrics(self, names: Sequence[str], num_members: int) -> tuple[MetricValue, ...]:
        """Returns each metric's mean over each member's batches; NaN for a member without batches.

        `names`: of the metrics that each batch was measured by. All batches must be finished. The mean does not depend
        on the order of the batches.
        """

        def mean(member: int, metric: int) -> float:
            # numbers of a batch: a loss for each member, then all metrics of member 0, of member 1, ...
            index = num_members + member * len(names) + metric
            values = [self.losses[batch][index] for batch in self.batches_of(member)]
            return fmean(values) if values else math.nan

        return tuple(
            MetricValue(name, tuple(mean(member, metric) for member in range(num_members)))
            for metric, name in enumerate(names)
        )

    def left_out_among(self, batches: Collection[int]) -> tuple[ExcludedBatch, ...]:
        """Returns which of these batches are left out of the step, and for which member (network of an ensemble)
        each."""
        return tuple(sorted(entry for entry in self._left_out if entry.batch in batches))

    def is_reduced(self, group_index: int) -> bool:
        """Returns True if all buckets have added up the gradients of a group of batches, and nothing else in the
        group's gradient slot is needed."""
        if self._lacks_buffers and group_index == 0:
            return False
        needed = {member: _num_up_to(group_index, groups) for member, groups in self._member_groups.items()}
        return all(
            needed.get(member, 0) <= num_reduced
            for member, num_reduced in zip(self._member_of, self._num_reduced, strict=True)
        )

    def shares_sum(self, batch: int, members: Iterable[int]) -> bool:
        """Returns True if a gradient slot holds the sum of this batch and others that are in the step of one of these
        members. The slot's gradients can't be used once the batch is left out."""
        groups = (group for member in members for group in self._member_groups[member])
        return any(batch in group.batches and len(group.batches) > 1 for group in groups)

    def leave_out(self, batch: int, members: Iterable[int], find_group: FindGroup) -> Iterator[CopyBuffers]:
        """Takes a batch out of the step of these members, whose sums begin anew without it. Batches whose gradients are
        in no slot any more have to be computed again.

        A slot that holds the batch's sum with other batches must have been given up before (`shares_sum`).
        """
        for member in members:
            if batch == self._first_batch:
                self._lacks_buffers.discard(member)
                if self._has_buffers:
                    yield CopyBuffers(self.step, member, None)
            self._batches[member].remove(batch)
            self._left_out.add(ExcludedBatch(batch, member))
            for bucket in self._buckets[member]:
                assert not self._updated[bucket], f"batch {batch} of step {self.step} is in the weights already"
            if self.is_local(batch):
                assert not self._announced, f"batch {batch} of step {self.step} is in what other machines have"
                self._restart_sums(member, find_group)
        self._forget_unused_batches()

    def _restart_sums(self, member: int, find_group: FindGroup) -> None:
        """Empties the sums of a member's gradients, so that they are added up again. Batches whose gradients are in no
        slot any more count as not computed."""
        self._member_groups[member] = self._local_groups(self._batches[member])
        for bucket in self._buckets[member]:
            self._num_reduced[bucket] = 0
        for batch in filter(self.is_local, self._batches[member]):
            if find_group(self._groups.group_index(batch)) is None:
                self.losses.pop(batch, None)

    def add_unusable(self, batch: int, members: Iterable[int], reason: str) -> None:
        """Adds a batch that was left out to the report to the other machines, if this machine has the batch."""
        if self.is_local(batch):
            self._unusable.append(UnusableBatch(batch, tuple(members), reason))

    def add_remote_report(self, machine: int, report: ShareReport) -> None:
        """Adds another machine's report of its share of the step: losses of its batches. Batches that the machine can't
        use must have been left out before."""
        self._remote_shares[machine].report = report
        self.losses.update({each.batch: each.losses for each in report.losses if each.batch in self.batches})

    def add_remote_sum(self, machine: int, bucket: int) -> None:
        """Records that another machine's sum of a bucket's gradients has arrived."""
        self._remote_shares[machine].buckets.add(bucket)

    def forget_group(self, group_index: int) -> None:
        """Forgets the losses of a group's batches, so that the group is computed again. Sums that already have the
        group's gradients stay as they are."""
        for batch in self._groups.batches(self.step, group_index):
            self.losses.pop(batch, None)

    def freeze(self, member: int) -> None:
        """Takes a member (network of an ensemble) out of the step. None of its parameters may have been updated in it
        yet."""
        del self._batches[member], self._member_groups[member]
        self._lacks_buffers.discard(member)
        for bucket in self._buckets[member]:
            assert not self._updated[bucket], f"member {member} of step {self.step} is in the weights already"
            self._num_reduced[bucket] = 0
            self._updated[bucket] = True
        self._forget_unused_batches()

    def advance(
        self, find_group: FindGroup, *, out_of_slots: bool
    ) -> Iterator[Reduce | CopyBuffers | AnnounceShare | SendPartialSum | Update]:
        """Yields all actions that are possible now: sums of gradients, updates of weights, and messages to other
        machines.

        The gradients of a bucket (parameters that are stepped together) are added up in one pass when those of all
        groups of batches are there. Some are added up earlier only if workers need gradient slots (`out_of_slots`).
        """
        yield from self._copy_buffers(find_group)
        if self._is_distributed and not self._announced and self._all_local_finished:
            self._announced = True
            yield AnnounceShare(self._share_report())
        final = {member for member in self._batches if self._is_final(member, find_group)}
        for bucket, member in enumerate(self._member_of):
            if self._updated[bucket]:
                continue
            reduction = self._next_reduction(bucket, find_group, out_of_slots=out_of_slots)
            if reduction is not None:
                self._num_reduced[bucket] += len(reduction.contributions)
            is_summed = self._num_reduced[bucket] == len(self._member_groups[member])
            if is_summed and member in final and not self._is_distributed:
                self._updated[bucket] = True
                yield Update(self.step, bucket, len(self._batches[member]), reduction)
                continue
            if reduction is not None:
                yield reduction
            if is_summed and self._is_distributed:
                yield from self._join_machines(bucket, is_final=member in final)

    @property
    def _all_local_finished(self) -> bool:
        """True if all batches of this machine's share are computed."""
        return all(batch in self.losses for batch in self.batches if self.is_local(batch))

    def _join_machines(self, bucket: int, *, is_final: bool) -> Iterator[SendPartialSum | Update]:
        """Yields the next actions for a bucket that several machines add up, when this machine's sum is complete: sends
        the sum, and updates the bucket once the sums of all other machines have arrived. `is_final`: no batch can be
        left out any more."""
        member = self._member_of[bucket]
        has_local_sum = bool(self._member_groups[member])
        if self._announced and has_local_sum and bucket not in self._sent:
            self._sent.add(bucket)
            yield SendPartialSum(self.step, bucket)
        batches_of = {machine: self._batches_on(machine, member) for machine in self._remote_shares}
        senders = [machine for machine, batches in batches_of.items() if batches]
        missing = [machine for machine in senders if bucket not in self._remote_shares[machine].buckets]
        if not is_final or missing:
            return
        self._updated[bucket] = True
        num_batches = len(self._batches[member])
        if num_batches == 0:
            yield Update(self.step, bucket, 0, None)
            return
        reduction = Reduce(
            self.step,
            bucket,
            tuple(self._remote_contribution(machine, batches_of[machine]) for machine in senders),
            range(self._groups.groups_per_step),
            is_first=not has_local_sum,
            is_last=True,
            num_batches=num_batches,
        )
        yield Update(self.step, bucket, num_batches, reduction)

    def _remote_contribution(self, machine: int, batches: tuple[int, ...]) -> Contribution:
        """Returns the sum that another machine has sent as a contribution to a bucket's gradients. `batches`: those
        whose gradients are in the sum."""
        return Contribution(batches, self._remote_groups[machine].start, -1, -1, (), machine=machine)

    def _batches_on(self, machine: int, member: int) -> tuple[int, ...]:
        """Returns the batches of the member's step that another machine computes."""
        groups = self._remote_groups[machine]
        return tuple(batch for batch in self._batches[member] if self._groups.group_index(batch) in groups)

    def _copy_buffers(self, find_group: FindGroup) -> Iterator[CopyBuffers]:
        """Yields, for each member, the action that copies the model's buffers from after the step's first batch, as
        soon as that batch is computed, on whichever machine."""
        if not self._lacks_buffers:
            return
        sources = self._sources_of_buffers(find_group)
        if not sources:
            return
        self._lacks_buffers.clear()
        for member, source in sources.items():
            yield CopyBuffers(self.step, member, source)

    def _sources_of_buffers(self, find_group: FindGroup) -> dict[int, Contribution]:
        """Returns for each member that lacks buffers where they are copied from; nothing if the step's first batch is
        not computed yet."""
        members = sorted(self._lacks_buffers)
        machine = next((machine for machine, groups in self._remote_groups.items() if 0 in groups), None)
        if machine is not None:
            if self._remote_shares[machine].report is None:
                return {}
            return dict.fromkeys(members, self._remote_contribution(machine, (self._first_batch,)))
        group = find_group(0)
        if group is None or not group.is_finished:
            return {}
        return {member: _contribution(group, self._member_groups[member][0]) for member in members}

    def _share_report(self) -> ShareReport:
        """Returns this machine's report on its share of the step, for the other machines: the losses of its batches,
        and the batches that can't be used."""
        losses = tuple(BatchLosses(batch, self.losses[batch]) for batch in self.batches if self.is_local(batch))
        return ShareReport(self.step, losses, tuple(self._unusable))

    def _next_reduction(self, bucket: int, find_group: FindGroup, *, out_of_slots: bool) -> Reduce | None:
        """Returns the action that adds up the next groups of a bucket that are there, None if there are none. Unless
        `out_of_slots`, it waits until all remaining groups are there."""
        member = self._member_of[bucket]
        groups, num_reduced = self._member_groups[member], self._num_reduced[bucket]
        contributions = []
        for group in groups[num_reduced:]:
            assigned = find_group(group.index)
            if assigned is None or bucket not in assigned.buckets:
                break
            contributions.append(_contribution(assigned, group))
        is_complete = num_reduced + len(contributions) == len(groups)
        if not contributions or not (is_complete or out_of_slots):
            return None
        covered_end = self._share.stop if is_complete else contributions[-1].group_index + 1
        return Reduce(
            self.step,
            bucket,
            tuple(contributions),
            range(self._share.start, covered_end),
            is_first=num_reduced == 0,
            is_last=is_complete and not self._is_distributed,
            num_batches=len(self._batches[member]),
        )

    def _is_final(self, member: int, find_group: FindGroup) -> bool:
        """Returns True if no batch can be left out of the member's step any more, and none can freeze the member."""
        if not self._never_skips:
            return self._all_finished
        if len(self._batches) == 1:
            return True
        return all(self._is_finite(group, member, find_group) for group in self._member_groups[member])

    def _is_finite(self, group: MemberGroup, member: int, find_group: FindGroup) -> bool:
        """Returns True if all of a member's losses and gradients from the batches of a group are known to be finite. If
        the group is not finished, the worker has reported all of the member's buckets, which it does only then."""
        assigned = find_group(group.index)
        if assigned is None or assigned.is_finished:
            return all(batch in self.losses for batch in group.batches)
        return self._buckets[member] <= assigned.buckets

    def _forget_unused_batches(self) -> None:
        """Forgets the batches that were left out for every member that is trained."""
        used = set().union(*self._batches.values())
        for batch in self.batches:
            if batch not in used:
                self.losses.pop(batch, None)
        self.batches = sorted(used)

    def _local_groups(self, batches: Sequence[int]) -> list[MemberGroup]:
        """Returns the groups that these batches form, ascending by index, without those that other machines compute."""
        local = filter(self.is_local, batches)
        return [MemberGroup(index, tuple(own)) for index, own in groupby(local, self._groups.group_index)]


def _contribution(assigned: AssignedGroup, group: MemberGroup) -> Contribution:
    """Returns the gradients of a group in the slot of the worker that has computed it."""
    slot = assigned.assignment.gradient_slot
    return Contribution(group.batches, group.index, assigned.worker, slot, assigned.absent, assigned.incarnation)


def _num_up_to(group_index: int, groups: Sequence[MemberGroup]) -> int:
    """Returns how many groups, in their order, a sum must hold so that the one at `group_index` is among them; 0 if
    there is none."""
    for number, group in enumerate(groups, start=1):
        if group.index == group_index:
            return number
    return 0
