"""Parts of a schedule, one after the other, each so many steps long and the last up to the end of the run. Free of
torch."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol


class Part(Protocol):
    @property
    def steps(self) -> int | None:
        """How many it lasts; None of the last."""


class WrittenPart(Protocol):
    @property
    def steps(self) -> int | str | None:
        """How many it lasts, or a share of the run's; None of the last."""


def first_steps(parts: Sequence[Part]) -> list[int]:
    """The step at which each part begins."""
    return [0, *accumulate(part.steps for part in parts if part.steps is not None)]


def in_force(begins: Sequence[int], step: int) -> int:
    """The number of the part that step `step` is of; `begins`: of all parts, as `first_steps` gives them."""
    return bisect.bisect_right(begins, step) - 1


def problem_of_steps(parts: Sequence[WrittenPart], key: str, steps: str) -> str:
    """Why parts can't follow one another, with the key; empty if they can. `steps`: what is counted, in words."""
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        if is_last and part.steps is not None:
            return f"{key}.{index}.steps: the last part goes on to the end of the run: leave it out"
        if not is_last and part.steps is None:
            return f"{key}.{index}.steps: is missing: how many {steps} this part lasts; only the last has none"
    return ""
