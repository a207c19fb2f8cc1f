"""Chooses where a restarted coordinator begins: at a snapshot in memory if possible, else at a checkpoint (I9)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pool.checkpoint import snapshot
from pool.checkpoint.snapshot import Snapshot
from pool.checkpoint.state import BEST, LAST
from pool.protocol.blame import DeathInBatch, verdict
from pool.protocol.identity import Peer
from pool.shm.memory_map import SNAPSHOTS
from pool.shm.segment import Segment, reopen_read_only
from pool.supervisor.prepare.resume import resume_point
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.run_folder import RunFolder


def go_on(
    run: RunPlan, folder: RunFolder, coordinator: Peer, segments: Mapping[str, int], step: int | None = None
) -> RunPlan:
    """Returns the run's plan for a new coordinator whose predecessor has died. It begins as in a resumed run (I9).

    It begins with the newest snapshot in memory that is whole, or, if there is none, with the newest good checkpoint.
    `segments`: descriptors of shared memory, by name. `step`: one of those that `steps_to_begin_with` gave, on which
    several machines have agreed.
    """
    run = replace(run, coordinator=coordinator, saved=folder.linked_step(LAST))
    if step is not None:
        return _from_step(run, folder, segments, step)
    if (chosen := choose(_whole(segments, folder), folder.linked_step(BEST))) is not None:
        index, state = chosen
        return replace(run, step=state.step, cursor=state.cursor, snapshot=index)
    checkpoint = folder.last_checkpoint()
    step, cursor = resume_point(run.config, checkpoint, run.train_files)
    return replace(run, step=step, cursor=cursor, checkpoint=checkpoint, snapshot=None)


def steps_to_begin_with(folder: RunFolder, segments: Mapping[str, int]) -> list[int]:
    """Returns the steps with which a new coordinator could begin, ascending: those of checkpoints and of whole
    snapshots."""
    return sorted({*folder.checkpoint_steps(), *(state.step for _, state in _whole(segments, folder))})


def _from_step(run: RunPlan, folder: RunFolder, segments: Mapping[str, int], step: int) -> RunPlan:
    """Returns the run's plan to begin with this step, from a snapshot or a checkpoint."""
    for index, state in _whole(segments, folder):
        if state.step == step:
            return replace(run, step=step, cursor=state.cursor, snapshot=index)
    checkpoint = None if step == 0 else folder.checkpoint_of(step)
    _, cursor = resume_point(run.config, checkpoint, run.train_files)
    return replace(run, step=step, cursor=cursor, checkpoint=checkpoint, snapshot=None)


def still_to_know(deaths: Sequence[DeathInBatch], done: int) -> tuple[DeathInBatch, ...]:
    """Returns the deaths of workers that a new coordinator has to know of.

    Batches of steps below `done` were computed in the end, so deaths in them are left out. Those are kept that make a
    batch unusable: the step was completed without it, and so it has to be when the step is done again.
    """
    of_batch: defaultdict[object, list[DeathInBatch]] = defaultdict(list)
    for death in deaths:
        of_batch[death.key].append(death)
    return tuple(death for death in deaths if death.step >= done or verdict(of_batch[death.key]))


def choose(whole: Iterator[tuple[int, Snapshot]], best_on_disk: int) -> tuple[int, Snapshot] | None:
    """Chooses a snapshot to begin with. Returns its index and state, or None if there is no whole snapshot.

    `whole`: index and state of each whole snapshot, newest first; `best_on_disk`: step of the best checkpoint on the
    disk. The newest snapshot is chosen. If the best checkpoint that it names was not written yet, the snapshot of that
    step is chosen instead, if there is one.
    """
    if (newest := next(whole, None)) is None:
        return None
    best = newest[1].validations.best
    if best is None or best.step in (best_on_disk, newest[1].step):
        return newest
    return next((other for other in whole if other[1].step == best.step), newest)


def _whole(segments: Mapping[str, int], folder: RunFolder) -> Iterator[tuple[int, Snapshot]]:
    """Yields index and state of each snapshot whose bytes are intact, newest first.

    Every byte of a snapshot is read when the iterator comes to it. Damaged ones are noted for the user.
    """
    for index, mapped in _snapshots(segments):
        if (state := snapshot.read(mapped.array)) is not None:
            yield index, state
        else:
            folder.note(f"memory snapshot {index} is damaged: its dead writer left other bytes than it had summed up")


def _snapshots(segments: Mapping[str, int]) -> list[tuple[int, Segment]]:
    """Maps the snapshot areas that are marked as complete. Returns index and mapping of each, newest first.

    An area stays mapped as long as its mapping is referenced.
    """
    areas = []
    for index, name in enumerate(SNAPSHOTS):
        fd = reopen_read_only(segments[name])
        mapped = Segment(fd, writable=False)
        os.close(fd)
        if (step := snapshot.committed(mapped.array)) is not None:
            areas.append((step, index, mapped))
    return [(index, mapped) for _, index, mapped in sorted(areas, key=lambda entry: -entry[0])]
