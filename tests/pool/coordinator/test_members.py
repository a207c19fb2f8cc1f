"""The scheduler of several members: what concerns one of them concerns no other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeVar

import pytest

from loader.stream.interface import Cursor
from pool.checkpoint.plateau import Plateau, ReduceOnPlateau
from pool.checkpoint.validations import NONE, Goal, Validation, Validations
from pool.coordinator.scheduler.actions import (
    Action,
    BadBatch,
    Commit,
    CopyBuffers,
    EndRun,
    FinishValidation,
    Freeze,
    Notify,
    OrderWorker,
    ReduceRates,
    SaveValidation,
    Update,
)
from pool.coordinator.scheduler.fault_tracker import MAX_UNUSABLE_BATCHES
from pool.coordinator.scheduler.scheduler import StepScheduler
from pool.protocol.identity import FEEDER, WORKER, Peer
from pool.protocol.messages import (
    Assignment,
    AssignmentReport,
    ExcludedBatch,
    FeederReport,
    Outcome,
    StreamReport,
    Times,
    WorkerReport,
)
from tests.pool.coordinator.test_scheduler import START, filled, rules

SOUND = ("", "")
RULE = ReduceOnPlateau(Goal(), patience=0, factor=0.5, min_lr=0.0, threshold=0.0, cooldown=0)
Kind = TypeVar("Kind")
Mode = Literal["stop", "skip"]


class Run:
    """Two members, one bucket for the first and two for the second; one worker."""

    def __init__(
        self,
        on_bad_batch: Mode,
        *,
        batches: int = 2,
        group: int = 1,
        steps: int = 30,
        frozen: Sequence[int] = (),
        unused: Sequence[int] = (),
        validate_every: int = 0,
        early_stopping: int | None = None,
        plateaus: tuple[ReduceOnPlateau | None, ...] = (),
        known: Validations = NONE,
        on_plateaus: Sequence[Plateau] = (),
    ) -> None:
        of_run = rules(
            steps, batches, buckets=3, slots=2, buffers=True, on_bad_batch=on_bad_batch, validate_every=validate_every
        )
        of_run = replace(
            of_run, member_of=(0, 1, 1), batches_per_group=group, early_stopping=early_stopping, plateaus=plateaus
        )
        step = 0 if known.newest is None else known.newest.step
        start = replace(START, batch=step * batches)
        self.scheduler = StepScheduler(
            of_run, step, start, validations=known, plateaus=on_plateaus, frozen=frozen, unused=unused
        )
        self.worker = Peer(WORKER)
        self.told: tuple[int, ...] = ()
        self.assigned: tuple[Assignment, ...] = ()
        self.begun = self.scheduler.start()
        self.scheduler.on_feeder_joined(Peer(FEEDER))
        self._note(self.scheduler.on_worker_joined(self.worker))
        filled(self.scheduler, Peer(FEEDER), steps * batches)
        self._note(self.scheduler.resend_orders())

    def _note(self, actions: list[Action]) -> list[Action]:
        for action in actions:
            if isinstance(action, OrderWorker):
                self.assigned, self.told = action.orders.assignments, action.orders.frozen
        return actions

    def finish(self, unsound: tuple[str, ...] = SOUND) -> list[Action]:
        """The first batch that is assigned; its losses are its number, and that plus a half."""
        first, *rest = self.assigned
        self.assigned = tuple(rest)
        report = AssignmentReport(first, (), outcomes=(Outcome((float(first.batch), first.batch + 0.5), unsound),))
        return self._note(self.scheduler.on_worker_report(self.worker, WorkerReport((report,), Times())))

    def finish_group(self, unsound: Sequence[tuple[str, ...]]) -> list[Action]:
        """The first assignment; what is not finite in each of its batches."""
        outcomes = tuple(Outcome((0.5, 0.5), each) for each in unsound)
        report = AssignmentReport(self.assigned[0], (), outcomes=outcomes)
        return self._note(self.scheduler.on_worker_report(self.worker, WorkerReport((report,), Times())))

    def announce(self, buckets: tuple[int, ...]) -> list[Action]:
        """Of the first batch that is assigned."""
        report = AssignmentReport(self.assigned[0], buckets)
        return self._note(self.scheduler.on_worker_report(self.worker, WorkerReport((report,), Times())))

    def validate(self) -> list[Action]:
        """The three batches of a validation."""
        assert self.scheduler.validation is not None
        cursors = tuple(Cursor(i, 0, 0, i) for i in range(4))
        report = FeederReport(None, StreamReport(self.scheduler.validation.ring.generation, 0, cursors))
        actions = self._note(self.scheduler.on_feeder_report(Peer(FEEDER), report))
        for _ in range(3):
            self._note(self.scheduler.resend_orders())
            actions += self.finish()
        return actions

    def measured(self, version: int, *losses: float) -> list[Action]:
        """The numbers of a validation, one a member."""
        return self._note(self.scheduler.on_validation([Validation(version, loss) for loss in losses]))


def found(kind: type[Kind], actions: Sequence[Action]) -> list[Kind]:
    return [action for action in actions if isinstance(action, kind)]


@pytest.mark.parametrize("mode", ["stop", "skip"])
def test_nothing_is_stepped_before_every_batch_is_known_to_be_sound_for_its_member(mode: Mode) -> None:
    run = Run(mode)
    assert not found(Update, run.finish())
    actions = run.finish()
    assert [action.bucket for action in found(Update, actions)] == [0, 1, 2]
    (commit,) = found(Commit, actions)
    assert commit.losses == ((0.0, 1.0), (0.5, 1.5))


@pytest.mark.parametrize("mode", ["stop", "skip"])
def test_a_member_whose_batches_are_sound_is_stepped_while_others_are_computed(mode: Mode) -> None:
    """The last of its buckets is announced when all its numbers are known to be finite. Where a batch may be left out,
    which can't be known before all members have computed it, nothing is stepped early."""
    run = Run(mode)
    run.finish()
    assert not found(Update, run.announce((1,)))
    stepped = [action.bucket for action in found(Update, run.announce((0,)))]
    assert stepped == ([0] if mode == "stop" else [])
    actions = run.finish(("", "a.weight"))
    assert [action.bucket for action in found(Update, actions)] == ([] if mode == "stop" else [0, 1, 2])


