"""Where a run goes on: from a checkpoint on disk when it is resumed, from memory when the coordinator died (I9)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from loader.files import DataFile
from pool.checkpoint import snapshot
from pool.checkpoint.fingerprint import differences
from pool.checkpoint.state import SavedState, read_state
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
    launch = replace(launch, coordinator=coordinator, saved=folder.newest_step())
    for index, mapped in _snapshots(segments):
        if (found := snapshot.read(mapped.array)) is not None:
            return replace(launch, step=found.step, start=found.cursor, snapshot=index)
        folder.note(f"memory snapshot {index} is damaged: its dead writer left other bytes than it had summed up")
    checkpoint = folder.last_checkpoint()
    step, start = resume_point(launch.config, checkpoint, launch.train_files)
    return replace(launch, step=step, start=start, checkpoint=checkpoint, snapshot=None)


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
    given = config.model_dump(mode="json")
    for key in _RESULT_KEYS:
        section, _, name = key.partition(".")
        if saved.config[section][name] != given[section][name]:
            raise ConfigError(
                f"{key}: {given[section][name]} now, {saved.config[section][name]} in {checkpoint}; "
                "a resumed run must take the same batches"
            )
    compare_files(saved, files, checkpoint)
    return saved.step, saved.cursor


def compare_optimizer(config: Config, checkpoint: Path, folder: RunFolder) -> None:
    """What the checkpoint holds of optimizer and schedule wins over the config; its user may want to know."""
    saved, given = saved_state(checkpoint).config, config.model_dump(mode="json")
    for key in ("optimizer", "schedule"):
        if saved[key] != given[key]:
            folder.note(f"{key}: the config has changed, but what {checkpoint} holds stays in force: {saved[key]}")


def saved_state(checkpoint: Path) -> SavedState:
    """Raises CheckpointError."""
    try:
        return read_state(checkpoint)
    except OSError as error:
        raise CheckpointError(f"{error.filename or checkpoint}: {error.strerror}") from None


_RESULT_KEYS = (
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


def compare_numerics(launch: Launch, checkpoint: Path, folder: RunFolder, *, allowed: bool) -> None:
    """Other numerics give other bits (I2), so they have to be asked for."""
    then, now = saved_state(checkpoint).fingerprint, launch.fingerprint
    different = differences(then, now)
    if not different:
        return
    if not allowed:
        of_config = any(then.get(key) != now.get(key) for key in ("buckets", "optimizer"))
        advice = (
            "go back to the checkpoint's model, pool.bucket_mb, pool.first_bucket_mb and optimizer"
            if of_config
            else "--allow-different-numerics goes on all the same"
        )
        raise ConfigError(
            f"other numerics than those of {checkpoint}: {different}; the run would not end with the bits "
            f"it would have had; {advice}"
        )
    folder.note(f"other numerics: {different}; the run is bit for bit the same only up to step {launch.step}")
