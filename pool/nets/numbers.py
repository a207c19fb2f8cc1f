"""Parses the numbers that the command `train.on_export` prints for a net, as a JSON object in its last line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

from pool.protocol.messages import MetricValue, NetNumbers

MOST = 64  # numbers that are taken from one command
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def parse_numbers(output: str) -> dict[str, float]:
    """Returns the numbers in a command's output, by name.

    Entries of the object that are no finite numbers, or whose names have other characters than letters, digits and
    `_.-`, are left out. Returns an empty dictionary if the last line is no JSON object.
    """
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
    try:
        entries = json.loads(last)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(entries, dict):
        return {}
    named = ((name, _to_float(value)) for name, value in entries.items() if _NAME.fullmatch(name))
    return dict([(name, value) for name, value in named if math.isfinite(value)][:MOST])


def join_numbers(step: int, of_members: Sequence[Mapping[str, float]]) -> NetNumbers:
    """Joins the numbers for all members' nets of a step. A number that a member's net lacks is NaN."""
    names = dict.fromkeys(name for numbers in of_members for name in numbers)
    values = (MetricValue(name, tuple(numbers.get(name, math.nan) for numbers in of_members)) for name in names)
    return NetNumbers(step, tuple(values))


def _to_float(value: object) -> float:
    """Converts a JSON number to float; NaN for what is no number or too large."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
