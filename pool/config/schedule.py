"""The section `[schedule]`: one learning rate scheduler, or parts one after the other. Free of torch.

Steps may be written as shares of the run, "1%" of train.steps. `ScheduleConfig.of_run` turns them into steps.
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
from pool.config.parts import problem_of_steps

MOST_STEPS = 1 << 32  # with the largest steps, of 2^30 samples, a run's samples fit 64 bits


_SHARE = re.compile(r"\d+(\.\d+)?%")


def _share(value: Any) -> Fraction | None:
    """Returns the share of train.steps that a text such as "2.5%" stands for; None for anything else."""
    return Fraction(value[:-1]) / 100 if isinstance(value, str) and _SHARE.fullmatch(value) else None


def _checked_share(value: str) -> str:
    """Returns the text of a share such as "2.5%". Raises ValueError if it is none."""
    if not 0 < (_share(value) or 0) <= 1:
        raise ValueError(f'a share of train.steps is written "1%", above 0 and at most "100%", not {value!r:.80}')
    return value


Steps = Annotated[int, Gt(0), Le(MOST_STEPS)] | Annotated[str, AfterValidator(_checked_share)]


@dataclass(frozen=True)
class Part:
    """A part of a schedule. Its length is in steps of the scheduler."""

    name: str | None
    steps: int | None
    args: dict[str, Any]


@dataclass(frozen=True)
class Schedule:
    """The schedule of a run whose length is known, in which every length is a number of steps."""

    name: str | None
    every: Fraction  # training steps between two steps of the scheduler
    args: dict[str, Any]
    parts: tuple[Part, ...]
    in_shares: bool  # the config has shares, so a longer run has another schedule

    @property
    def is_set(self) -> bool:
        """Whether the learning rate changes."""
        return self.name is not None or bool(self.parts)

    def due(self, step: int) -> int:
        """Returns how many steps the scheduler has done after `step` training steps."""
        steps, moves = self.every.as_integer_ratio()  # integers, since it is called at each step and fractions are slow
        return -(-(2 * step + 1) * moves // (2 * steps)) - 1 if step else 0

    def begin(self, due: int) -> int:
        """Returns after how many training steps the scheduler does its step number `due`, counted from 1.

        It is the number nearest to the exact place, which may be a fraction, and at least 1.
        """
        return max(1, math.floor(due * self.every + Fraction(1, 2)))


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
            le=MOST_STEPS,
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
        Field(ge=0, le=MOST_STEPS, description="validations after a reduction that are not counted"),
        Effect.RESULT,
    ] = 0

    @property
    def first_set(self) -> str:
        """The first key whose value differs from its default; "" if none does."""
        return next((name for name, default in PlateauConfig() if getattr(self, name) != default), "")


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
        """Whether the learning rate changes."""
        return self.name is not None or bool(self.parts)

    @property
    def problem(self) -> str:
        """Describes keys that contradict each other, and what to do; "" if none do."""
        if self.parts and (self.name is not None or self.args):
            return "schedule.parts: a schedule is either parts, or one class (schedule.name and schedule.args)"
        if self.plateau.patience is None and (idle := self.plateau.first_set):
            return f"schedule.plateau.{idle}: does nothing without schedule.plateau.patience: set that, or leave it out"
        for index, part in enumerate(self.parts):
            if part.name is None and part.args:
                return f"schedule.parts.{index}.args: a part without a name keeps the rate, and takes no arguments"
        return problem_of_steps(self.parts, "schedule.parts", "steps of the scheduler")

    def of_run(self, steps: int) -> Schedule:
        """Returns the schedule for a run of `steps` steps. Shares become the nearest number of steps, but at least
        one."""
        share = _share(self.every)
        every = Fraction(self.every) if share is None else share * steps

        def counted(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return type(value)(counted(item) for item in value)
            part = _share(value)
            if part is None:
                return value
            return max(math.floor(part * steps / every + Fraction(1, 2)), 1 if part else 0)

        def args_of(args: dict[str, Any]) -> dict[str, Any]:
            return {key: counted(value) for key, value in args.items()}

        parts = tuple(Part(part.name, counted(part.steps), args_of(part.args)) for part in self.parts)
        args = args_of(self.args)
        rewritten = any(
            (now.steps, now.args) != (then.steps, then.args) for now, then in zip(parts, self.parts, strict=True)
        )
        in_shares = share is not None or args != self.args or rewritten
        return Schedule(self.name, every, args, parts, in_shares)
