"""The processes of a run and the memory of each, as the machine sees them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_SEGMENT = re.compile(r"/memfd:(\S+)")


def children(pid: int) -> list[int]:
    """None if there is no such process any more."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(child) for child in text.split()]


def roles(supervisor: int) -> dict[int, str]:
    """Living children of a run's supervisor by pid: worker, feeder, coordinator, planner, forkserver.

    A process writes to the log of who it is; one that has been forked, and not yet been told, to the fork server's.
    """
    roles_by_pid = {}
    for pid in children(supervisor):
        try:
            output = Path(f"/proc/{pid}/fd/1").readlink()
        except OSError:
            continue
        roles_by_pid[pid] = output.stem.partition("-")[0]
    return roles_by_pid


def role_pid(role: str, supervisor: int) -> int:
    """The pid of who has the role now."""
    return next(pid for pid, its in sorted(roles(supervisor).items()) if its == role)


@dataclass
class Usage:
    """Bytes of memory."""

    resident: int = 0  # shared segments left out
    own: int = 0  # of these, what no other process has
    segments: dict[str, int] = field(default_factory=dict)  # size of each that it maps


def memory_of(pid: int) -> Usage:
    """From its /proc/PID/smaps."""
    usage, segment = Usage(), ""
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
        key, _, rest = line.partition(" ")
        if not key.endswith(":"):  # a mapping begins
            match = _SEGMENT.search(line)
            segment = match[1] if match else ""
            begin, end = (int(part, 16) for part in key.split("-"))
            if segment:
                usage.segments[segment] = usage.segments.get(segment, 0) + end - begin
        elif not segment:
            size = int(rest.split()[0]) << 10 if rest.endswith("kB") else 0
            usage.resident += size if key == "Rss:" else 0
            usage.own += size if key.startswith("Private_") else 0
    return usage
