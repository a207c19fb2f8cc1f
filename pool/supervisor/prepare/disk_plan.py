"""Computes how much disk space a run's checkpoints will take, and checks that there is room."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pool.checkpoint.folder import list_checkpoints
from pool.checkpoint.state import FOLDER
from pool.errors import ResourceError, RunError
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.system_memory import format_mib

_STATE_NBYTES = 1 << 20  # of a checkpoint, besides tensors and the records of data files
_FILE_NBYTES = 300  # of a data file's record in a checkpoint, its name included
_CHUNK_NBYTES = 8  # of a chunk's checksum in a checkpoint


@dataclass(frozen=True)
class DiskPlan:
    """Holds the number and the size of the checkpoints that a run will write, and the room for them."""

    nbytes: int  # bytes of one checkpoint
    more: int  # most additional checkpoints at a time, besides those on the disk already
    place: Path  # the checkpoints' folder, or the nearest one above it that exists
    free: int  # free bytes on the disk
    keeps_every: bool = False  # train.keep_every keeps additional checkpoints


def disk_plan(run: RunPlan) -> DiskPlan:
    """Computes the room that the run's checkpoints will take, and the room that there is. Raises RunError."""
    folder = run.run_dir / FOLDER
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        space = os.statvfs(existing)
    except OSError as error:
        raise RunError(f"{existing}: {error.strerror}") from None
    return DiskPlan(
        nbytes=_checkpoint_nbytes(run),
        more=_count_additional(run, len(list_checkpoints(folder))),
        place=existing,
        free=space.f_bavail * space.f_frsize,
        keeps_every=run.config.train.keep_every > 0,
    )


def _checkpoint_nbytes(run: RunPlan) -> int:
    """Returns the bytes of one checkpoint."""
    num_files = len(run.train_files) + len(run.validation_files)
    num_chunks = sum(run.planned.num_chunks.values())
    return run.planned.state_nbytes + _STATE_NBYTES + _FILE_NBYTES * num_files + _CHUNK_NBYTES * num_chunks


def _count_additional(run: RunPlan, num_existing: int) -> int:
    """Returns how many checkpoints there may be at a time besides the existing ones, with the one that is being
    written."""
    train = run.config.train
    num_best = 1 if run.config.has_validations else 0
    num_kept = train.keep_checkpoints + num_best
    if train.keep_every:
        num_kept += train.steps // train.keep_every
    every = 1 if train.checkpoint_minutes else train.checkpoint_every
    num_due = 1 if every == 0 else 1 + (train.steps - run.step) // every
    return min(max(0, num_kept - num_existing) + 1, num_due + num_best)


def format_advice(plans: Iterable[DiskPlan]) -> str:
    """Returns the advice for a disk that is too small: settings to lower, or another folder."""
    every = "raise train.keep_every, " if any(plan.keeps_every for plan in plans) else ""
    return f"lower train.keep_checkpoints, {every}or choose another run.dir"


def check_disk(plan: DiskPlan) -> None:
    """Checks that the disk has room for the checkpoints. Raises ResourceError."""
    if plan.more * plan.nbytes > plan.free:
        raise ResourceError(
            f"not enough room on the disk of {plan.place}: {plan.more} more checkpoints of "
            f"{format_mib(plan.nbytes)} are to be written, and {format_mib(plan.free)} are free; "
            f"{format_advice([plan])}"
        )
