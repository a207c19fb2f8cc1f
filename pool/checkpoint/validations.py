"""What a run knows of its validations: the newest, and the best of those that choose a checkpoint. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from pool.checkpoint.disk.plain import same, value_at


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
_SETTINGS = ("data.validation", "train.validation_batches", "loss")


def comparable(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether validations of runs with these configs measure the same."""
    return all(same(value_at(then, key), value_at(now, key)) for key in _SETTINGS)
