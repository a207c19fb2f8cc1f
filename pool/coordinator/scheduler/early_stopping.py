"""Early stopping: decides that a run, or a member's training, ends before the last step because validations have
stopped improving (`train.early_stopping`). Pure.

The decision is made when a version is validated and no step with it has begun. It follows from what checkpoints and
snapshots hold (I9), so a successor and a resumed run decide the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pool.checkpoint.validations import Goal, Validations
from pool.metrics.digits import format_value
from pool.metrics.medians import format_members

_MAX_REASONS = 8  # different reasons in one line


@dataclass(frozen=True)
class EarlyStopping:
    """The rule that stops members (networks of an ensemble) after `patience` validations without a new best."""

    patience: int | None  # validations without improvement; None: the run goes on
    goal: Goal
    steps: int  # of the whole run

    def find_stopping(self, validations: Validations, step: int, training: Iterable[int]) -> set[int]:
        """Returns which of the members `training` stop at version `step` of the weights, the newest one. Returns none
        if that version was not the last one to be validated, or if it is the run's last one."""
        newest = validations.newest
        if self.patience is None or newest is None or newest.step != step or step >= self.steps:
            return set()
        return {member for member in training if validations.of_members[member].since >= self.patience}

    def describe(self, validations: Validations, members: Collection[int] = (0,)) -> str:
        """Returns one line for the user that names these members and the reasons why they have stopped."""
        assert validations.newest is not None
        subject = f"{format_members(members)} " if validations.members else ""
        members_by_reason = defaultdict[str, list[int]](list)
        for member in sorted(members):
            members_by_reason[self._reason(validations.of_members[member])].append(member)
        if len(members_by_reason) == 1:
            reasons = list(members_by_reason)
        else:
            reasons = [f"{format_members(group)}: {reason}" for reason, group in members_by_reason.items()]
        if len(reasons) > _MAX_REASONS:
            reasons = [*reasons[:_MAX_REASONS], "..."]
        return (
            f"{subject}stopped early at step {validations.newest.step}: {'; '.join(reasons)} "
            f"(train.early_stopping = {self.patience})"
        )

    def _reason(self, validations: Validations) -> str:
        """Returns why a member has stopped, from its validations, as text."""
        name = self.goal.metric
        noun = "validation" if validations.since == 1 else "validations"
        newest, diverged_at = validations.newest, validations.diverged_at
        if diverged_at is not None and newest is not None and math.isfinite(newest.loss):
            return f"diverged at step {diverged_at}: its loss is far beyond that of the start"
        if validations.record is None:
            return f"{name} was finite in none of {validations.since} {noun}"
        return (
            f"{validations.since} {noun} without a better {name} than the "
            f"{format_value(validations.record.value(name))} of step {validations.record.step}"
        )

    def describe_resumed(self, validations: Validations, members: Collection[int] = (0,)) -> str:
        """Returns one line for the user of a run that was resumed although these members have stopped, with what to do
        about it."""
        return f"{self.describe(validations, members)}; to go on raise it, or leave it out"
