"""Expands Slurm's lists of hosts, as SLURM_JOB_NODELIST has them: `gpu[03-05,7],rack[0-1]_blade[0-1]-ib`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_PART = re.compile(r"([^][,]*)\[([^][]*)\]|([^][,]+)")
_RANGE = re.compile(r"(?P<first>\d+)(?:-(?P<last>\d+)(?::(?P<step>\d+))?)?", re.ASCII)


def expand_hosts(node_list: str) -> Iterator[str]:
    """Yields the hosts of a list in order, as `scontrol show hostnames` does.

    If a name has several brackets, the last one counts fastest. Raises ValueError on reaching a part that can't be
    parsed.
    """
    for name in _split_outside_brackets(node_list):
        yield from _expand_name(name)


def _split_outside_brackets(node_list: str) -> Iterator[str]:
    """Yields the parts of a list between the commas that are outside brackets."""
    start, depth = 0, 0
    for index, character in enumerate(node_list):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            yield node_list[start:index]
            start = index + 1
    yield node_list[start:]


def _expand_name(name: str) -> Iterator[str]:
    """Yields the hosts of a name with any number of brackets. Raises ValueError."""
    match = _PART.match(name)
    if match is None:
        raise ValueError(f"{name!r} is no host")
    prefix, ranges, plain = match.groups()
    suffix = name[match.end() :]
    beginnings: Iterable[str] = [plain]
    if ranges is not None:
        beginnings = (prefix + number for number in _expand_ranges(ranges))  # not a list: ranges may be long
    for beginning in beginnings:
        if not suffix:
            yield beginning
            continue
        for ending in _expand_name(suffix):
            yield beginning + ending


def _expand_ranges(ranges: str) -> Iterator[str]:
    """Yields the numbers in a bracket, `08-10,12`, each at least as wide as its range is written. Raises ValueError."""
    for text in ranges.split(","):
        match = _RANGE.fullmatch(text)
        if match is None:
            raise ValueError(f"[{ranges}] holds no numbers")
        first, last, step = match["first"], match["last"] or match["first"], int(match["step"] or 1)
        if int(last) < int(first) or step == 0:
            raise ValueError(f"[{ranges}] counts to no end")
        for number in range(int(first), int(last) + 1, step):
            yield str(number).zfill(len(first))
