"""The control groups above this process that have a say in its memory, in both versions of the kernel's interface."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def memory_groups(proc: Path) -> Iterator[tuple[Path, int]]:
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
