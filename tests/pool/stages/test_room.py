"""Room on the disk for all stages together: what a stage leaves stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.errors import ResourceError
from pool.stages.train import check_room
from pool.supervisor.prepare.disk_plan import DiskPlan

MIB = 1 << 20


def test_room_for_each_is_not_room_for_all() -> None:
    needed = {name: DiskPlan(10 * MIB, 2, Path("/disk"), 45 * MIB) for name in ("first", "second")}
    check_room(needed)
    check_room({})
    needed["third"] = DiskPlan(3 * MIB, 2, Path("/disk"), 45 * MIB)
    said = "disk of /disk: checkpoints of first, second, third take 46 MiB together, and 45 MiB are free"
    with pytest.raises(ResourceError, match=said):
        check_room(needed)
