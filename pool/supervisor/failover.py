"""Chooses where a restarted coordinator begins: at a snapshot in memory if possible, else at a checkpoint (I9)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pool.checkpoint.snapshot import Snapshot, committed_step, read_snapshot
from pool.checkpoint.state import BEST, LAST
from pool.protocol.blame import DeathInBatch, reason_unusable
from pool.protocol.identity import Peer
from pool.shm.memory_map import SNAPSHOTS
from pool.shm.segment import Segment, reopen_read_only
from pool.supervisor.prepare.resume import resume_point
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.run_folder import RunFolder


@dataclass(frozen=True)
class SnapshotInArea:
    """Holds the state of a snapshot, and the index of its area of shared memory."""

    area: int
    state: Snapshot


def plan_restart(
    run: RunPlan, folder: RunFolder, coordinator: Peer, segments: Mapping[str, int], step: int | None = None
) -> RunPlan:
    """Returns the run's plan for the successor of a dead coordinator. The successor begins as in a resumed run (I9).

    It begins with the newest undamaged snapshot in memory, or, if there is none, with the newest undamaged checkpoint.
    `segments`: descriptors of shared memory, by name; `step`: one of `resumable_steps`, on which several machines have
    agreed.
    """
    run = replace(run, coordinator=coordinator, saved=folder.linked_step(LAST))
    if step is not None:
        return _restart_at_step(run, folder, segments, step)
    snapshot = choose_snapshot(_undamaged_snapshots(segments, folder), folder.linked_step(BEST))
    if snapshot is not None:
        return _restart_at_snapshot(run, snapshot)
    return _restart_at_checkpoint(run, folder.find_last_checkpoint())


def resumable_steps(folder: RunFolder, segments: Mapping[str, int]) -> list[int]:
    """Returns the steps with which a new coordinator could begin, ascending: those of checkpoints and of undamaged
    snapshots."""
    snapshot_steps = [snapshot.state.step for snapshot in _undamaged_snapshots(segments, folder)]
    return sorted({*folder.checkpoint_steps(), *snapshot_steps})


def _restart_at_step(run: RunPlan, folder: RunFolder, segments: Mapping[str, int], step: int) -> RunPlan:
    """Returns the run's plan to begin with a step, from a snapshot or a checkpoint."""
    for snapshot in _undamaged_snapshots(segments, folder):
        if snapshot.state.step == step:
            return _restart_at_snapshot(run, snapshot)
    return _restart_at_checkpoint(run, None if step == 0 else folder.select_checkpoint(step))


def _restart_at_snapshot(run: RunPlan, snapshot: SnapshotInArea) -> RunPlan:
    """Returns the run's plan to begin with a snapshot in memory."""
    return replace(run, step=snapshot.state.step, cursor=snapshot.state.cursor, snapshot=snapshot.area)


def _restart_at_checkpoint(run: RunPlan, checkpoint: Path | None) -> RunPlan:
    """Returns the run's plan to begin with a checkpoint, or with step 0 if there is none."""
    step, cursor = resume_point(run.config, checkpoint, run.train_files)
    return replace(run, step=step, cursor=cursor, checkpoint=checkpoint, snapshot=None)


def relevant_deaths(deaths: Sequence[DeathInBatch], done: int) -> tuple[DeathInBatch, ...]:
    """Returns the deaths of workers that a new coordinator has to know of.

    Batches of steps below `done` were computed in the end, so deaths in them are left out. Those are kept that make a
    batch unusable: the step was completed without that batch, and is repeated without it.
    """
    by_batch: defaultdict[object, list[DeathInBatch]] = defaultdict(list)
    for death in deaths:
        by_batch[death.key].append(death)
    return tuple(death for death in deaths if death.step >= done or reason_unusable(by_batch[death.key]))


def choose_snapshot(undamaged: Iterator[SnapshotInArea], best_on_disk: int) -> SnapshotInArea | None:
    """Chooses a snapshot to begin with. Returns None if there is none.

    `undamaged`: the undamaged snapshots, newest first; `best_on_disk`: step of the best checkpoint on the disk. The
    newest snapshot is chosen. If the best checkpoint that it names was not written yet, the snapshot of that step is
    chosen instead, if there is one.
    """
    newest = next(undamaged, None)
    if newest is None:
        return None
    best = newest.state.validations.best
    if best is None or best.step in (best_on_disk, newest.state.step):
        return newest
    return next((older for older in undamaged if older.state.step == best.step), newest)


def _undamaged_snapshots(segments: Mapping[str, int], folder: RunFolder) -> Iterator[SnapshotInArea]:
    """Yields the snapshots that have the bytes that were written, newest first. Adds a note for each damaged one.

    Every byte of a snapshot is read when the iterator comes to it.
    """
    for area, segment in _complete_areas(segments):
        state = read_snapshot(segment.array)
        if state is None:
            folder.add_note(
                f"memory snapshot {area} is damaged: its dead writer left other bytes than it had summed up"
            )
        else:
            yield SnapshotInArea(area, state)


def _complete_areas(segments: Mapping[str, int]) -> list[tuple[int, Segment]]:
    """Maps the snapshot areas that are marked as complete. Returns index and mapping of each, newest first.

    An area stays mapped as long as its mapping is referenced.
    """
    areas = []
    for index, name in enumerate(SNAPSHOTS):
        fd = reopen_read_only(segments[name])
        segment = Segment(fd, writable=False)
        os.close(fd)
        step = committed_step(segment.array)
        if step is not None:
            areas.append((step, index, segment))
    areas.sort(key=lambda entry: -entry[0])
    return [(index, segment) for _, index, segment in areas]
