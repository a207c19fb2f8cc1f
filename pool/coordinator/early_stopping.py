"""Whether a run ends before its last step, since its validations get no better (`train.early_stopping`). Pure.

Decided when a version is validated and no step with it has begun, from what checkpoints and snapshots hold (I9): a
successor and a resumed run decide the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pool.checkpoint.validations import Goal, Validations
from pool.metrics.digits import in_digits


@dataclass(frozen=True)
class EarlyStopping:
    patience: int | None  # validations without improvement; None: the run goes on
    goal: Goal
    steps: int  # of the whole run

    def stops(self, known: Validations, step: int, training: Iterable[int]) -> set[int]:
        """Those of the members `training`. `step`: the version of the weights. Before the next validation nothing is
        decided."""
        if self.patience is None or known.newest is None or known.newest.step != step or step >= self.steps:
            return set()
        return {member for member in training if known.of_members[member].since >= self.patience}

    def why(self, known: Validations, member: int = 0) -> str:
        """For the user."""
        who = f"member {member} " if known.members else ""
        return f"{who}{self._why(known.of_members[member])}"

    def _why(self, known: Validations) -> str:
        assert known.newest is not None
        name = self.goal.metric
        validations = "validation" if known.since == 1 else "validations"
        if known.record is None:
            account = f"{name} was finite in none of {known.since} {validations}"
        else:
            account = (
                f"{known.since} {validations} without a better {name} than the "
                f"{in_digits(known.record.value(name))} of step {known.record.step}"
            )
        return f"stopped early at step {known.newest.step}: {account} (train.early_stopping = {self.patience})"

    def why_again(self, known: Validations, member: int = 0) -> str:
        """For the user of a run that was resumed though it has stopped."""
        return f"{self.why(known, member)}; to go on raise it, or leave it out"
