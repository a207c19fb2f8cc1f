"""Ranks the members (networks) of an ensemble, from a checkpoint and the metrics of its run. Free of torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from pathlib import Path
from statistics import fmean

from pool.checkpoint.state import SavedState
from pool.checkpoint.validations import LOWEST_LOSS, Goal, Validation, Validations, has_diverged
from pool.metrics.digits import format_value
from pool.metrics.medians import select_member
from pool.run_folder.records import METRICS, read_records

LAST_STEPS = 100  # records over which the training loss is averaged


@dataclass(frozen=True)
class Ranking:
    """The members of a checkpoint in order of a validation metric or of the training loss."""

    goal: Goal  # the metric that decides
    validations: tuple[Validation, ...]  # of each member, in their order
    diverged: tuple[int | None, ...] = ()  # the step at which each has diverged; None: it has not
    trained: str = ""  # ranked by training loss: the steps that it is averaged over, as text

    @property
    def order(self) -> list[int]:
        """Returns the numbers of the members, the best first.

        Members that have diverged come last. A value that is not finite is worse than any other. Equal members keep
        their order.
        """
        return sorted(range(len(self.validations)), key=cmp_to_key(self._compare))

    def value(self, member: int) -> float:
        """Returns the value of the goal's metric by which a member is ranked."""
        return self.validations[member].value(self.goal.metric)

    def diverged_at(self, member: int) -> int | None:
        """Returns the step at which a member has diverged; None if it has not."""
        return self.diverged[member] if self.diverged else None

    def describe_value(self, member: int) -> str:
        """Describes a member's value, with the metric and the steps."""
        if self.trained:
            return f"training loss {format_value(self.value(member))}, the mean of {self.trained}"
        step = self.validations[member].step
        return f"validation {self.goal.metric} {format_value(self.value(member))} of step {step}"

    def _compare(self, one: int, other: int) -> int:
        """Compares two members as `cmp_to_key` expects: negative if `one` is better than `other`."""
        have_diverged = [self.diverged_at(member) is not None for member in (one, other)]
        if have_diverged[0] != have_diverged[1]:
            return 1 if have_diverged[0] else -1
        if self.goal.better(self.validations[one], self._rival(other)):
            return -1
        return 1 if self.goal.better(self.validations[other], self._rival(one)) else 0

    def _rival(self, member: int) -> Validation | None:
        """Returns the validation of a member to compare with; None if its value is not finite, which every finite
        one beats."""
        return self.validations[member] if math.isfinite(self.value(member)) else None


def rank(checkpoint: Path, state: SavedState, *, at_best: bool = False) -> Ranking | None:
    """Ranks the members of a checkpoint by `train.best_metric`.

    Compared are the members' newest validations, or with `at_best` their best ones (of a diverged member still the
    newest). Without validations, members are ranked by their mean training loss over the last 100 records of
    metrics.jsonl. Returns None if the run has neither.
    """
    members_validations = state.validations.of_members
    validations = []
    for member_validations in members_validations:
        validation = _best_validation(member_validations) if at_best else member_validations.newest
        if validation is not None:
            validations.append(validation)
    if validations and len(validations) == len(members_validations):
        diverged = tuple(member_validations.diverged_at for member_validations in members_validations)
        return Ranking(state.goal, tuple(validations), diverged)
    return _rank_by_training_loss(checkpoint, state)


def _rank_by_training_loss(checkpoint: Path, state: SavedState) -> Ranking | None:
    """Ranks the members by their mean training loss over the last records of metrics.jsonl. Returns None if there are
    none."""
    records = [
        record
        for record in read_records(checkpoint.parent.parent / METRICS)
        if "loss" in record and record["step"] <= state.step
    ]
    if not records:
        return None
    steps = records[-LAST_STEPS:]
    members = range(len(state.members) or 1)
    losses = tuple(training_loss(steps, m) for m in members)
    starts = tuple(training_loss(records[:1], m) for m in members)
    first, last = steps[0]["step"], steps[-1]["step"]
    return Ranking(
        LOWEST_LOSS,
        tuple(Validation(last, loss) for loss in losses),
        tuple(_diverged_at(state, m, losses[m], starts[m], last) for m in members),
        f"step {last}" if first == last else f"steps {first} to {last}",
    )


def _best_validation(validations: Validations) -> Validation | None:
    """Returns a member's best validation, or its newest one if the member has diverged or no value was finite."""
    if validations.record is None or validations.diverged_at is not None:
        return validations.newest
    return validations.record


def _diverged_at(state: SavedState, member: int, loss: float, start: float, last: int) -> int | None:
    """Returns the step at which a member has diverged, judged by its training loss; None if it has not.

    `loss`: the member's mean training loss of the steps up to `last`. `start`: its loss at the first record.
    """
    if not has_diverged(loss, start):
        return None
    frozen_at = state.members[member].frozen_at if state.members else None
    return last if frozen_at is None else frozen_at


def training_loss(steps: Sequence[Mapping[str, object]], member: int) -> float:
    """Returns the mean training loss of a member over the records `steps`; NaN if a record has no loss of this
    member."""
    losses = [select_member(record, member).get("loss") for record in steps]
    return fmean(loss if isinstance(loss, int | float) else math.nan for loss in losses)
