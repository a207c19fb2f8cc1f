"""How often the kernel has killed a process for want of memory, as its own counters say."""

from __future__ import annotations

from pathlib import Path

from pool.supervisor.control_groups import memory_groups

_COUNTERS = {1: "memory.oom_control", 2: "memory.events"}  # by version of control groups


def oom_kills(proc: Path = Path("/proc")) -> int:
    """In the control groups above this process, or on the machine where no group says; 0 where nothing does."""
    try:
        files = [folder / _COUNTERS[version] for folder, version in memory_groups(proc)]
    except (OSError, ValueError):
        files = []
    counts = [count for file in files if (count := _count(file)) is not None]
    return sum(counts) if counts else _count(proc / "vmstat") or 0


def _count(file: Path) -> int | None:
    try:
        words = file.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return None
    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else None
