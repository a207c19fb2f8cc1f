"""How much memory a run may take: what the machine has left, and every control group above this process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pool.errors import RunError
from pool.supervisor.control_groups import memory_groups

UNLIMITED = 1 << 60  # version 1 of control groups writes a number near 2^63 for no limit


@dataclass(frozen=True)
class Available:
    nbytes: int
    where: str  # what limits it


def available_memory(proc: Path = Path("/proc")) -> Available:
    """The least of MemAvailable and, of each control group, limit less use (file cache that can go not counted)."""
    return min(
        (_machine(proc), *filter(None, (_group(*group) for group in memory_groups(proc)))),
        key=lambda available: available.nbytes,
    )


def _machine(proc: Path) -> Available:
    for line in (proc / "meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return Available(int(line.split()[1]) << 10, "MemAvailable of /proc/meminfo")
    raise RunError("/proc/meminfo has no MemAvailable")


_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}


def _group(folder: Path, version: int) -> Available | None:
    """None without a limit, or where the group can't be seen from here."""
    limit_file, used_file, cache_key = _FILES[version]
    try:
        limit = (folder / limit_file).read_text(encoding="ascii").strip()
        if limit == "max" or int(limit) >= UNLIMITED:
            return None
        used = int((folder / used_file).read_text(encoding="ascii"))
        statistics = (folder / "memory.stat").read_text(encoding="ascii").split()
    except OSError:
        return None
    cache = int(statistics[statistics.index(cache_key) + 1]) if cache_key in statistics else 0
    return Available(max(0, int(limit) - used + cache), f"limit of the control group {folder}")
