"""Where a resumed run goes on, and whether its config may: a run that resumes takes the batches it would have taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loader.files.identity import DataFile
from loader.section import Effect
from loader.stream.interface import Cursor
from pool.checkpoint.state import STATE, SavedState, read_state
from pool.config.dotted import walk
from pool.config.member_settings import differing, flat
from pool.config.tree import Config
from pool.errors import CheckpointError, ConfigError
from pool.run_folder.strict_json import ABSENT, changed_entry, not_ours, said, same, value_at
from pool.supervisor.prepare.data_files import compare_files
from pool.task.start import KEY


def resume_point(config: Config, checkpoint: Path | None, files: Sequence[DataFile]) -> tuple[int, Cursor]:
    """Step and cursor that a run begins with. Raises CheckpointError; ConfigError, RunError if it would take other
    batches."""
    if checkpoint is None:
        return 0, Cursor()
    saved = saved_state(checkpoint)
    if saved.step > config.train.steps:
        raise ConfigError(f"train.steps: {config.train.steps} is less than the {saved.step} steps done already")
    _compare_fixed(config, checkpoint, saved)
    members = len(config.members)
    for name, of_members in (("members", saved.members), ("validations.members", saved.validations.members)):
        if len(of_members) not in (0, members):
            raise not_ours(checkpoint / STATE, f"{name}: {len(of_members)} entries, of a run of {members}")
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


def with_its_start(config: Config, saved: SavedState) -> tuple[Config, str]:
    """The config with what the run began from, which another one can't change any more; a line if it would."""
    then, given = value_at(saved.config, f"model.{KEY}"), getattr(config.model, KEY)
    then = then if isinstance(then, str) else None
    kept = config.model_copy(update={"model": config.model.model_copy(update={KEY: then})})
    if given in (None, then):
        return kept, ""
    return kept, f"model.{KEY} = {given} does nothing in a run that is resumed: it began with {said(then or ABSENT)}"


def changed_settings(config: Config, then: Mapping[str, Any]) -> str:
    """Names the settings that are others than `then`, in a line; empty if none is. Where the run lies is none."""
    before = dict(flat(then))
    now = {key: value for key, value in flat(config.model_dump(mode="json")) if key in before}
    changes = [
        f"{key} = {said(there)} (was {said(was)})"
        for key, there, was in (
            changed_entry(key, now[key], before[key]) for key in differing([before, now]) if key in now
        )
    ]
    return f"changed since the last start: {', '.join(changes)}" if changes else ""


def _compare_fixed(config: Config, checkpoint: Path, saved: SavedState) -> None:
    """Raises ConfigError for the first key that a resumed run must not change, and has changed."""
    given, default = config.model_dump(mode="json"), type(config)().model_dump(mode="json")
    for key, field in walk(type(config)):
        if Effect.of(field) is not Effect.FIXED:
            continue
        now, then = value_at(given, key), value_at(saved.config, key)
        then = value_at(default, key) if then is None else then  # a key that is newer than the checkpoint
        if not same(then, now):
            key, now, then = changed_entry(key, now, then)
            raise ConfigError(
                f"{key}: {said(now)} now, {said(then)} in {checkpoint}; a resumed run keeps it: set it back, or begin "
                "another run with model.start_from"
            )
