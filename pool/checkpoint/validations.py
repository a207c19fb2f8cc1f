"""What a run knows of its validations: the newest, and the best of those that choose a checkpoint. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True)
class Validation:
    """The loss of one version of the weights on the validation files."""

    step: Annotated[int, Field(ge=0, lt=1 << 63)]  # version of the weights
    loss: float


@dataclass(frozen=True)
class Validations:
    newest: Validation | None = None
    best: Validation | None = None  # the first of the lowest; its weights are, or are about to be, a checkpoint

    def after(self, found: Validation) -> Validations:
        """With one more. The weights that a run begins with are no candidate: a checkpoint would hold nothing new."""
        better = self.best is None or found.loss < self.best.loss
        if found.step == 0 or not math.isfinite(found.loss) or not better:
            return replace(self, newest=found)
        return Validations(found, found)


NONE = Validations()
