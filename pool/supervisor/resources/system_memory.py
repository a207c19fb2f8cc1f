"""How much memory a run may take, and how often the kernel has killed a process because memory ran out.

Both are limited by the machine and by every control group above this process, in either version of the kernel's
interface.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pool.errors import RunError

UNLIMITED = 1 << 60  # version 1 of control groups writes a number near 2^63 for no limit

# by version of control groups
_LIMITS = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
_COUNTERS = {1: "memory.oom_control", 2: "memory.events"}


def mib(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"


@dataclass(frozen=True)
class Available:
    nbytes: int
    where: str  # what limits it


def available_memory(proc: Path = Path("/proc")) -> Available:
    """The least of MemAvailable and, of each control group, limit less use (file cache that can go not counted)."""
    return min(
        (_machine(proc), *filter(None, (_left_of(*group) for group in _groups(proc)))),
        key=lambda available: available.nbytes,
    )


def _machine(proc: Path) -> Available:
    for line in (proc / "meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return Available(int(line.split()[1]) << 10, "MemAvailable of /proc/meminfo")
    raise RunError("/proc/meminfo has no MemAvailable")


def _left_of(folder: Path, version: int) -> Available | None:
    """None without a limit, or where the group can't be seen from here."""
    limit_file, used_file, cache_key = _LIMITS[version]
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


def oom_kills(proc: Path = Path("/proc")) -> int:
    """How often the kernel has killed a process for want of memory: in the control groups above this process, or on the
    machine where no group says; 0 where nothing does."""
    try:
        files = [folder / _COUNTERS[version] for folder, version in _groups(proc)]
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


def _groups(proc: Path) -> Iterator[tuple[Path, int]]:
    """Folder and version of each, this process's own first; also such as can't be seen from here."""
    mounts = dict(_mounts(proc / "self/mountinfo"))
    for line in (proc / "self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        version = 2 if controllers == "" else 1 if "memory" in controllers.split(",") else 0
        if version not in mounts:
            continue
        root, top = mounts[version]
        inside = path.removeprefix(root) if root != "/" and path.startswith(root) else path
        group = top / inside.lstrip("/")
        for folder in (group, *group.parents):
            yield folder, version
            if folder == top:
                break


def _mounts(mountinfo: Path) -> Iterator[tuple[int, tuple[str, Path]]]:
    """Version of control groups -> the group that is mounted, and where."""
    for line in mountinfo.read_text(encoding="utf-8").splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        root, place = fields.split(" ")[3:5]
        if kind == "cgroup2":
            yield 2, (root, Path(place))
        elif kind == "cgroup" and "memory" in options.split(","):
            yield 1, (root, Path(place))
