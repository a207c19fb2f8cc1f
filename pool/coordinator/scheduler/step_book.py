"""The state of one step: which groups of its batches are in the sum, bucket by bucket. Pure.

A bucket is stepped when it is complete and no batch of the step can be left out of it any more: when all are known to
be sound (all their numbers finite). If a bad batch is not left out, but ends the run or freezes a member (`eager`), it
is enough that they are known to be sound for the bucket's member, and the only member's bucket is stepped at once: the
step would end with the run. A batch that is left out takes no part in the step: its group is computed again without it,
and the sums begin anew. It may be left out for one member alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from pool.coordinator.scheduler.actions import Fold, TakeBuffers, Update
from pool.exchange.groups import Contribution, Groups
from pool.protocol.messages import Assignment, LeftOut, Outcome


@dataclass
class Work:
    """A group of training batches, from its assignment to its last fold."""

    assignment: Assignment
    worker: int
    incarnation: int = 1  # of the worker
    buckets: set[int] = field(default_factory=set)  # complete in the gradient slot
    absent: tuple[int, ...] = ()
    outcomes: dict[int, Outcome] = field(default_factory=dict)  # by batch, when it is finished
    computed_by: str = ""  # in words, when it is finished

    @property
    def finished(self) -> bool:
        return bool(self.outcomes)


@dataclass(frozen=True)
class Part:
    """The batches of a group that are in a member's step, at least one."""

    place: int
    batches: tuple[int, ...]


WorkOf = Callable[[int], Work | None]  # place of a group -> what is known of it


