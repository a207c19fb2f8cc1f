"""Consecutive parts of a schedule. Each has a number of steps, and the last one lasts to the end of the run. Free of
torch."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol


class Part(Protocol):
    """A part of a schedule whose length is in steps."""

    @property
    def steps(self) -> int | None:
        """Returns the number of steps that the part lasts; None for the last part."""


class WrittenPart(Protocol):
    """A part of a schedule as the config has it."""

    @property
    def steps(self) -> int | str | None:
        """Returns the number of steps that the part lasts, or a share of the run such as "5%"; None for the last
        part."""


def first_steps(parts: Sequence[Part]) -> list[int]:
    """Returns the step at which each part begins."""
    return [0, *accumulate(part.steps for part in parts if part.steps is not None)]


def find_part(first_steps: Sequence[int], step: int) -> int:
    """Returns the index of the part that a step belongs to. `first_steps`: the step at which each part begins."""
    return bisect.bisect_right(first_steps, step) - 1


def find_steps_problem(parts: Sequence[WrittenPart], key: str, steps: str) -> str:
    """Describes, with its key, the first part whose length is missing or superfluous; "" if there is none.

    `steps`: name of what is counted, for the text.
    """
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        if is_last and part.steps is not None:
            return f"{key}.{index}.steps: the last part goes on to the end of the run: leave it out"
        if not is_last and part.steps is None:
            return f"{key}.{index}.steps: is missing: how many {steps} this part lasts; only the last has none"
    return ""
