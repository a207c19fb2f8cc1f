"""Removes checkpoints of a run that has ended, but never those that a resume needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from pool.checkpoint.folder import (
    DAMAGED,
    PREFIX,
    find_newest_undamaged,
    list_checkpoints,
    list_removable,
    remove_checkpoint,
)
from pool.checkpoint.state import FOLDER
from pool.config.load import read_recorded_settings
from pool.errors import ConfigError
from pool.nets.record import create_export_check
from pool.run_folder import access, files
from pool.run_folder.strict_json import value_at
from pool.supervisor.resources.run_folder import acquire_lock


def clean_run(run: Path, keep: int, every: int | None, notify: Callable[[str], object], *, remove: bool) -> int | None:
    """Reports each checkpoint that is not kept, and with `remove` removes it. Returns the bytes of all of them, or None
    if the run is still running, and is left alone.

    keep: how many of the newest stay. every: checkpoints of each so many steps stay, too; None stands for the number in
    the run's config. Raises ConfigError for a folder that is no run's, and CheckpointError if another program wrote the
    newest checkpoint that is not damaged. Raises OSError.
    """
    config = read_recorded_settings(run)
    if every is None:
        every = _read_number(config, "keep_every")
    folder_fd = access.open_folder(run)
    lock = -1
    try:
        folder = access.descriptor_path(folder_fd)
        access.check_below(folder, (FOLDER,), links_in=FOLDER)
        lock = acquire_lock(folder)  # no run can begin in this folder meanwhile
        total = 0
        for checkpoint in _checkpoints_to_remove(folder, keep, every, config):
            nbytes = _measure_size(checkpoint)
            total += nbytes
            action = " removed" if remove else ""
            notify(f"{run / FOLDER / checkpoint.name}: {nbytes / 1e6:,.1f} MB{action}")
            if remove:
                _remove(checkpoint)
        return total
    except BlockingIOError:
        notify(f"{run}: goes on, and is left alone")
        return None
    except OSError as error:
        raise ConfigError(access.show_real_paths(f"{error.filename or run}: {error.strerror}")) from None
    finally:
        for fd in (lock, folder_fd):
            if fd >= 0:
                os.close(fd)


def _remove(checkpoint: Path) -> None:
    """Removes a checkpoint, or the folder of a damaged one."""
    if checkpoint.name.startswith(PREFIX):
        remove_checkpoint(checkpoint)
    else:
        files.remove(checkpoint)


def _checkpoints_to_remove(run: Path, keep: int, every: int, config: object) -> Iterator[Path]:
    """Yields the checkpoints to remove, the oldest first, then the damaged ones. Raises CheckpointError, OSError."""
    folder = run / FOLDER
    if not folder.is_dir():
        return
    good = find_newest_undamaged(folder).good
    if good is not None:
        is_export_due = create_export_check(run, _read_number(config, "export_every"))
        retained = [path for path in list_checkpoints(folder) if path.name >= good.name]
        for checkpoint in list_removable(folder, keep, every, is_export_due):
            if checkpoint not in retained:
                yield checkpoint
    yield from sorted(path for path in folder.iterdir() if path.name.startswith(DAMAGED) and path.is_dir())


def _read_number(config: object, key: str) -> int:
    """Returns an integer key of the recorded section `train`, or 0 if it is not there."""
    value = value_at(config, f"train.{key}")
    return value if type(value) is int else 0


def _measure_size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.iterdir())
