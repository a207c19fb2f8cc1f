"""The validations of a run: the newest, the best of those that choose a checkpoint, and how many came since the last
improvement. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field

from pool.metrics.layout import LOSS
from pool.metrics.metric import Best
from pool.run_folder.strict_json import same, value_at

Count = Annotated[int, Field(ge=0, lt=1 << 63)]


@dataclass(frozen=True)
class Validation:
    """The numbers of one version of the weights on the validation files."""

    step: Count  # version of the weights
    loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)  # the task's own, by name

    def value(self, name: str) -> float:
        """NaN if it has no such number: it is of a run with other metrics."""
        return self.loss if name == LOSS else self.metrics.get(name, math.nan)


@dataclass(frozen=True)
class Goal:
    """The number of a validation that a run goes by (`train.best_metric`)."""

    metric: str = LOSS
    best: Best = "min"

    def better(self, validation: Validation, than: Validation | None) -> bool:
        """Not by a draw, and not by a number that is not finite."""
        value = validation.value(self.metric)
        if not math.isfinite(value):
            return False
        if than is None or not math.isfinite(before := than.value(self.metric)):
            return True
        return value < before if self.best == "min" else value > before

    def choose(self, validations: Sequence[Validation]) -> Validation:
        """The first of the best members; the first of all if no number is finite."""
        best = validations[0]
        for other in validations[1:]:
            best = other if self.better(other, best) else best
        return best


LOWEST_LOSS = Goal()
DIVERGED = 4.0  # times the loss at the start; `pool find-lr` draws the line there, too


def has_diverged(loss: float, start: float) -> bool:
    """Tells whether a loss is not finite, or far beyond that of the weights that the training began with."""
    if not math.isfinite(loss):
        return True
    return math.isfinite(start) and start != 0 and loss - start > (DIVERGED - 1) * abs(start)


@dataclass(frozen=True)
class Validations:
    newest: Validation | None = None
    best: Validation | None = None  # the first of the best; its weights are, or are about to be, a checkpoint
    record: Validation | None = None  # the first of the best, whatever became of its checkpoint: steers the run
    since: Count = 0  # validations after that one
    start_loss: float | None = None  # of the first validation
    diverged_at: Count | None = None  # the first validation since which every loss was far beyond that; None: it is not
    members: tuple[Validations, ...] = ()  # of each member of an ensemble; above is what its best ones are worth

    @property
    def of_members(self) -> tuple[Validations, ...]:
        """Returns the validations of each member, if there has been one."""
        return self.members or (self,)

    def after(self, validations: Sequence[Validation], goal: Goal = LOWEST_LOSS) -> Validations:
        """With one more: of each member."""
        if len(validations) == 1:
            return self._after(validations[0], goal)
        before = self.members or (NONE,) * len(validations)
        members = tuple(known._after(each, goal) for known, each in zip(before, validations, strict=True))
        return self._of_best(members, validations, goal)

    def without_diverged(self, best: Validation | None) -> Validation | None:
        """Returns `best`, a member's; None if that member has diverged since."""
        diverged = (member for member in self.members if member.diverged_at is not None)
        return None if any(best in (member.best, member.record) for member in diverged) else best

    def _of_best(self, members: tuple[Validations, ...], validations: Sequence[Validation], goal: Goal) -> Validations:
        """Returns what the best of the members is worth that have not diverged; of those that all have, the best."""
        candidates = [each for known, each in zip(members, validations, strict=True) if known.diverged_at is None]
        newest = goal.choose(candidates or validations)
        known = replace(self, members=members)
        known = replace(known, best=known.without_diverged(self.best), record=known.without_diverged(self.record))
        return known._with(newest, goal, diverged=not candidates)

    def _after(self, validation: Validation, goal: Goal) -> Validations:
        start = validation.loss if self.start_loss is None else self.start_loss
        return replace(self, start_loss=start)._with(validation, goal, diverged=has_diverged(validation.loss, start))

    def _with(self, validation: Validation, goal: Goal, *, diverged: bool) -> Validations:
        """The weights that a run begins with can't be the best: a checkpoint would hold nothing new. Nor can those of a
        training that has diverged, whatever their metrics are."""
        if validation.step == 0:
            return replace(self, newest=validation)
        since = validation.step if self.diverged_at is None else self.diverged_at
        improved = not diverged and goal.better(validation, self.record)
        return replace(
            self,
            newest=validation,
            best=validation if not diverged and goal.better(validation, self.best) else self.best,
            record=validation if improved else self.record,
            since=0 if improved else self.since + 1,
            diverged_at=since if diverged else None,
        )


NONE = Validations()
_SETTINGS: Mapping[str, Any] = {  # with the value that a checkpoint means that is older than the key
    "data.validation_share": 0.0,
    "train.validation_batches": None,
    "train.best_metric": LOSS,
    "loss": None,
}


def comparable(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Tells whether validations of runs with these configs measure the same on the same files."""
    for key, default in _SETTINGS.items():
        values = (value_at(config, key) for config in (then, now))
        if not same(*(default if value is None else value for value in values)):
            return False
    return True
