"""The section `[schedule]`: one learning rate scheduler, or parts one after the other. Free of torch.

Steps may be written as shares of the run, "1%" of train.steps. `ScheduleConfig.resolve` turns them into steps.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from annotated_types import Gt, Le
from pydantic import AfterValidator, Field

from loader.section import Effect, Section
from pool.config.parts import find_steps_problem

MAX_STEPS = 1 << 32  # with the largest steps, of 2^30 samples, a run's samples fit 64 bits


_SHARE = re.compile(r"\d+(\.\d+)?%")


def _parse_share(value: Any) -> Fraction | None:
    """Returns the share of train.steps that a text such as "2.5%" stands for; None for anything else."""
    if not isinstance(value, str) or not _SHARE.fullmatch(value):
        return None
    return Fraction(value[:-1]) / 100


def _check_share(value: str) -> str:
    """Returns the text of a share such as "2.5%". Raises ValueError for any other text."""
    share = _parse_share(value)
    if share is None or not 0 < share <= 1:
        raise ValueError(f'a share of train.steps is written "1%", above 0 and at most "100%", not {value!r:.80}')
    return value


Steps = Annotated[int, Gt(0), Le(MAX_STEPS)] | Annotated[str, AfterValidator(_check_share)]


@dataclass(frozen=True)
class Part:
    """Describes a part of a schedule. Its length is in steps of the scheduler."""

    name: str | None
    steps: int | None
    args: dict[str, Any]


@dataclass(frozen=True)
class Schedule:
    """Describes the schedule of a run whose length is known, in which every length is a number of steps."""

    name: str | None
    every: Fraction  # training steps between two steps of the scheduler
    args: dict[str, Any]
    parts: tuple[Part, ...]
    has_shares: bool  # the config has shares, so a longer run has another schedule

    @property
    def is_set(self) -> bool:
        """Tells whether the learning rate changes."""
        return self.name is not None or bool(self.parts)

    def scheduler_steps(self, step: int) -> int:
        """Returns how many steps the scheduler has done after `step` training steps."""
        if step == 0:
            return 0
        steps, moves = self.every.as_integer_ratio()  # integers, since this is called at each step; fractions are slow
        return -(-(2 * step + 1) * moves // (2 * steps)) - 1

    def training_step(self, scheduler_step: int) -> int:
        """Returns after how many training steps the scheduler does a step of its own, counted from 1.

        The exact number may be a fraction. It is rounded to the nearest integer that is at least 1.
        """
        return max(1, _round(scheduler_step * self.every))


class SchedulePart(Section):
    """A stretch of the schedule."""

    name: Annotated[str | None, Field(description="scheduler class, by dotted name; none keeps the rate")] = None
    steps: Annotated[
        Steps | None,
        Field(
            description='steps of the scheduler that the part lasts, or a share of train.steps as "5%"; the last part '
            "has none"
        ),
    ] = None
    args: Annotated[dict[str, Any], Field(default_factory=dict, description="its keyword arguments")]


class PlateauConfig(Section):
    """Reduces the learning rate when validations get no better, on top of whatever else the schedule does."""

    patience: Annotated[
        int | None,
        Field(
            ge=0,
            le=MAX_STEPS,
            description="reduce the learning rate after more than so many validations in a row that were no better; "
            "not set: never",
        ),
        Effect.RESULT,
    ] = None
    factor: Annotated[
        float, Field(ge=1e-6, lt=1, description="what the learning rate is multiplied by then"), Effect.RESULT
    ] = 0.1
    min_lr: Annotated[
        float, Field(ge=0, le=1e6, description="a learning rate is not reduced below this"), Effect.RESULT
    ] = 0.0
    metric: Annotated[
        str | None,
        Field(
            min_length=1,
            description="number of a validation that is compared: loss, or a metric of the task's; not set: "
            "train.best_metric",
        ),
        Effect.RESULT,
    ] = None
    threshold: Annotated[
        float,
        Field(ge=0, le=1e6, description="better means by more than this share of the best value so far"),
        Effect.RESULT,
    ] = 1e-4
    cooldown: Annotated[
        int,
        Field(ge=0, le=MAX_STEPS, description="validations after a reduction that are not counted"),
        Effect.RESULT,
    ] = 0

    @property
    def first_changed_key(self) -> str:
        """Returns the first key whose value differs from its default; "" if none does."""
        for name, default in PlateauConfig():
            if getattr(self, name) != default:
                return name
        return ""


class ScheduleConfig(Section):
    """The change of the learning rate: one scheduler, or `[[schedule.parts]]`, one after the other. Steps, and
    arguments that count steps of the scheduler, may be shares of train.steps: the schedule follows the run's length.

    [[schedule.parts]]                                 # a part without a name keeps the rate
    name = "torch.optim.lr_scheduler.LinearLR"         # each part begins with the rate of optimizer.args.lr
    args = { start_factor = 0.01, total_iters = "5%" } # of train.steps; or a number: steps of the scheduler
    steps = "5%"                                       # all but the last part need it

    [[schedule.parts]]
    name = "torch.optim.lr_scheduler.CosineAnnealingLR"
    args = { T_max = "95%" }

    [schedule.plateau]                                 # beside a scheduler, parts, or nothing else
    patience = 3
    factor = 0.5
    """

    name: Annotated[
        str | None,
        Field(description="learning rate scheduler class, by dotted name; none keeps the rate"),
        Effect.FIXED,
    ] = None
    every: Annotated[
        Steps,
        Field(description='training steps between two steps of the scheduler, or a share of train.steps as "1%"'),
        Effect.RESULT,
    ] = 1
    args: Annotated[
        dict[str, Any],
        Field(default_factory=dict, description='its keyword arguments; T_max = "100%" is all steps of the run'),
        Effect.SAVED,
    ]
    parts: Annotated[
        tuple[SchedulePart, ...],
        Field(
            strict=False,  # JSON's arrays are lists
            description="instead of name and args: tables of name, args and steps, one after the other",
        ),
        Effect.FIXED,
    ] = ()
    plateau: PlateauConfig = PlateauConfig()

    @property
    def is_set(self) -> bool:
        """Tells whether the learning rate changes."""
        return self.name is not None or bool(self.parts)

    @property
    def problem(self) -> str:
        """Describes keys that contradict each other, and what to do; "" if none do."""
        if self.parts and (self.name is not None or self.args):
            return "schedule.parts: a schedule is either parts, or one class (schedule.name and schedule.args)"
        idle = self.plateau.first_changed_key
        if idle and self.plateau.patience is None:
            return f"schedule.plateau.{idle}: does nothing without schedule.plateau.patience: set that, or leave it out"
        for index, part in enumerate(self.parts):
            if part.name is None and part.args:
                return f"schedule.parts.{index}.args: a part without a name keeps the rate, and takes no arguments"
        return find_steps_problem(self.parts, "schedule.parts", "steps of the scheduler")

    def resolve(self, steps: int) -> Schedule:
        """Returns the schedule for a run of `steps` steps. Shares become the nearest number of steps, but at least
        one."""
        every_share = _parse_share(self.every)
        every = Fraction(self.every) if every_share is None else every_share * steps
        num_scheduler_steps = steps / every
        args = _resolve_arguments(self.args, num_scheduler_steps)
        parts = tuple(
            Part(
                part.name,
                _resolve_shares(part.steps, num_scheduler_steps),
                _resolve_arguments(part.args, num_scheduler_steps),
            )
            for part in self.parts
        )
        has_shares = every_share is not None or args != self.args
        for resolved, part in zip(parts, self.parts, strict=True):
            has_shares = has_shares or resolved.steps != part.steps or resolved.args != part.args
        return Schedule(self.name, every, args, parts, has_shares)


def _resolve_arguments(args: dict[str, Any], num_scheduler_steps: Fraction) -> dict[str, Any]:
    return {key: _resolve_shares(value, num_scheduler_steps) for key, value in args.items()}


def _resolve_shares(value: Any, num_scheduler_steps: Fraction) -> Any:
    """Replaces a share such as "5%", and those in a list, by a number of steps of the scheduler, at least 1."""
    if isinstance(value, list | tuple):
        return type(value)(_resolve_shares(item, num_scheduler_steps) for item in value)
    share = _parse_share(value)
    if share is None:
        return value
    return max(_round(share * num_scheduler_steps), 1 if share else 0)


def _round(number: Fraction) -> int:
    """Rounds to the nearest integer, halves up."""
    return math.floor(number + Fraction(1, 2))