class StepBook:
    """The members that are trained in this step; each has its own batches, which are all of the step's but for those
    that were left out for it."""

    def __init__(
        self,
        step: int,
        groups: Groups,
        member_of: Sequence[int],
        *,
        frozen: Container[int] = (),
        has_buffers: bool,
        eager: bool,
    ) -> None:
        """`member_of`: of each bucket; buckets of `frozen` members take no part. `eager`: no batch is left out."""
        self.step = step
        self._eager = eager
        batches = range(step * groups.batches_per_step, (step + 1) * groups.batches_per_step)
        self._groups = groups
        self._first = batches.start
        self._member_of = member_of
        self._buckets: dict[int, set[int]] = {}  # by member
        for bucket, member in enumerate(member_of):
            self._buckets.setdefault(member, set()).add(bucket)
        self._batches = {member: list(batches) for member in self._buckets if member not in frozen}
        self._parts = {member: self._parts_of(own) for member, own in self._batches.items()}  # ascending
        self._left_out: set[LeftOut] = set()
        self.batches = list(batches) if self._batches else []  # that are wanted by any member, in their order (I2)
        self.losses: dict[int, tuple[float, ...]] = {}  # of finished batches, one a member
        self._folded = [0] * len(member_of)  # how many of its member's parts are in each bucket's sum
        self._updated = [member in frozen for member in member_of]  # nothing is left to be done
        self._has_buffers = has_buffers
        self._buffers_wanted = set(self._batches) if has_buffers else set()  # they follow the step's first batch

    @property
    def begun(self) -> bool:
        """Something of it is in the sum."""
        return any(self._folded)

    @property
    def complete(self) -> bool:
        return all(self._updated) and self._all_finished

    @property
    def _all_finished(self) -> bool:
        return all(batch in self.losses for batch in self.batches)

    def batches_of(self, member: int) -> Sequence[int]:
        """Returns the batches that the member's step is made of; none if it is frozen."""
        return self._batches.get(member, ())

    def losses_of(self, member: int) -> tuple[float, ...]:
        """Returns the losses of the member's batches, in their order; all of them are finished."""
        return tuple(self.losses[batch][member] for batch in self.batches_of(member))

    def left_out_of(self, batches: Collection[int]) -> tuple[LeftOut, ...]:
        """Tells which of the batches are not in which member's step."""
        return tuple(sorted(each for each in self._left_out if each.batch in batches))

    def is_folded(self, place: int) -> bool:
        """Every bucket of the group is in its sum, and nothing else of it is wanted."""
        if self._buffers_wanted and place == 0:
            return False
        counts = {member: _count_up_to(place, parts) for member, parts in self._parts.items()}
        return all(counts.get(member, 0) <= count for member, count in zip(self._member_of, self._folded, strict=True))

    def shares_sum(self, batch: int, members: Iterable[int]) -> bool:
        """In a gradient slot the batch is added to others that are in the step of one of these members."""
        parts = (part for member in members for part in self._parts[member])
        return any(batch in part.batches and len(part.batches) > 1 for part in parts)

    def leave_out(self, batch: int, members: Iterable[int], work_of: WorkOf) -> Iterator[TakeBuffers]:
        """These members' sums begin anew without this batch; what is not in a slot any more has to be computed
        again. A slot in which the batch is added to others of theirs is given up before (`shares_sum`)."""
        for member in members:
            if batch == self._first:
                self._buffers_wanted.discard(member)
                if self._has_buffers:
                    yield TakeBuffers(self.step, member, None)
            self._batches[member].remove(batch)
            self._parts[member] = self._parts_of(self._batches[member])
            self._left_out.add(LeftOut(batch, member))
            for bucket in self._buckets[member]:
                assert not self._updated[bucket], f"batch {batch} of step {self.step} is in the weights already"
                self._folded[bucket] = 0
            for other in self._batches[member]:
                if work_of(self._groups.place_of(other)) is None:
                    self.losses.pop(other, None)
        self._settle_batches()

    def give_up(self, place: int) -> None:
        """Forgets what was finished of a group: it has to be computed again; what is in a sum stays in it."""
        for batch in self._groups.batches(self.step, place):
            self.losses.pop(batch, None)

    def freeze(self, member: int) -> None:
        """Nothing of the member is wanted."""
        del self._batches[member], self._parts[member]
        self._buffers_wanted.discard(member)
        for bucket in self._buckets[member]:
            assert not self._updated[bucket], f"member {member} of step {self.step} is in the weights already"
            self._folded[bucket], self._updated[bucket] = 0, True
        self._settle_batches()

    def advance(self, work_of: WorkOf, *, starved: bool) -> Iterator[Fold | TakeBuffers | Update]:
        """All that can be folded and updated now: a bucket in one pass when all its groups are there, some earlier
        only if gradient slots are needed sooner (`starved`)."""
        if self._buffers_wanted:
            first = work_of(0)
            if first is not None and first.finished:
                wanted, self._buffers_wanted = sorted(self._buffers_wanted), set()
                for member in wanted:
                    yield TakeBuffers(self.step, member, _contribution(first, self._parts[member][0]))
        settled = {member for member in self._batches if self._settled(member, work_of)}
        for bucket, begin in enumerate(self._folded):
            if self._updated[bucket]:
                continue
            member = self._member_of[bucket]
            parts, count = self._parts[member], len(self._batches[member])
            fold = self._fold(bucket, parts, count, work_of, starved=starved)
            if fold is not None:
                self._folded[bucket] = begin = begin + len(fold.contributions)
            if begin == len(parts) and member in settled:
                self._updated[bucket] = True
                yield Update(self.step, bucket, count, fold)
            elif fold is not None:
                yield fold

    def _fold(self, bucket: int, parts: Sequence[Part], batches: int, work_of: WorkOf, *, starved: bool) -> Fold | None:
        begin = self._folded[bucket]
        contributions = []
        for part in parts[begin:]:
            work = work_of(part.place)
            if work is None or bucket not in work.buckets:
                break
            contributions.append(_contribution(work, part))
        complete = begin + len(contributions) == len(parts)
        if not contributions or not (complete or starved):
            return None
        return Fold(self.step, bucket, tuple(contributions), begin == 0, complete, batches)

    def _settled(self, member: int, work_of: WorkOf) -> bool:
        """No batch can be left out of the member's step any more, and none can freeze it."""
        if not self._eager:
            return self._all_finished
        return len(self._batches) == 1 or all(self._is_sound(part, member, work_of) for part in self._parts[member])

    def _is_sound(self, part: Part, member: int, work_of: WorkOf) -> bool:
        """All numbers that the member has made of it are known to be finite: the last of its buckets is announced when
        they are."""
        work = work_of(part.place)
        if work is None or work.finished:
            return all(batch in self.losses for batch in part.batches)
        return self._buckets[member] <= work.buckets

    def _settle_batches(self) -> None:
        """Forgets batches that no member wants."""
        wanted = set().union(*self._batches.values())
        for batch in self.batches:
            if batch not in wanted:
                self.losses.pop(batch, None)
        self.batches = sorted(wanted)

    def _parts_of(self, batches: Sequence[int]) -> list[Part]:
        by_place = groupby(batches, self._groups.place_of)
        return [Part(place, tuple(own)) for place, own in by_place]


def _contribution(work: Work, part: Part) -> Contribution:
    slot = work.assignment.gradient_slot
    return Contribution(part.batches, part.place, work.worker, slot, work.absent, work.incarnation)


def _count_up_to(place: int, parts: Sequence[Part]) -> int:
    """How many have to be in a sum so that the group is, too; 0 if it is to be in none."""
    return next((index + 1 for index, part in enumerate(parts) if part.place == place), 0)
