"""Combines and names values of an ensemble's members (its networks). A frozen member's value is NaN. Free of torch."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

MEMBERS = "members"  # key of a record of metrics.jsonl: lists of the members' values, by name


def median_of(values: Iterable[float]) -> float:
    """Returns the median of the values that are not NaN, or NaN if all are."""
    numbers = [value for value in values if not math.isnan(value)]
    return median(numbers) if numbers else math.nan


def name_member_values(name: str, values: Sequence[float]) -> dict[str, float]:
    """Returns each member's value under its name in the records of a run, `member.M.NAME`. Returns nothing if there is
    only one member."""
    return {f"member.{m}.{name}": value for m, value in enumerate(values)} if len(values) > 1 else {}


def split_member_name(name: str) -> tuple[int, str] | None:
    """Splits a name `member.M.NAME` of a run's records into member number and name. Returns None for any other name."""
    match = _OF_A_MEMBER.fullmatch(name)
    return None if match is None else (int(match[1]), match[2])


def select_member(record: Mapping[str, Any], member: int) -> dict[str, Any]:
    """Returns a record of metrics.jsonl with one member's own values, as a run of this member alone would have written
    it. A record of a run of one network stays as it is."""
    own = {name: value for name, value in record.items() if name != MEMBERS}
    lists = record.get(MEMBERS)
    for name, values in lists.items() if isinstance(lists, dict) else ():
        if isinstance(values, list) and member < len(values):
            own[name] = values[member]
    return own


def format_members(members: Collection[int]) -> str:
    """Returns a text that names the members, ascending. Three or more consecutive numbers become a range, such as `4 to
    9`."""
    runs: list[list[int]] = []
    for member in sorted(members):
        if runs and runs[-1][-1] + 1 == member:
            runs[-1].append(member)
        else:
            runs.append([member])
    words = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"member{'' if len(members) == 1 else 's'} {', '.join(words)}"


_OF_A_MEMBER = re.compile(r"member\.([0-9]+)\.(.+)")
