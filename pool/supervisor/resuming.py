"""Where a run goes on: from a checkpoint on disk when it is resumed, from memory when the coordinator died (I9)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from loader.files import DataFile
from pool.checkpoint import snapshot
from pool.checkpoint.plain import not_ours, shown, value_at
from pool.checkpoint.snapshot import Snapshot
from pool.checkpoint.state import BEST, LAST, STATE, SavedState, read_state
from pool.config import Config
from pool.errors import CheckpointError, ConfigError
from pool.launch import Launch
from pool.protocol.identity import Peer
from pool.protocol.messages import CursorState
from pool.shm.memory import SNAPSHOTS
from pool.shm.segment import Segment, read_only
from pool.supervisor.data_files import compare_files
from pool.supervisor.run_folder import RunFolder


def go_on(launch: Launch, folder: RunFolder, coordinator: Peer, segments: Mapping[str, int]) -> Launch:
    """What a new coordinator is told when its predecessor died: the way a resumed run begins (I9).

    From the newest snapshot that is whole; only if there is none, from the newest good checkpoint.
    """
    launch = replace(launch, coordinator=coordinator, saved=folder.linked_step(LAST))
    if (chosen := choose(_whole(segments, folder), folder.linked_step(BEST))) is not None:
        index, found = chosen
        return replace(launch, step=found.step, start=found.cursor, snapshot=index)
    checkpoint = folder.last_checkpoint()
    step, start = resume_point(launch.config, checkpoint, launch.train_files)
    return replace(launch, step=step, start=start, checkpoint=checkpoint, snapshot=None)


def choose(whole: Iterator[tuple[int, Snapshot]], best_on_disk: int) -> tuple[int, Snapshot] | None:
    """Of the areas that hold something whole, newest first, the newest; but if its best checkpoint was still to be
    written, the area that holds that one."""
    if (newest := next(whole, None)) is None:
        return None
    best = newest[1].validations.best
    if best is None or best.step in (best_on_disk, newest[1].step):
        return newest
    return next((other for other in whole if other[1].step == best.step), newest)


def _whole(segments: Mapping[str, int], folder: RunFolder) -> Iterator[tuple[int, Snapshot]]:
    """Reads every byte of an area when it is asked for; notes which ones are damaged."""
    for index, mapped in _snapshots(segments):
        if (found := snapshot.read(mapped.array)) is not None:
            yield index, found
        else:
            folder.note(f"memory snapshot {index} is damaged: its dead writer left other bytes than it had summed up")


def _snapshots(segments: Mapping[str, int]) -> list[tuple[int, Segment]]:
    """Those that say they are whole, newest first; mapped as long as they are held."""
    found = []
    for index, name in enumerate(SNAPSHOTS):
        fd = read_only(segments[name])
        mapped = Segment(fd, writable=False)
        os.close(fd)
        if (step := snapshot.committed(mapped.array)) is not None:
            found.append((step, index, mapped))
    return [(index, mapped) for _, index, mapped in sorted(found, key=lambda entry: -entry[0])]


def resume_point(config: Config, checkpoint: Path | None, files: Sequence[DataFile]) -> tuple[int, CursorState]:
    """Step and cursor that a run begins with. Raises CheckpointError; ConfigError, RunError if it would take other
    batches."""
    if checkpoint is None:
        return 0, CursorState(0, 0, 0, 0)
    saved = saved_state(checkpoint)
    if saved.step > config.train.steps:
        raise ConfigError(f"train.steps: {config.train.steps} is less than the {saved.step} steps done already")
    given, default = config.model_dump(mode="json"), type(config)().model_dump(mode="json")
    for key in _RESULT_KEYS:
        now, then = value_at(given, key), value_at(saved.config, key)
        then = value_at(default, key) if then is None else then  # a key that is newer than the checkpoint
        if then != now:
            then = shown(str(then), 500)
            raise ConfigError(f"{key}: {now} now, {then} in {checkpoint}; a resumed run must take the same batches")
    if saved.cursor.batch != saved.step * config.train.batches_per_step:
        raise not_ours(
            checkpoint / STATE,
            f"cursor.batch: {saved.cursor.batch}, but step {saved.step} begins with batch "
            f"{saved.step * config.train.batches_per_step}",
        )
    compare_files(saved, files, checkpoint)
    return saved.step, saved.cursor


def saved_state(checkpoint: Path) -> SavedState:
    """Raises CheckpointError."""
    try:
        return read_state(checkpoint)
    except OSError as error:
        raise CheckpointError(f"{error.filename or checkpoint}: {error.strerror}") from None


_RESULT_KEYS = (
    "task",
    "run.seed",
    "data.source",
    "data.features",
    "data.batch_size",
    "data.shuffle",
    "data.window_chunks",
    "data.tail",
    "data.filters",
    "train.batches_per_step",
)
