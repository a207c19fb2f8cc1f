"""How many cores this process may use, from which defaults of numbers of threads are computed."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CGROUP_LIST = Path("/proc/self/cgroup")
_CGROUP_MOUNT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class _ControlGroup:
    """A control group (cgroup) of this process."""

    mount: Path  # folder of the topmost group
    folder: Path
    is_unified: bool  # of cgroup version 2


def allowed_cores(cgroup_list: Path = _CGROUP_LIST, cgroup_mount: Path = _CGROUP_MOUNT) -> int:
    """Returns the number of cores that this process may use: those of its affinity (`taskset`), but at most the quota
    of its control groups, rounded up.

    cgroup_list: the file that lists the process's control groups. cgroup_mount: the folder in which they are mounted.
    """
    limits = [len(os.sched_getaffinity(0))]
    for group in _control_groups(cgroup_list, cgroup_mount):
        limits += [max(1, math.ceil(quota)) for quota in _core_quotas(group)]
    return min(limits)


def decoding_threads(accelerators: int = 0) -> int:
    """Returns the default number of threads that decode and build batches for `accelerators` devices: half of the
    cores, from 2 to 2 + 2 x accelerators. The other cores wait for devices and step weights. Two threads are no slower
    than one on a single core, and keep CPU workers busy."""
    return min(max(2, allowed_cores() // 2), 2 + 2 * accelerators)


def _control_groups(cgroup_list: Path, cgroup_mount: Path) -> Iterator[_ControlGroup]:
    """Yields the control groups of the process that may limit its processor time."""
    try:
        lines = cgroup_list.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:  # HIERARCHY:CONTROLLERS:PATH, without controllers in version 2
        _, _, controllers_and_path = line.partition(":")
        controllers, _, path = controllers_and_path.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = cgroup_mount / controllers
        yield _ControlGroup(mount, mount / path.lstrip("/"), is_unified=not controllers)


def _core_quotas(group: _ControlGroup) -> Iterator[float]:
    """Yields the quota in cores of a control group, and of each group that contains it. A group without a quota yields
    nothing."""
    for folder in (group.folder, *group.folder.parents):
        if not folder.is_relative_to(group.mount):
            return  # a container may see its own group as the top one, whatever its name is
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = _read_quota_and_period(folder, is_unified=group.is_unified)
            if quota > 0:
                yield quota / period


def _read_quota_and_period(folder: Path, *, is_unified: bool) -> tuple[int, int]:
    """Returns the processor time that a control group may use in each period, and the period, in microseconds. Raises
    OSError or ValueError if the group has no quota."""
    if is_unified:
        quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        return int(quota), int(period)  # "max", for no quota, raises ValueError
    return int((folder / "cpu.cfs_quota_us").read_text()), int((folder / "cpu.cfs_period_us").read_text())
