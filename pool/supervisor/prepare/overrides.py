"""Handles numbers that the user changes in a resumed run by `--override`, and earlier overrides that may not be saved
yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pool.checkpoint.overrides import Override, allowed, to_apply
from pool.checkpoint.state import SavedState
from pool.config.changes import parse_toml_value
from pool.config.values import find_unstorable
from pool.errors import ConfigError
from pool.supervisor.resources.run_folder import RunFolder


def parse_override(text: str) -> tuple[str, Any]:
    """Parses `KEY=VALUE`, where the value is written as in a config file. Raises ConfigError."""
    key, equals, value = text.partition("=")
    try:
        if not equals or not key.strip():
            raise ValueError
        parsed = parse_toml_value(value)
    except (ValueError, RecursionError):
        raise ConfigError(f"--override {text}: expected KEY=VALUE with a value as in a config file") from None
    if (problem := find_unstorable({key.strip(): parsed})) is not None:
        raise ConfigError(f"--override {problem}")
    return key.strip(), parsed


def collect_overrides(
    saved: SavedState | None, changes: Sequence[tuple[str, Any]], folder: RunFolder
) -> tuple[Override, ...]:
    """Returns all overrides of the run, those included that are still to be applied.

    `saved`: state of the checkpoint to resume from, or None; `changes`: keys and values of `--override` now. Notes for
    the user say what becomes of each. Raises ConfigError.
    """
    if saved is None:
        if changes:
            raise ConfigError(f"--override: there is no checkpoint in {folder.path} yet; use --set")
        return ()
    history = tuple(saved.optimizer.overrides)
    if changes and saved.optimizer.groups is None:
        raise ConfigError("--override: this stage has done no step, and begins with numbers of its own; leave it out")
    keys = allowed(asdict(saved.optimizer))
    for key, _ in changes:
        if key not in keys:
            raise ConfigError(
                f"--override {key}: the checkpoint holds no such number; it has {', '.join(keys)}; other keys are set "
                "in the config, or with --set"
            )
    pending, repeated = to_apply(saved.step, history, folder.read_overrides(), changes)
    for entry in repeated:
        folder.add_note(f"--override {entry.key}: {entry.value} was set at step {entry.step}, and is not set again")
    for entry in pending:
        when = "now" if entry.step == saved.step else f"at step {entry.step}, as config.json says"
        folder.add_note(f"{entry.key} becomes {entry.value} {when}")
    return (*history, *pending)
