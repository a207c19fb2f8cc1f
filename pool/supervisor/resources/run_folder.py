"""Makes the folder of a run if it does not exist, holds it by a descriptor, and locks it for its one supervisor.

config.json   status.json   checkpoints/   nets/   metrics.jsonl   history.jsonl   tensorboard/   poison/   trace/
logs/   lock   first-steps.json
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pool.checkpoint.folder import (
    find_newest_undamaged,
    linked_step,
    list_checkpoints,
    rename_damaged,
    set_link,
    step_of,
    step_path,
)
from pool.checkpoint.overrides import Override
from pool.checkpoint.state import BEST, FOLDER, LAST
from pool.config.load import CONFIG, read_recorded_settings
from pool.config.tree import Config
from pool.errors import CheckpointError, ConfigError, PoolError, UnavailableError, exit_code_of
from pool.nets.record import NETS
from pool.run_folder import access, files
from pool.run_folder.first_steps import FILE as FIRST_STEPS
from pool.telemetry.status import LOCK, STATUS, Status, read_status, write_status

LOGS = "logs"
_LOCK_SECONDS = 1.0  # longer than programs that test the lock (`goes_on`) hold it
_FILES = (CONFIG, STATUS, "metrics.jsonl", "history.jsonl", FIRST_STEPS, LOCK)
_NAMES = (*_FILES, LOGS, FOLDER, NETS, "tensorboard", "poison", "trace")
_OVERRIDES = TypeAdapter(list[Override])


class RunFolder:
    """Holds a run folder for exclusive use, until `close` or the end of the process."""

    def __init__(self, config: Config, *, resume: bool) -> None:
        """Makes, locks and checks the folder. Raises ConfigError; without `resume` also if it holds a run already."""
        self.path = config.run_dir
        self._notes: list[str] = []
        self._lock_fd = -1
        self._is_lost = False  # the folder was deleted and could not be made again
        self._status: Status | None = None  # None until the run has begun
        try:
            self.fd = access.open_folder(self.path)
        except OSError as error:
            raise self._config_error(error) from None
        try:
            self._lock_fd = acquire_lock(self.inside)
            access.check_below(self.inside, _NAMES, links_in=FOLDER)
            for folder in (self.inside, self.inside / FOLDER):
                files.sweep(folder)
            if not resume:
                self._check_is_new()
            access.make_folder(self.logs)
        except BlockingIOError:
            self.close()
            raise UnavailableError(f"run.dir: {self.path} is in use by another run") from None
        except OSError as error:
            refusal = self._config_error(error)
            self.close()
            raise refusal from None
        except PoolError:
            self.close()
            raise

    @property
    def inside(self) -> Path:
        """Returns the path by which the run opens files, through the descriptor.

        `path` is the one that the user knows. It is right as long as the folder is not moved.
        """
        return access.descriptor_path(self.fd)

    @property
    def logs(self) -> Path:
        return self.inside / LOGS

    @property
    def moved_to(self) -> Path | None:
        """Returns the folder's present path if it was moved away from where the config says, else None."""
        with contextlib.suppress(OSError):
            if access.is_deleted(self.fd) or os.path.samestat(self.path.stat(), os.fstat(self.fd)):
                return None
        with contextlib.suppress(OSError):
            return self.inside.readlink()
        return None

    def restore_if_deleted(self) -> bool:
        """Creates the folder again if it was deleted or emptied, with a note for the user.

        Returns whether it was. Then the run's processes need the descriptor of the new folder.
        """
        try:
            has_new_folder = self._restore_deleted_parts()
        except OSError as error:
            reason = "another run uses it" if isinstance(error, BlockingIOError) else error.strerror
            if not self._is_lost:
                self.add_note(f"run.dir {self.path} was deleted, and can't be had again: {reason}")
            self._is_lost = True
            return False
        if has_new_folder:
            self._is_lost = False
        return has_new_folder

    def _restore_deleted_parts(self) -> bool:
        """Creates the folder or its lock file again if either was deleted. Returns whether the folder has lost its
        content. Raises OSError."""
        if access.is_deleted(self.fd):
            self._create_again()
            self.add_note(f"run.dir {self.path} was deleted; it is made again, and training goes on")
            return True
        has_lock_file = os.fstat(self._lock_fd).st_nlink > 0
        if has_lock_file:
            return False
        self._lock_again(self.inside)
        if os.path.lexists(self.inside / CONFIG):
            self.add_note(f"run.dir {self.path}: the file {LOCK} was deleted; it is made again")
            return False
        self.add_note(f"run.dir {self.path} was emptied; training goes on")
        return True

    def find_last_checkpoint(self) -> Path | None:
        """Returns the newest undamaged checkpoint, or None if there is no checkpoint yet.

        Newer checkpoints that are damaged are renamed, so that they are not tried again. A note for the user names
        each. Raises CheckpointError if all checkpoints are damaged.
        """
        try:
            return self._find_and_link_newest()
        except OSError as error:
            raise CheckpointError(f"{error.filename or self.path}: {error.strerror}") from None

    def select_checkpoint(self, step: int) -> Path:
        """Makes the link `last` point to the checkpoint of a step, even if there are newer ones. Returns its path.

        Raises CheckpointError.
        """
        checkpoint = step_path(self.inside / FOLDER, step)
        try:
            set_link(self.inside / FOLDER, LAST, checkpoint)
        except OSError as error:
            raise CheckpointError(f"{error.filename or self.path}: {error.strerror}") from None
        return checkpoint

    def checkpoint_steps(self) -> list[int]:
        """Returns the steps of all checkpoints, oldest first. Returns [0] if there are none, since the run then begins
        with step 0."""
        try:
            checkpoints = list_checkpoints(self.inside / FOLDER)
        except OSError:
            return [0]
        if not checkpoints:
            return [0]
        return [step_of(path) for path in checkpoints]

    def linked_step(self, name: str) -> int:
        """Returns the step of the checkpoint that the link `last` or `best` points to. -1 if there is none or the
        folder can't be read."""
        try:
            return linked_step(self.inside / FOLDER, name)
        except OSError:
            return -1

    def read_config(self) -> Mapping[str, Any]:
        """Reads config.json, which the newest start of the run has written. Returns an empty mapping if there was no
        start yet. Raises ConfigError."""
        if not os.path.lexists(self.inside / CONFIG):
            return {}
        try:
            return read_recorded_settings(self.inside)
        except ConfigError as error:
            raise ConfigError(
                access.show_real_paths(f"{error}; --override may be recorded there: mend it, or move it away")
            ) from None

    def read_overrides(self) -> list[Override]:
        """Reads the overrides in config.json, which may be newer than every checkpoint. Raises ConfigError."""
        try:
            return _OVERRIDES.validate_python(self.read_config().get("overrides", []))
        except ValidationError:
            reason = "is no record of a run; --override may be recorded there: mend it, or move it away"
            raise ConfigError(f"{self.path / CONFIG}: {reason}") from None

    def write_config(self, config: Config, overrides: Sequence[Override] = ()) -> None:
        """Writes the config and the overrides to config.json, and starts status.json. Raises ConfigError."""
        record = {**config.model_dump(mode="json"), "overrides": [asdict(override) for override in overrides]}
        text = json.dumps(record, indent=1)
        try:
            files.replace_file(self.inside / CONFIG, text.encode())
        except OSError as error:
            raise self._config_error(error) from None
        status = self._status
        if status is None:
            status = Status(time.time(), restarts=self._count_earlier_restarts())
        self._write_status(status)

    def _count_earlier_restarts(self) -> int:
        """Returns the number of restarts before this supervisor began. A killed supervisor counts as one restart."""
        status = read_status(self.inside)
        if status is None:
            return 0
        was_killed = status.ended is None
        return status.restarts + was_killed

    def count_restart(self) -> None:
        """Counts the restart of a process in status.json."""
        if self._status is not None:
            self._write_status(replace(self._status, restarts=self._status.restarts + 1))

    def record_end(self, exit_code: int, reason: str = "") -> None:
        """Writes the end of the run to status.json, with exit code and reason. Does nothing if the run has not
        begun."""
        if self._status is not None:
            self._write_status(replace(self._status, ended=time.time(), exit_code=exit_code, reason=reason))

    def add_note(self, text: str) -> None:
        """Adds a line of text for the user."""
        self._notes.append(text)

    def pop_notes(self) -> list[str]:
        """Returns the lines for the user that were added since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def close(self) -> None:
        """Closes the folder and releases its lock."""
        for fd in (self._lock_fd, self.fd):
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)

    def _write_status(self, status: Status) -> None:
        self._status = status
        write_status(self.inside, status)

    def _config_error(self, error: OSError) -> ConfigError:
        """Converts an error at a path in the folder to a ConfigError for the user."""
        text = access.show_real_paths(f"run.dir: {error.filename or self.path}: {error.strerror}")
        return ConfigError(text, exit_code_of(error))

    def _create_again(self) -> None:
        """Creates a deleted folder again, at the path in the config. Raises OSError, also if that path is another
        folder that is not empty."""
        fd = access.open_folder(self.path)
        try:
            if any(access.descriptor_path(fd).iterdir()):
                raise FileExistsError(errno.EEXIST, "there is another folder with something in it", str(self.path))
            self._lock_again(access.descriptor_path(fd))
            os.dup2(fd, self.fd, inheritable=False)
        finally:
            os.close(fd)

    def _lock_again(self, folder: Path) -> None:
        """Creates and locks a new lock file in a folder, since a deleted one keeps no other run out. Raises OSError."""
        lock = acquire_lock(folder)
        os.close(self._lock_fd)
        self._lock_fd = lock

    def _check_is_new(self) -> None:
        """Raises ConfigError if the folder holds checkpoints of a run."""
        if list_checkpoints(self.inside / FOLDER) or os.path.lexists(self.inside / FOLDER / LAST):
            raise ConfigError(
                f"run.dir: {self.path} holds a run already: go on with --resume, or choose another run.dir"
            )

    def _find_and_link_newest(self) -> Path | None:
        """Finds the newest undamaged checkpoint, renames newer ones, and corrects the links `last` and `best`.

        Raises CheckpointError, OSError.
        """
        folder = self.inside / FOLDER
        newest = find_newest_undamaged(folder)
        if newest.good is None:
            if newest.damaged:
                raise CheckpointError(f"{newest.damaged[0][1]}; there is no good checkpoint to resume from")
            return None
        for path, problem in newest.damaged:
            new_path = rename_damaged(path)
            self.add_note(f"{problem}; it is {new_path.name} now, and the run goes on from {newest.good.name}")
        last = folder / LAST
        if not last.exists() or last.resolve() != newest.good.resolve():
            set_link(folder, LAST, newest.good)
        if linked_step(folder, BEST) < 0:
            files.remove_quietly(folder / BEST)
        return newest.good


def acquire_lock(folder: Path) -> int:
    """Locks a run folder exclusively. Returns the descriptor of its lock file.

    Waits for up to _LOCK_SECONDS, since other programs test the lock for a moment. Raises BlockingIOError if another
    run has the lock, OSError if the file can't be opened.
    """
    fd = access.open_file(folder / LOCK, os.O_CREAT | os.O_RDWR)
    deadline = time.monotonic() + _LOCK_SECONDS
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOCK_SECONDS / 100)
            else:
                return fd
    except OSError:
        os.close(fd)
        raise
