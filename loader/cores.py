"""How many cores this process may use, from which defaults of numbers of threads are computed."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/proc/self/cgroup")
_MOUNTED = Path("/sys/fs/cgroup")


def allowed_cores(groups: Path = _GROUPS, mounted: Path = _MOUNTED) -> int:
    """Returns the number of cores that this process may use: those of its affinity (`taskset`), but at most the quota
    of its control groups, rounded up.

    groups: the file that lists the process's control groups. mounted: the folder in which control groups are mounted.
    """
    quotas = [max(1, math.ceil(quota)) for quota in _quotas(groups, mounted)]
    return min([len(os.sched_getaffinity(0)), *quotas])


def decoding_threads(accelerators: int = 0) -> int:
    """Returns the default number of threads that decode and build batches for `accelerators` devices: half of the
    cores, from 2 to 2 + 2 x accelerators. The other cores wait for devices and step weights. Two threads are no slower
    than one on a single core, and keep CPU workers busy."""
    return min(max(2, allowed_cores() // 2), 2 + 2 * accelerators)


def _quotas(groups: Path, mounted: Path) -> Iterator[float]:
    """Yields the quota in cores of each control group of the process, and of each group that contains it. A group
    without a quota yields nothing."""
    try:
        lines = groups.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = mounted / controllers
        place = top / name.lstrip("/")
        for folder in (place, *place.parents):
            if not folder.is_relative_to(top):
                break  # a container may see its own group as the top one, whatever its name is
            with suppress(OSError, ValueError, ZeroDivisionError):
                quota, period = _quota_and_period(folder, is_unified=not controllers)
                if quota > 0:
                    yield quota / period


def _quota_and_period(folder: Path, *, is_unified: bool) -> tuple[int, int]:
    """Returns the processor time that a control group may use in each period, and the period, in microseconds. Raises
    OSError or ValueError if the group has no quota."""
    if is_unified:
        quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        return int(quota), int(period)  # "max", for no quota, raises ValueError
    return int((folder / "cpu.cfs_quota_us").read_text()), int((folder / "cpu.cfs_period_us").read_text())
