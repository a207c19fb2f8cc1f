"""Finds how much memory a run may take, and how often the kernel has killed a process because memory ran out.

The machine and every control group above this process have a limit of memory and a counter of such kills. Both versions
of the kernel's interface to control groups are read.
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


def format_mib(size: int) -> str:
    """Returns a number of bytes as text in MiB, such as `1,024 MiB`."""
    return f"{size / (1 << 20):,.0f} MiB"


@dataclass(frozen=True)
class Available:
    """Holds the bytes of memory that are available, and what limits them."""

    nbytes: int
    where: str  # name of the limit


def available_memory(proc: Path = Path("/proc")) -> Available:
    """Returns the memory available to this process: the least of MemAvailable and what each control group still allows.

    A group allows its limit less its use, where file cache that the kernel can drop does not count as use.
    """
    return min(
        (_machine(proc), *filter(None, (_left_of(*group) for group in _groups(proc)))),
        key=lambda available: available.nbytes,
    )


def _machine(proc: Path) -> Available:
    """Returns the memory that the machine has available. Raises RunError if the kernel does not tell."""
    for line in (proc / "meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return Available(int(line.split()[1]) << 10, "MemAvailable of /proc/meminfo")
    raise RunError("/proc/meminfo has no MemAvailable")


def _left_of(folder: Path, version: int) -> Available | None:
    """Returns the bytes of memory that a control group still allows. None if it has no limit, or can't be seen from
    here."""
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


def count_oom_kills(proc: Path = Path("/proc")) -> int:
    """Returns how often the kernel has killed a process because memory ran out.

    Counts in the control groups above this process, or on the whole machine if no group has a counter. 0 if nothing
    counts.
    """
    try:
        files = [folder / _COUNTERS[version] for folder, version in _groups(proc)]
    except (OSError, ValueError):
        files = []
    counts = [count for file in files if (count := _count(file)) is not None]
    return sum(counts) if counts else _count(proc / "vmstat") or 0


def _count(file: Path) -> int | None:
    """Returns the number of processes killed for want of memory, from a file of counters. None if the file has none."""
    try:
        words = file.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return None
    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else None


def _groups(proc: Path) -> Iterator[tuple[Path, int]]:
    """Yields folder and version of each control group above this process, its own first, even if it can't be seen from
    here."""
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
    """Yields for each version of control groups the group that is mounted, and the folder where it is mounted."""
    for line in mountinfo.read_text(encoding="utf-8").splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        root, place = fields.split(" ")[3:5]
        if kind == "cgroup2":
            yield 2, (root, Path(place))
        elif kind == "cgroup" and "memory" in options.split(","):
            yield 1, (root, Path(place))
