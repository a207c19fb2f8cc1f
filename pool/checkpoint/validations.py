"""Keeps the results of a run's validations: the newest, the best, and how many came since the best. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field

from pool.metrics.layout import LOSS
from pool.metrics.metric import Best
from pool.run_folder.strict_json import are_equal, value_at

Count = Annotated[int, Field(ge=0, lt=1 << 63)]


@dataclass(frozen=True)
class Validation:
    """The loss and metrics of one version of the weights on the validation files."""

    step: Count  # version of the weights
    loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)  # the task's own, by name

    def value(self, name: str) -> float:
        """Returns the loss or a metric by name; NaN if there is no such metric, as in a run with other metrics."""
        return self.loss if name == LOSS else self.metrics.get(name, math.nan)


@dataclass(frozen=True)
class Goal:
    """The validation metric that chooses a run's best checkpoint (`train.best_metric`), and whether its best value
    is the smallest or the largest."""

    metric: str = LOSS
    best: Best = "min"

    def better(self, validation: Validation, than: Validation | None) -> bool:
        """Returns whether a validation is strictly better than another one by this metric.

        A value that is not finite is never better, and every finite value is better than None or such a value.
        """
        value = validation.value(self.metric)
        if not math.isfinite(value):
            return False
        if than is None:
            return True
        other_value = than.value(self.metric)
        if not math.isfinite(other_value):
            return True
        return value < other_value if self.best == "min" else value > other_value

    def choose(self, validations: Sequence[Validation]) -> Validation:
        """Returns the best of the members' validations, the first of several that are equal.

        Returns the first of all if no value is finite.
        """
        best = validations[0]
        for validation in validations[1:]:
            if self.better(validation, best):
                best = validation
        return best


LOWEST_LOSS = Goal()
DIVERGED = 4.0  # times the loss at the start, above which a training has diverged; as in `pool find-lr`


def has_diverged(loss: float, start: float) -> bool:
    """Returns whether a loss is not finite, or far above `start`, the loss of the weights that the training began with.

    Far above means that the increase is more than 3 times the absolute value of `start`.
    """
    if not math.isfinite(loss):
        return True
    return math.isfinite(start) and start != 0 and loss - start > (DIVERGED - 1) * abs(start)


@dataclass(frozen=True)
class Validations:
    """The validations of a run so far, as checkpoints keep them."""

    newest: Validation | None = None
    best: Validation | None = None  # the best one whose weights are, or will be, in a checkpoint
    record: Validation | None = None  # the best one of all, by which the run is controlled; its checkpoint may be gone
    since: Count = 0  # number of validations after `record`
    start_loss: float | None = None  # of the first validation
    diverged_at: Count | None = None  # step since which every loss counts as diverged; None: not diverged
    members: tuple[Validations, ...] = ()  # of each member of an ensemble; the fields above are of its best ones

    @property
    def of_members(self) -> tuple[Validations, ...]:
        """Returns the validations of each member (network) of the run; of a run with one network a single entry."""
        return self.members or (self,)

    def with_results(self, validations: Sequence[Validation], goal: Goal = LOWEST_LOSS) -> Validations:
        """Returns a copy that includes the results of the next validation, one for each member."""
        if len(validations) == 1:
            return self._with_result(validations[0], goal)
        old_members = self.members or (NONE,) * len(validations)
        members = tuple(
            member._with_result(validation, goal) for member, validation in zip(old_members, validations, strict=True)
        )
        return self._with_best_member(members, validations, goal)

    def without_diverged(self, best: Validation | None) -> Validation | None:
        """Returns the validation `best` of a member; None if that member has diverged since."""
        diverged = (member for member in self.members if member.diverged_at is not None)
        return None if any(best in (member.best, member.record) for member in diverged) else best

    def _with_best_member(
        self, members: tuple[Validations, ...], validations: Sequence[Validation], goal: Goal
    ) -> Validations:
        """Returns the validations of an ensemble, updated with those of its best member that has not diverged.

        If all members have diverged, the best of all is used.
        """
        candidates = [
            validation for member, validation in zip(members, validations, strict=True) if member.diverged_at is None
        ]
        best_now = goal.choose(candidates or validations)
        ensemble = replace(self, members=members)
        best, record = ensemble.without_diverged(self.best), ensemble.without_diverged(self.record)
        return replace(ensemble, best=best, record=record)._with(best_now, goal, diverged=not candidates)

    def _with_result(self, validation: Validation, goal: Goal) -> Validations:
        """Returns the validations of a single network, updated with its next one."""
        start = validation.loss if self.start_loss is None else self.start_loss
        return replace(self, start_loss=start)._with(validation, goal, diverged=has_diverged(validation.loss, start))

    def _with(self, validation: Validation, goal: Goal, *, diverged: bool) -> Validations:
        """Returns a copy that includes one more validation. `diverged`: whether the training has diverged by now.

        The weights that a run begins with (step 0) are never the best, since a checkpoint of them would hold nothing
        new. The weights of a training that has diverged aren't either, whatever their metrics are.
        """
        if validation.step == 0:
            return replace(self, newest=validation)
        is_best = not diverged and goal.better(validation, self.best)
        is_record = not diverged and goal.better(validation, self.record)
        diverged_at = None
        if diverged:
            diverged_at = validation.step if self.diverged_at is None else self.diverged_at
        return replace(
            self,
            newest=validation,
            best=validation if is_best else self.best,
            record=validation if is_record else self.record,
            since=0 if is_record else self.since + 1,
            diverged_at=diverged_at,
        )


NONE = Validations()
_SETTINGS: Mapping[str, Any] = {  # key -> value that a checkpoint without this key means
    "data.validation_share": 0.0,
    "train.validation_batches": None,
    "train.best_metric": LOSS,
    "loss": None,
}


def comparable(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Returns whether validations of runs with these two configs measure the same on the same files."""
    for key, default in _SETTINGS.items():
        old, new = value_at(then, key), value_at(now, key)
        if not are_equal(default if old is None else old, default if new is None else new):
            return False
    return True
