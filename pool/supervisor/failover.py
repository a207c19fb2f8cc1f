"""The coordinator's successor: it begins as a resumed run does, but from memory (I9)."""

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
from pool.shm.segment import Segment, read_only
from pool.supervisor.prepare.resume import resume_point
from pool.supervisor.prepare.run_plan import RunPlan
from pool.supervisor.resources.run_folder import RunFolder


def go_on(
    run: RunPlan, folder: RunFolder, coordinator: Peer, segments: Mapping[str, int], step: int | None = None
) -> RunPlan:
    """Returns the run as a new coordinator takes it on when its predecessor died: the way a resumed run begins (I9).

    From the newest snapshot that is whole; only if there is none, from the newest good checkpoint. `step`: of those
    that `steps_to_begin_with` gave, on which several machines have agreed.
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
    """Returns the steps that a new coordinator could begin with, ascending."""
    return sorted({*folder.checkpoint_steps(), *(state.step for _, state in _whole(segments, folder))})


def _from_step(run: RunPlan, folder: RunFolder, segments: Mapping[str, int], step: int) -> RunPlan:
    for index, state in _whole(segments, folder):
        if state.step == step:
            return replace(run, step=step, cursor=state.cursor, snapshot=index)
    checkpoint = None if step == 0 else folder.checkpoint_of(step)
    _, cursor = resume_point(run.config, checkpoint, run.train_files)
    return replace(run, step=step, cursor=cursor, checkpoint=checkpoint, snapshot=None)


def still_to_know(deaths: Sequence[DeathInBatch], done: int) -> tuple[DeathInBatch, ...]:
    """Leaves out those in batches that were computed in the end: of steps below `done`, but for the batches without
    which these were done, and are done again."""
    of_batch: defaultdict[object, list[DeathInBatch]] = defaultdict(list)
    for death in deaths:
        of_batch[death.key].append(death)
    return tuple(death for death in deaths if death.step >= done or verdict(of_batch[death.key]))


def choose(whole: Iterator[tuple[int, Snapshot]], best_on_disk: int) -> tuple[int, Snapshot] | None:
    """Chooses among the areas that hold something whole, newest first, the newest; but if its best checkpoint was still
    to be written, the area that holds that one."""
    if (newest := next(whole, None)) is None:
        return None
    best = newest[1].validations.best
    if best is None or best.step in (best_on_disk, newest[1].step):
        return newest
    return next((other for other in whole if other[1].step == best.step), newest)


def _whole(segments: Mapping[str, int], folder: RunFolder) -> Iterator[tuple[int, Snapshot]]:
    """Reads every byte of an area when it is asked for; notes which ones are damaged."""
    for index, mapped in _snapshots(segments):
        if (state := snapshot.read(mapped.array)) is not None:
            yield index, state
        else:
            folder.note(f"memory snapshot {index} is damaged: its dead writer left other bytes than it had summed up")


def _snapshots(segments: Mapping[str, int]) -> list[tuple[int, Segment]]:
    """Maps the areas that say they are whole, newest first; mapped as long as they are held."""
    areas = []
    for index, name in enumerate(SNAPSHOTS):
        fd = read_only(segments[name])
        mapped = Segment(fd, writable=False)
        os.close(fd)
        if (step := snapshot.committed(mapped.array)) is not None:
            areas.append((step, index, mapped))
    return [(index, mapped) for _, index, mapped in sorted(areas, key=lambda entry: -entry[0])]
