"""Parses the numbers that the command `train.on_export` prints for a net, as a JSON object in its last line."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence

from pool.protocol.messages import MetricValue, NetNumbers

MAX_NUMBERS = 64  # of one command
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def parse_numbers(output: str) -> dict[str, float]:
    """Returns the numbers in a command's output, by name.

    Entries of the object that are no finite numbers, or whose names have other characters than letters, digits and
    `_.-`, are left out. Returns an empty dictionary if the last line is no JSON object.
    """
    lines = [line for line in output.splitlines() if line.strip()]
    try:
        entries = json.loads(lines[-1] if lines else "")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(entries, dict):
        return {}
    numbers = {name: _to_float(value) for name, value in entries.items() if _NAME.fullmatch(name)}
    finite = ((name, value) for name, value in numbers.items() if math.isfinite(value))
    return dict(itertools.islice(finite, MAX_NUMBERS))


def join_numbers(step: int, member_numbers: Sequence[Mapping[str, float]]) -> NetNumbers:
    """Joins the numbers for all members' nets of a step, by name. A number that a member's net lacks is NaN."""
    names = dict.fromkeys(name for numbers in member_numbers for name in numbers)
    values = [MetricValue(name, tuple(numbers.get(name, math.nan) for numbers in member_numbers)) for name in names]
    return NetNumbers(step, tuple(values))


def _to_float(value: object) -> float:
    """Converts a JSON number to float; NaN for what is no number or too large."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
