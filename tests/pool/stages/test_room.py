"""Room on the disk for all stages together: what a stage leaves stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.errors import ResourceError
from pool.stages.train import check_room
from pool.supervisor.prepare.disk_plan import DiskPlan, check_disk

MIB = 1 << 20


def test_room_for_each_is_not_room_for_all() -> None:
    needed = {name: DiskPlan(10 * MIB, 2, Path("/disk"), 45 * MIB) for name in ("first", "second")}
    check_room(needed)
    check_room({})
    needed["third"] = DiskPlan(3 * MIB, 2, Path("/disk"), 45 * MIB)
    said = "disk of /disk: checkpoints of first, second, third take 46 MiB together, and 45 MiB are free"
    with pytest.raises(ResourceError, match=said):
        check_room(needed)


@pytest.mark.parametrize("keeps_every", [False, True])
def test_a_setting_is_named_where_it_does_something(keeps_every: bool) -> None:
    plan = DiskPlan(10 * MIB, 2, Path("/disk"), 15 * MIB, keeps_every=keeps_every)
    for check in (lambda: check_disk(plan), lambda: check_room({"first": plan})):
        with pytest.raises(ResourceError, match=r"lower train\.keep_checkpoints") as refused:
            check()
        assert ("raise train.keep_every" in str(refused.value)) == keeps_every