def test_a_bad_batch_freezes_its_member_and_the_worker_is_told() -> None:
    run = Run("stop")
    actions = run.finish(("the loss", ""))
    (bad,) = found(BadBatch, actions)
    assert (bad.members, bad.is_fatal, bad.frozen_members) == ((0,), False, (0,))
    assert found(Freeze, actions) == [Freeze(0, 0)]
    actions = run.finish(("the loss", ""))
    assert not found(BadBatch, actions), "it is reported once"
    assert [action.bucket for action in found(Update, actions)] == [1, 2]
    (commit,) = found(Commit, actions)
    assert commit.losses == ((), (0.5, 1.5))
    assert run.told == (0,)
    (bad,) = found(BadBatch, run.finish(("", "a.weight")))
    assert (bad.members, bad.is_fatal) == ((1,), True), "nobody else is trained"


def test_the_last_member_that_has_a_bad_batch_ends_the_run() -> None:
    run = Run("stop", frozen=(0,))
    (bad,) = found(BadBatch, run.finish(("", "a.weight")))
    assert (bad.members, bad.is_fatal, bad.frozen_members) == ((1,), True, ())


def test_a_batch_is_left_out_for_its_member_alone_and_its_buffers_stay() -> None:
    run = Run("skip")
    actions = run.finish(("", "a.weight"))
    (bad,) = found(BadBatch, actions)
    assert (bad.members, bad.is_fatal, bad.frozen_members) == ((1,), False, ())
    taken = {action.member: action.source is not None for action in found(CopyBuffers, actions)}
    assert taken == {0: True, 1: False}
    actions = run.finish()
    assert [(action.bucket, action.num_batches) for action in found(Update, actions)] == [(0, 2), (1, 1), (2, 1)]
    (commit,) = found(Commit, actions)
    assert commit.losses == ((0.0, 1.0), (1.5,))


def test_a_batch_without_gradients_in_a_slot_is_computed_again_for_the_member_that_needs_it() -> None:
    """Three batches, two slots: the first batch is added up early, and its slot given away."""
    run = Run("skip", batches=3)
    run.finish()
    run.finish()
    assert run.assigned[0].batch == 2
    actions = run.finish(("the loss", ""))
    again = []
    while not found(Commit, actions):
        again.append(run.assigned[0].batch)
        actions = run.finish()
    assert again == [0], "that of the other is in its slot still"
    (commit,) = found(Commit, actions)
    assert commit.losses == ((0.0, 1.0), (0.5, 1.5, 2.5))


@pytest.mark.parametrize("known", [0, MAX_UNUSABLE_BATCHES - 2])
def test_a_member_that_can_use_no_batch_for_long_is_frozen(known: int) -> None:
    """How many it has lost is in the state of the run."""
    run = Run("skip", unused=(known, 0))
    frozen: list[Freeze] = []
    steps = 0
    while not frozen:
        actions = [*run.finish(("the loss", "")), *run.finish(("the loss", ""))]
        frozen = found(Freeze, actions)
        (commit,) = found(Commit, actions)
        steps += 1
        assert commit.unused == ((known + 2 * steps) if not frozen else 0, 0)
    assert frozen == [Freeze(steps - 1, 0)]
    assert known + 2 * steps == MAX_UNUSABLE_BATCHES


def test_what_kills_workers_is_left_out_for_all() -> None:
    run = Run("skip")
    for _ in range(2):
        actions = run.scheduler.on_worker_lost(run.worker, run.assigned[0].attempt, run.assigned[0].batch, "ValueError")
        run.worker = Peer(WORKER, 0, run.worker.incarnation + 1)
        run._note(run.scheduler.on_worker_joined(run.worker))
    (bad,) = found(BadBatch, actions)
    assert (bad.batch, bad.members, bad.is_fatal) == (0, (), False)
    (commit,) = found(Commit, run.finish())
    assert commit.losses == ((1.0,), (1.5,))


