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
from pool.metrics.digits import in_digits
from pool.metrics.medians import named

_MOST_ACCOUNTS = 8  # different reasons that one line names at most


@dataclass(frozen=True)
class EarlyStopping:
    """The rule that stops members (networks of an ensemble) after `patience` validations without a new best."""

    patience: int | None  # validations without improvement; None: the run goes on
    goal: Goal
    steps: int  # of the whole run

    def stops(self, known: Validations, step: int, training: Iterable[int]) -> set[int]:
        """Returns which of the members `training` stop now. `step`: the newest version of the weights. Returns none if
        that version was not the last one to be validated, or if it is the run's last one."""
        if self.patience is None or known.newest is None or known.newest.step != step or step >= self.steps:
            return set()
        return {member for member in training if known.of_members[member].since >= self.patience}

    def why(self, known: Validations, members: Collection[int] = (0,)) -> str:
        """Returns one line for the user that names these members and why they have stopped."""
        who = f"{named(members)} " if known.members else ""
        assert known.newest is not None
        accounts = defaultdict[str, list[int]](list)
        for member in sorted(members):
            accounts[self._account(known.of_members[member])].append(member)
        shown = list(accounts.items())[:_MOST_ACCOUNTS]
        parts = [account if len(accounts) == 1 else f"{named(of)}: {account}" for account, of in shown]
        more = ["..."] if len(accounts) > _MOST_ACCOUNTS else []
        account = "; ".join([*parts, *more])
        return f"{who}stopped early at step {known.newest.step}: {account} (train.early_stopping = {self.patience})"

    def _account(self, known: Validations) -> str:
        """Returns in words why a member has stopped, from its validations."""
        name = self.goal.metric
        validations = "validation" if known.since == 1 else "validations"
        if known.diverged_at is not None and known.newest is not None and math.isfinite(known.newest.loss):
            return f"diverged at step {known.diverged_at}: its loss is far beyond that of the start"
        if known.record is None:
            return f"{name} was finite in none of {known.since} {validations}"
        return (
            f"{known.since} {validations} without a better {name} than the "
            f"{in_digits(known.record.value(name))} of step {known.record.step}"
        )

    def describe_again(self, known: Validations, members: Collection[int] = (0,)) -> str:
        """Returns one line for the user of a run that was resumed although these members have stopped, with what to do
        about it."""
        return f"{self.why(known, members)}; to go on raise it, or leave it out"
