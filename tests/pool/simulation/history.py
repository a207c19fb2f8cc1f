"""What a simulated run has done, and the rules that it must have kept. Raises AssertionError where it has not."""

from __future__ import annotations

from collections import Counter
from statistics import fmean

from pool.coordinator.books.actions import BadBatch, Commit, Validated
from pool.coordinator.books.blame import DEADLY, RAISED
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
    undisturbed,
)
from tests.pool.simulation.setup import Setup


class History:
    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._versions = [first_version(setup)]  # by number
        self._left_out: dict[int, set[int]] = {}  # by step
        self._validations: dict[int, float] = {}  # the metric, by version
        self._ends: Counter[tuple[Peer, int, bool]] = Counter()  # by coordinator in charge, batch in work, exception
        self._stopped = False
        self._blameless = True  # no batch was left out that kills of our own have made look deadly

    def resumed(self, step: int) -> bool:
        """A coordinator begins at a step: those after it will be done again, and must give the same. True if there
        are any."""
        again = len(self._versions) > step + 1
        del self._versions[step + 1 :]
        self._left_out = {s: batches for s, batches in self._left_out.items() if s < step}
        self._validations = {version: value for version, value in self._validations.items() if version <= step}
        self._ends.clear()  # nobody tells a coordinator what its predecessor has seen
        return again

    def ended_with(self, coordinator: Peer, batch: int, *, raised: bool) -> None:
        """A worker, holding a batch."""
        self._ends[coordinator, batch, raised] += 1

    def left_out(self, coordinator: Peer, action: BadBatch) -> None:
        innocent = action.batch not in self._setup.bad
        if action.batch not in self._setup.unsound:
            died, raised = (self._ends[coordinator, action.batch, exception] for exception in (False, True))
            assert died >= DEADLY or raised >= RAISED, f"batch {action.batch} left out: {action.why}"
        assert action.step == len(self._versions) - 1
        assert action.cursor == cursor_of(action.batch), "I1"
        self._left_out.setdefault(action.step, set()).add(action.batch)
        self._blameless &= not innocent
        self._stopped |= action.fatal

    def committed(self, action: Commit, version: Version) -> None:
        """I2, I3: each version follows from the one before by all its batches, each once, in order."""
        assert action.step == len(self._versions) - 1, f"step {action.step} after {len(self._versions) - 1} versions"
        gone = self._left_out.get(action.step, set())
        batches = [batch for batch in batches_of(self._setup, action.step) if batch not in gone]
        before = self._versions[-1]
        assert version == next_version(self._setup, before, action.step, batches), f"I2: step {action.step}"
        assert action.losses == tuple((loss(before.weights, batch),) for batch in batches)
        assert not self._setup.unsound.intersection(batches), "not finite"
        assert action.next_cursor == cursor_of((action.step + 1) * self._setup.rules.batches_per_step), "I1"
        self._versions.append(version)

    def validated(self, action: Validated, weights: Weights, value: float) -> None:
        """A successor may do one again that is in nothing it goes on from; `value`: NaN if nothing is collected."""
        assert action.version == len(self._versions) - 1
        assert weights == self._versions[-1].weights
        batches = range(self._setup.rules.validation_batches)
        assert action.losses == (fmean(loss(weights, batch) for batch in batches),)
        expected = metric([collected(weights, batch) for batch in batches]) if self._setup.rules.collects else 0.0
        assert value == expected or not self._setup.rules.collects, f"metric of version {action.version}: {value}"
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
        """The version with which the run must end early, if it is one of those that were validated."""
        patience, values = self._setup.early_stopping, [self._validations.get(v) for v in range(done + 1)]
        for version in range(1, min(done + 1, self._setup.rules.steps)):
            before = [value for value in values[1 : version + 1] if value is not None]
            if patience is None or values[version] is None or not before:
                continue
            if len(before) - 1 - before.index(max(before)) >= patience:
                return version
        return None