def test_members_stop_early_one_by_one_and_the_run_ends_with_the_last() -> None:
    run = Run("stop", validate_every=1, early_stopping=1)
    for version, losses in enumerate([(1.0, 1.0), (3.0, 3.0), (2.0, 4.0), (2.0, 0.0)]):
        actions = run.validate()
        assert [action.version for action in found(FinishValidation, actions)] == [version]
        actions = run.measured(version, *losses)
        assert found(Freeze, actions) == ([Freeze(2, 1)] if version == 2 else [])
        assert bool(found(EndRun, actions)) == (version == 3)
        if version < 3:
            run.finish()
            (commit,) = found(Commit, run.finish())
            assert bool(commit.losses[1]) == (version < 2)


def test_a_member_that_had_stopped_with_the_version_that_a_run_goes_on_from_is_frozen_again() -> None:
    known = NONE
    for version, losses in enumerate([(3.0, 3.0), (3.0, 3.0), (2.0, 4.0)]):
        known = known.with_results([Validation(version, loss) for loss in losses])
    run = Run("stop", validate_every=1, early_stopping=1, known=known)
    assert run.begun == [Freeze(2, 1)]
    run.finish()
    (commit,) = found(Commit, run.finish())
    assert [len(losses) for losses in commit.losses] == [2, 0]


def test_validations_that_get_no_better_reduce_the_rates_of_members_that_are_trained_before_they_are_saved() -> None:
    run = Run("stop", validate_every=1, plateaus=(RULE, RULE), frozen=(0,))
    run.validate()
    assert not found(ReduceRates, run.measured(0, 1.0, 1.0))
    run.finish()
    run.finish()
    run.validate()
    reduced, validated = run.measured(1, 1.0, 2.0)[:2]
    assert reduced == ReduceRates(1, {1: RULE})
    assert isinstance(validated, SaveValidation)
    assert validated.plateaus == (Plateau(), Plateau("loss", 1.0))
    assert validated.validations.newest == Validation(1, 1.0)


def test_a_successor_goes_on_from_what_was_known_of_plateaus() -> None:
    rule = replace(RULE, patience=1)
    plateaus = Plateau("loss", 1.0, since=1), Plateau("loss", 1.0)
    run = Run("stop", validate_every=1, plateaus=(rule, rule), on_plateaus=plateaus)
    run.validate()
    assert found(ReduceRates, run.measured(0, 2.0, 2.0)) == [ReduceRates(0, {0: rule})]


def test_a_bad_batch_waits_for_what_follows_from_the_validation_of_its_version() -> None:
    """A worker may compute a batch of step 1 before version 1 is validated, or after that. Either way the member stops
    early, with the same state, and no other one loses the batch with which it would have ended the run."""
    run = Run("stop", batches=1, validate_every=1, early_stopping=1)
    run.validate()
    run.measured(0, 1.0, 1.0)
    assert [(each.step, each.batch) for each in run.assigned] == [(0, 0), (1, 1)]
    assert found(Commit, run.finish())
    assert not found(BadBatch, run.finish(("the loss", "the loss")))
    assert found(FinishValidation, run.validate())
    actions = run.measured(1, 1.0, math.nan)
    assert [type(action) for action in actions[:4]] == [SaveValidation, Notify, Freeze, BadBatch]
    (bad,) = found(BadBatch, actions)
    assert (bad.members, bad.is_fatal) == ((0,), True)


def test_a_batch_that_is_wanted_by_nobody_any_more_gives_its_slot_back() -> None:
    """It is bad for one member, and the other one stops early before it."""
    run = Run("skip", batches=1, validate_every=1, early_stopping=1)
    run.validate()
    run.measured(0, 1.0, 1.0)
    run.finish()
    run.finish(("the loss", ""))
    run.validate()
    (commit,) = found(Commit, run.measured(1, 1.0, math.nan))
    assert commit.losses == ((), ())
    assert list(run.scheduler._assigned) == [(2, 0)], "that of the next step"


def test_a_batch_that_is_bad_for_several_members_is_told_once() -> None:
    run = Run("stop")
    (bad,) = found(BadBatch, run.finish(("the loss", "member.1.weight")))
    assert (bad.members, bad.is_fatal, bad.frozen_members) == ((), True, ())
    assert bad.reason == "the loss, member.1.weight is not finite (worker 0)"


def test_all_bad_batches_of_a_group_are_left_out_before_it_is_computed_again() -> None:
    """Once, then, and not once for each."""
    run = Run("skip", batches=4, group=4)
    bad = ("the loss", "")
    actions = run.finish_group([SOUND, bad, bad, SOUND])
    assert [action.batch for action in found(BadBatch, actions)] == [1, 2]
    again = run.assigned[0]
    assert (again.batches, again.left_out) == ((0, 1, 2, 3), (ExcludedBatch(1, 0), ExcludedBatch(2, 0)))
    (commit,) = found(Commit, run.finish_group([SOUND, bad, bad, SOUND]))
    assert [len(losses) for losses in commit.losses] == [2, 4]
