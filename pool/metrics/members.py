"""Numbers of all members in one: a member that is frozen has none, which is NaN. Free of torch."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from statistics import median


def median_of(values: Iterable[float]) -> float:
    """Of those that are numbers; NaN if none is."""
    numbers = [value for value in values if not math.isnan(value)]
    return median(numbers) if numbers else math.nan


def of_members(name: str, values: Sequence[float]) -> dict[str, float]:
    """A number of each member by its name in the records of a run, `member.M.NAME`; nothing if there is one member."""
    return {f"member.{m}.{name}": value for m, value in enumerate(values)} if len(values) > 1 else {}


def member_of(name: str) -> tuple[int, str] | None:
    """The inverse: of a name in the records, member and name; None if it is no member's."""
    found = _OF_A_MEMBER.fullmatch(name)
    return None if found is None else (int(found[1]), found[2])


_OF_A_MEMBER = re.compile(r"member\.([0-9]+)\.(.+)")
