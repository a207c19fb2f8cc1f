"""The section `[schedule]`: one learning rate scheduler, or parts one after the other. Free of torch."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from loader.section import Effect, Section
from pool.config.parts import problem_of_steps

MOST_STEPS = 1 << 32  # with the largest steps, of 2^30 samples: the samples of a run fit 64 bits


class SchedulePart(Section):
    """A stretch of the schedule."""

    name: Annotated[str | None, Field(description="scheduler class, by dotted name; none keeps the rate")] = None
    steps: Annotated[
        int | None,
        Field(gt=0, le=MOST_STEPS, description="steps of the scheduler that the part lasts; the last part has none"),
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
        """The first key that has another value than its default; empty if none has."""
        return next((name for name, default in PlateauConfig() if getattr(self, name) != default), "")


class ScheduleConfig(Section):
    """How the learning rate changes: one scheduler, or `[[schedule.parts]]`, one after the other.

    [[schedule.parts]]                                 # a part without a name keeps the rate
    name = "torch.optim.lr_scheduler.LinearLR"         # each part begins with the rate of optimizer.args.lr
    args = { start_factor = 0.01, total_iters = 500 }
    steps = 500                                        # in steps of the scheduler; all but the last part need it

    [[schedule.parts]]
    name = "torch.optim.lr_scheduler.CosineAnnealingLR"
    args = { T_max = 9500 }

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
        int, Field(gt=0, le=MOST_STEPS, description="training steps between two steps of the scheduler"), Effect.RESULT
    ] = 1
    args: Annotated[dict[str, Any], Field(default_factory=dict, description="its keyword arguments"), Effect.SAVED]
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
        """The rate changes."""
        return self.name is not None or bool(self.parts)

    @property
    def problem(self) -> str:
        """Keys that do not go together, and what to do; empty if all do."""
        if self.parts and (self.name is not None or self.args):
            return "schedule.parts: a schedule is either parts, or one class (schedule.name and schedule.args)"
        if self.plateau.patience is None and (idle := self.plateau.first_set):
            return f"schedule.plateau.{idle}: does nothing without schedule.plateau.patience: set that, or leave it out"
        for index, part in enumerate(self.parts):
            if part.name is None and part.args:
                return f"schedule.parts.{index}.args: a part without a name keeps the rate, and takes no arguments"
        return problem_of_steps(self.parts, "schedule.parts", "steps of the scheduler")
