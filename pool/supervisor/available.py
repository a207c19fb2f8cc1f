"""How much memory a run may take: what the machine has left, and every control group above this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pool.errors import RunError

UNLIMITED = 1 << 60  # version 1 of control groups writes a number near 2^63 for no limit


@dataclass(frozen=True)
class Available:
    nbytes: int
    where: str  # what limits it


def available_memory(proc: Path = Path("/proc")) -> Available:
    """The least of MemAvailable and, of each control group, limit less use (file cache that can go not counted)."""
    return min((_machine(proc), *_groups(proc)), key=lambda available: available.nbytes)


def _machine(proc: Path) -> Available:
    for line in (proc / "meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return Available(int(line.split()[1]) << 10, "MemAvailable of /proc/meminfo")
    raise RunError("/proc/meminfo has no MemAvailable")


def _groups(proc: Path) -> Iterator[Available]:
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
            if (available := _group(folder, version)) is not None:
                yield available
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
