"""What a simulated run has done, and the rules that it must have kept. Raises AssertionError where it has not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace
from statistics import fmean

from pool.coordinator.scheduler.actions import BadBatch, Commit, FinishValidation, Freeze, ReduceRates
from pool.protocol.blame import MAX_DEATHS, MAX_EXCEPTIONS
from pool.protocol.identity import Peer
from tests.pool.simulation.arithmetic import (
    Version,
    Weights,
    batches_of,
    collected,
    cursor_of,
    first_version,
    loss,
    metric,
    next_version,
    reductions,
    stops_early,
    undisturbed,
    weights_of,
)
from tests.pool.simulation.setup import Setup


class History:
    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._versions = [first_version(setup)]  # by number
        self._left_out: dict[int, set[tuple[int, int]]] = {}  # (member, batch) by step
        self._frozen: dict[int, int] = {}  # step by member
        self._frozen_by_numbers: set[int] = set()  # those of them that had a bad batch
        self._validations: dict[int, list[float]] = {}  # the metric of each member, by version
        self._ends: Counter[tuple[Peer, int, bool]] = Counter()  # by coordinator in charge, batch in work, exception
        self._ends_validating: Counter[tuple[Peer, int]] = Counter()  # the same, of validation batches
        self._stopped = False
        self._blameless = True  # no batch was left out that kills of our own have made look deadly

    def resumed(self, step: int, frozen: Set[int]) -> bool:
        """A coordinator begins at a step: those after it will be done again, and must give the same. True if there
        are any. `frozen`: members that it knows to be."""
        again = len(self._versions) > step + 1
        del self._versions[step + 1 :]
        self._left_out = {s: batches for s, batches in self._left_out.items() if s < step}
        self._frozen = {member: since for member, since in self._frozen.items() if since < step}
        self._frozen_by_numbers &= self._frozen.keys()
        assert frozen == self._frozen.keys(), "I9: frozen members"
        self._validations = {version: value for version, value in self._validations.items() if version <= step}
        if not self._setup.one_process:  # else nobody tells a coordinator what its predecessor has seen
            self._ends.clear()
            self._ends_validating.clear()
        return again

    def ended_with(self, coordinator: Peer, batch: int, *, raised: bool) -> None:
        """A worker, holding a batch."""
        self._ends[self._who_knows(coordinator), batch, raised] += 1

    def ended_validating(self, coordinator: Peer, batch: int) -> None:
        """A worker, holding a validation batch."""
        self._ends_validating[self._who_knows(coordinator), batch] += 1

    def gave_up(self, coordinator: Peer) -> None:
        """A run ends if workers die of a validation batch, and kills of our own may look like that."""
        died = [count for (peer, _), count in self._ends_validating.items() if peer == self._who_knows(coordinator)]
        assert max(died, default=0) >= MAX_DEATHS, f"given up after {died} deaths"
        self._stopped = True

    def left_out(self, coordinator: Peer, action: BadBatch) -> None:
        concerned = set(action.members) or self._training
        innocent = not all(self._setup.is_bad(member, action.batch) for member in concerned)
        rules = self._setup.rules
        is_own = rules.groups.group_index(action.batch) in rules.share  # else another machine has seen the deaths
        if is_own and not all((member, action.batch) in self._setup.unsound for member in concerned):
            died, raised = (
                self._ends[self._who_knows(coordinator), action.batch, exception] for exception in (False, True)
            )
            assert died >= MAX_DEATHS or raised >= MAX_EXCEPTIONS, f"batch {action.batch} left out: {action.reason}"
        assert action.step == len(self._versions) - 1
        every = self._setup.rules.validate_every
        if every and action.step % every == 0:
            assert action.step in self._validations, "what follows from its validation comes first"
        assert action.cursor == (cursor_of(action.batch) if is_own else None), "I1"
        assert concerned <= self._training, "nothing of a frozen member is wanted"
        self._left_out.setdefault(action.step, set()).update((member, action.batch) for member in concerned)
        self._frozen_by_numbers.update(action.frozen_members)
        self._blameless &= not innocent
        self._stopped |= action.is_fatal

    def _who_knows(self, coordinator: Peer) -> Peer:
        """Of deaths under that coordinator: in one process with the worker all its lives do."""
        return replace(coordinator, incarnation=1) if self._setup.one_process else coordinator

    @property
    def _training(self) -> Set[int]:
        return set(self._setup.members) - self._frozen.keys()

    def froze(self, action: Freeze) -> None:
        """A member has a bad batch in this step, or stops early with its version."""
        assert action.step == len(self._versions) - 1
        assert action.member in self._training
        self._frozen[action.member] = action.step

    def committed(self, action: Commit, version: Version) -> None:
        """I2, I3: each version follows from the one before by all its batches, each once, in order."""
        assert action.step == len(self._versions) - 1, f"step {action.step} after {len(self._versions) - 1} versions"
        gone = self._left_out.get(action.step, set())
        batches = {
            member: [batch for batch in batches_of(self._setup, action.step) if (member, batch) not in gone]
            for member in sorted(self._training)
        }
        before = self._versions[-1]
        reduced = [self._reductions(member) for member in self._setup.members]
        assert version == next_version(self._setup, before, action.step, batches, reduced), f"I2: step {action.step}"
        assert action.losses == tuple(
            tuple(loss(weights_of(self._setup, before.weights, member), batch) for batch in batches.get(member, ()))
            for member in self._setup.members
        )
        used = {(member, batch) for member, own in batches.items() for batch in own}
        assert not self._setup.unsound & used, "not finite"
        assert action.next_cursor == cursor_of((action.step + 1) * self._setup.rules.batches_per_step), "I1"
        self._versions.append(version)

    def reduced(self, action: ReduceRates) -> None:
        """The learning rates of some members."""
        assert action.step == len(self._versions) - 1
        assert action.rules.keys() <= self._training, "nothing of a frozen member is wanted"

    def _reductions(self, member: int) -> int:
        return reductions(self._setup, member, [values[member] for _, values in sorted(self._validations.items())])

    def measured(self, action: FinishValidation, weights: Weights, values: Sequence[float]) -> None:
        """A successor may do one again that is in nothing it goes on from; `values`: of each member, NaN if nothing is
        collected."""
        assert action.version == len(self._versions) - 1
        assert weights == self._versions[-1].weights
        batches = range(self._setup.rules.validation.batches)
        own = [weights_of(self._setup, weights, member) for member in self._setup.members]
        assert action.losses == tuple(fmean(loss(each, batch) for batch in batches) for each in own)
        averages = self._versions[-1].averages
        expected = [
            metric([collected(each, average, batch) for batch in batches])
            for each, average in zip(own, averages, strict=True)
        ]
        assert values == expected or not self._setup.rules.collects, f"metric of version {action.version}: {values}"
        assert action.version == max([action.version, *self._validations])
        self._validations[action.version] = expected

    def ended(self) -> None:
        """The run says that it has done all it was asked for, or all that a bad batch let it do."""
        if self._stopped:
            return
        steps, every = self._setup.rules.steps, self._setup.rules.validate_every
        done = len(self._versions) - 1
        stops = self._stops(done)
        assert done == steps or self._setup.drain_at or stops == done
        assert stops in (None, done), f"the run had to end with step {stops}, not {done}"
        due = [version for version in range(done + 1) if every and (version % every == 0 or version == steps)]
        if self._setup.drain_at:
            assert list(self._validations) in (due, due[:-1])
        else:
            assert list(self._validations) == due
        if self._blameless:
            assert self._versions[-1] == undisturbed(self._setup, done), "I9"

    def _stops(self, done: int) -> int | None:
        """The version with which the run must end early, if it is one of those that were validated: all members that
        have not met a bad batch stop with it, or have stopped before."""
        versions = [
            self._stop_of(member, done) for member in self._setup.members if member not in self._frozen_by_numbers
        ]
        found = [version for version in versions if version is not None]
        return max(found) if found and len(found) == len(versions) else None

    def _stop_of(self, member: int, done: int) -> int | None:
        for version in range(1, min(done + 1, self._setup.rules.steps)):
            before = [self._validations[v][member] for v in range(1, version + 1) if v in self._validations]
            if version in self._validations and stops_early(self._setup, before):
                return version
        return None
