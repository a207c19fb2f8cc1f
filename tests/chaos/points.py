"""The crash points there are, read from the sources, by the role that comes by."""

from __future__ import annotations

import re
from collections import defaultdict

from tests.support.runs import ROOT

_CALL = re.compile(r'crash_point\("(([a-z]+)\.[a-z_]+)"\)')


def crash_points() -> dict[str, list[str]]:
    """Role -> names."""
    found: dict[str, set[str]] = defaultdict(set)
    for folder in (ROOT / "pool", ROOT / "loader"):
        for path in folder.rglob("*"):
            if path.suffix in (".py", ".cpp", ".h", ".inc"):
                for name, role in _CALL.findall(path.read_text(encoding="utf-8")):
                    found[role].add(name)
    return {role: sorted(names) for role, names in sorted(found.items())}


def together(points: dict[str, list[str]]) -> list[tuple[str, ...]]:
    """One of each role a run, so that few runs come by all of them."""
    longest = max(map(len, points.values()))
    return [tuple(names[i] for names in points.values() if i < len(names)) for i in range(longest)]
