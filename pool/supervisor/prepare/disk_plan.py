"""Computes how much disk space a run's checkpoints will take, and checks that there is room."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pool.checkpoint.folder import checkpoints
from pool.checkpoint.state import FOLDER
from pool.errors import ResourceError, RunError
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.system_memory import mib

_STATE = 1 << 20  # bytes of a checkpoint besides tensors and the record of data files
_OF_A_FILE = 300  # bytes of a data file's record in a checkpoint, its name included
_OF_A_CHUNK = 8


@dataclass(frozen=True)
class DiskPlan:
    """Holds the number and the size of the checkpoints that a run will write, and the room for them."""

    nbytes: int  # bytes of one checkpoint
    more: int  # most additional checkpoints at a time, besides those on the disk already
    place: Path  # the checkpoints' folder, or the nearest one above it that exists
    free: int  # free bytes on the disk
    keeps_every: bool = False  # train.keep_every keeps additional checkpoints


def disk_plan(run: RunPlan) -> DiskPlan:
    """Counts the checkpoints that the run will keep, and the one that is being written. Raises RunError."""
    train = run.config.train
    files = len(run.train_files) + len(run.validation_files)
    data = _OF_A_FILE * files + _OF_A_CHUNK * sum(run.planned.num_chunks.values())
    every = 1 if train.checkpoint_minutes else train.checkpoint_every
    due = 1 if every == 0 else 1 + (train.steps - run.step) // every
    best = 1 if run.config.has_validations else 0
    folder = run.run_dir / FOLDER
    there = len(checkpoints(folder))
    kept = train.keep_checkpoints + best + (train.steps // train.keep_every if train.keep_every else 0)
    more = min(max(0, kept - there) + 1, due + best)
    place = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        space = os.statvfs(place)
    except OSError as error:
        raise RunError(f"{place}: {error.strerror}") from None
    nbytes = run.planned.state_nbytes + _STATE + data
    return DiskPlan(nbytes, more, place, space.f_bavail * space.f_frsize, keeps_every=train.keep_every > 0)


def advice_for(plans: Iterable[DiskPlan]) -> str:
    """Returns what takes less room, for the user: settings of the runs, or another disk."""
    every = "raise train.keep_every, " if any(plan.keeps_every for plan in plans) else ""
    return f"lower train.keep_checkpoints, {every}or choose another run.dir"


def check_disk(plan: DiskPlan) -> None:
    """Checks that the disk has room for the checkpoints. Raises ResourceError."""
    if plan.more * plan.nbytes > plan.free:
        raise ResourceError(
            f"not enough room on the disk of {plan.place}: {plan.more} more checkpoints of {mib(plan.nbytes)} are to "
            f"be written, and {mib(plan.free)} are free; {advice_for([plan])}"
        )
