"""The section `[schedule]`: one learning rate scheduler, or parts one after the other. Free of torch."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from loader.section import Effect, Section

MOST_STEPS = 1 << 32  # with the largest steps, of 2^30 samples: the samples of a run fit 64 bits


class SchedulePart(Section):
    """A stretch of the schedule."""

    name: Annotated[str | None, Field(description="scheduler class, by dotted name; none keeps the rate")] = None
    steps: Annotated[
        int | None,
        Field(gt=0, le=MOST_STEPS, description="steps of the scheduler that the part lasts; the last part has none"),
    ] = None
    args: Annotated[dict[str, Any], Field(default_factory=dict, description="its keyword arguments")]


class ScheduleConfig(Section):
    """How the learning rate changes: one scheduler, or `[[schedule.parts]]`, one after the other.

    [[schedule.parts]]                                 # a part without a name keeps the rate
    name = "torch.optim.lr_scheduler.LinearLR"         # each part begins with the rate of optimizer.args.lr
    args = { start_factor = 0.01, total_iters = 500 }
    steps = 500                                        # in steps of the scheduler; all but the last part need it

    [[schedule.parts]]
    name = "torch.optim.lr_scheduler.CosineAnnealingLR"
    args = { T_max = 9500 }
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

    @property
    def is_set(self) -> bool:
        """The rate changes."""
        return self.name is not None or bool(self.parts)

    @property
    def problem(self) -> str:
        """Keys that do not go together, and what to do; empty if all do."""
        if self.parts and (self.name is not None or self.args):
            return "schedule.parts: a schedule is either parts, or one class (schedule.name and schedule.args)"
        for index, part in enumerate(self.parts):
            key, is_last = f"schedule.parts.{index}", index == len(self.parts) - 1
            if is_last and part.steps is not None:
                return f"{key}.steps: the last part goes on to the end of the run: leave it out"
            if not is_last and part.steps is None:
                return (
                    f"{key}.steps: is missing: how many steps of the scheduler this part lasts; only the last has none"
                )
            if part.name is None and part.args:
                return f"{key}.args: a part without a name keeps the rate, and takes no arguments"
        return ""
