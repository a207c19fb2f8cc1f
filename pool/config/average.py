"""The table `[train.average]`: a running average of the weights, as a second set of weights. Free of torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from loader.section import Effect, Section
from pool.config.schedule import MAX_STEPS


class AverageConfig(Section):
    """A running average of the weights, which is validated, saved and exported beside them (`--ema`)."""

    kind: Annotated[
        Literal["ema", "swa"] | None,
        Field(
            description="ema: each average weighs decay times the one before; swa: all weigh the same; not set: none"
        ),
        Effect.RESULT,
    ] = None
    decay: Annotated[
        float,
        Field(ge=0, lt=1, description="of an ema: what remains of the average when weights are added to it"),
        Effect.RESULT,
    ] = 0.999
    start: Annotated[
        int,
        Field(ge=0, le=MAX_STEPS, description="the first weights that are added are those after this step"),
        Effect.RESULT,
    ] = 0
    every: Annotated[
        int,
        Field(gt=0, le=MAX_STEPS, description="from there on, those after each so many steps are added"),
        Effect.RESULT,
    ] = 1

    def includes(self, version: int) -> bool:
        """Tells whether the weights after `version` steps are added to the average. Those that a run begins with
        never are."""
        if self.kind is None or version <= 0 or version < self.start:
            return False
        return (version - self.start) % self.every == 0

    def rate(self, count: int) -> float:
        """Returns how far the average moves towards the `count`-th weights that are added to it, as a fraction.
        `count` is from 1.

        The first weights become the average. The fraction of kind ema is (1 - decay) / (1 - decay^count). This
        equals an average that begins with zeros and is divided by the sum of its weights (the bias correction of
        Adam).
        """
        if self.kind == "swa":
            return 1 / count
        return (1 - self.decay) / (1 - self.decay**count)

    @property
    def problem(self) -> str:
        """Describes keys that contradict each other, and what to do; "" if none do."""
        if self.kind is None:
            for name, default in AverageConfig():
                if getattr(self, name) != default:
                    return f"train.average.{name}: does nothing without train.average.kind: set that, or leave it out"
        if self.kind == "swa" and self.decay != AverageConfig().decay:
            return "train.average.decay: is of kind ema; with swa all weights weigh the same: leave it out"
        return ""

    def find_warning(self, steps: int) -> str | None:
        """Describes why a run of `steps` steps will have no averaged weights, or an average of a single version; else
        None."""
        if self.kind is None:
            return None
        first = self.start or self.every
        if first > steps:
            key = "start" if self.start else "every"
            return f"train.average.{key} is {first:,} and train.steps {steps:,}: there will be no averaged weights"
        if first + self.every > steps:
            return (
                f"the averaged weights will be those of step {first:,} alone: the next to be added are those of step "
                f"{first + self.every:,} (train.average.every), and train.steps is {steps:,}"
            )
        return None
