"""The table `[train.average]`: a running average of the weights, as a second set of weights. Free of torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from loader.section import Effect, Section
from pool.config.schedule import MOST_STEPS


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
        Field(ge=0, le=MOST_STEPS, description="the first weights that are added are those after this step"),
        Effect.RESULT,
    ] = 0
    every: Annotated[
        int,
        Field(gt=0, le=MOST_STEPS, description="from there on, those after each so many steps are added"),
        Effect.RESULT,
    ] = 1

    def adds(self, version: int) -> bool:
        """Returns whether the weights after `version` steps are added to the average. Those that a run begins with
        never are."""
        return self.kind is not None and version > 0 and version >= self.start and self._is_due(version)

    def rate(self, count: int) -> float:
        """Returns how far the average moves towards the `count`-th weights that are added to it, as a fraction.
        `count` is from 1.

        The first weights become the average. The fraction of kind ema is (1 - decay) / (1 - decay^count). This
        equals an average that begins with zeros and is divided by the sum of its weights (the bias correction of
        Adam).
        """
        return 1 / count if self.kind == "swa" else (1 - self.decay) / (1 - self.decay**count)

    @property
    def problem(self) -> str:
        """Describes keys that contradict each other, and what to do; "" if none do."""
        if self.kind is None and (
            idle := next((name for name, default in AverageConfig() if getattr(self, name) != default), "")
        ):
            return f"train.average.{idle}: does nothing without train.average.kind: set that, or leave it out"
        if self.kind == "swa" and self.decay != AverageConfig().decay:
            return "train.average.decay: is of kind ema; with swa all weights weigh the same: leave it out"
        return ""

    def left_out(self, steps: int) -> str | None:
        """Returns a warning if a run of `steps` steps has no averaged weights, or an average of a single version;
        else None."""
        if self.kind is None:
            return None
        first = self.start or self.every
        if first > steps:
            key, value = ("start", self.start) if self.start else ("every", self.every)
            return f"train.average.{key} is {value:,} and train.steps {steps:,}: there will be no averaged weights"
        if first + self.every > steps:
            return (
                f"the averaged weights will be those of step {first:,} alone: the next to be added are those of step "
                f"{first + self.every:,} (train.average.every), and train.steps is {steps:,}"
            )
        return None

    def _is_due(self, version: int) -> bool:
        return (version - self.start) % self.every == 0
