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

from pool.checkpoint.folder import checkpoints, linked_step, newest_good, point, set_aside, step_of, step_path
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
_LOOKING_SECONDS = 1.0  # longer than programs that test the lock (`goes_on`) hold it
_FILES = (CONFIG, STATUS, "metrics.jsonl", "history.jsonl", FIRST_STEPS, LOCK)
_NAMES = (*_FILES, LOGS, FOLDER, NETS, "tensorboard", "poison", "trace")
_OVERRIDES = TypeAdapter(list[Override])


class RunFolder:
    """Holds a run folder for exclusive use, until `close` or the end of the process."""

    def __init__(self, config: Config, *, resume: bool) -> None:
        """Makes, locks and checks the folder. Raises ConfigError; without `resume` also if it holds a run already."""
        self.path = config.run_dir
        self._notes: list[str] = []
        self._lock = -1
        self._lost = False  # the folder was deleted and could not be made again
        self._status: Status | None = None  # None until the run has begun
        try:
            self.fd = access.hold(self.path)
        except OSError as error:
            raise self._refusal(error) from None
        try:
            self._lock = locked(self.inside)
            access.check_below(self.inside, _NAMES, links_in=FOLDER)
            for folder in (self.inside, self.inside / FOLDER):
                files.sweep(folder)
            if not resume:
                self._check_no_run_yet()
            access.make_folder(self.logs)
        except BlockingIOError:
            self.close()
            raise UnavailableError(f"run.dir: {self.path} is in use by another run") from None
        except OSError as error:
            refusal = self._refusal(error)
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
        return access.inside(self.fd)

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

    def look(self) -> bool:
        """Restores the folder if it was deleted or emptied. Returns whether the run's processes need its descriptor
        again.

        What was found is added to the notes (`take_notes`).
        """
        try:
            if access.is_deleted(self.fd):
                self._make_again()
                self.note(f"run.dir {self.path} was deleted; it is made again, and training goes on")
            elif os.fstat(self._lock).st_nlink == 0:
                self._lock_again(self.inside)
                if os.path.lexists(self.inside / CONFIG):
                    self.note(f"run.dir {self.path}: the file {LOCK} was deleted; it is made again")
                    return False
                self.note(f"run.dir {self.path} was emptied; training goes on")
            else:
                return False
        except OSError as error:
            reason = "another run uses it" if isinstance(error, BlockingIOError) else error.strerror
            if not self._lost:
                self.note(f"run.dir {self.path} was deleted, and can't be had again: {reason}")
            self._lost = True
            return False
        self._lost = False
        return True

    def last_checkpoint(self) -> Path | None:
        """Returns the newest checkpoint that is intact, or None if there is no checkpoint yet.

        Damaged ones that are newer are renamed, or they would be taken another time. The notes (`take_notes`) name
        them. Raises CheckpointError if none is intact.
        """
        try:
            return self._newest_good()
        except OSError as error:
            raise CheckpointError(f"{error.filename or self.path}: {error.strerror}") from None

    def checkpoint_of(self, step: int) -> Path:
        """Returns the checkpoint of a step and makes it the newest by the link `last`, even if there are newer ones.
        Raises CheckpointError."""
        checkpoint = step_path(self.inside / FOLDER, step)
        try:
            point(self.inside / FOLDER, LAST, checkpoint)
        except OSError as error:
            raise CheckpointError(f"{error.filename or self.path}: {error.strerror}") from None
        return checkpoint

    def checkpoint_steps(self) -> list[int]:
        """Returns the steps of all checkpoints, oldest first. Returns 0 alone for a run that has none yet, which begins
        with step 0."""
        try:
            found = checkpoints(self.inside / FOLDER)
        except OSError:
            found = []
        return [step_of(path) for path in found] or [0]

    def linked_step(self, name: str) -> int:
        """Returns the step of the checkpoint that the link `last` or `best` points to. -1 if there is none or the
        folder can't be read."""
        try:
            return linked_step(self.inside / FOLDER, name)
        except OSError:
            return -1

    def recorded(self) -> Mapping[str, Any]:
        """Returns the config that `record` wrote when the run was last started, or nothing if it was never started.
        Raises ConfigError."""
        if not os.path.lexists(self.inside / CONFIG):
            return {}
        try:
            return read_recorded_settings(self.inside)
        except ConfigError as error:
            raise ConfigError(
                access.shown(f"{error}; --override may be recorded there: mend it, or move it away")
            ) from None

    def recorded_overrides(self) -> list[Override]:
        """Returns the overrides that `record` wrote, which may be newer than every checkpoint. Raises ConfigError."""
        try:
            return _OVERRIDES.validate_python(self.recorded().get("overrides", []))
        except ValidationError:
            reason = "is no record of a run; --override may be recorded there: mend it, or move it away"
            raise ConfigError(f"{self.path / CONFIG}: {reason}") from None

    def record(self, config: Config, overrides: Sequence[Override] = ()) -> None:
        """Writes config.json, and status.json for a run that goes on. Raises ConfigError."""
        record = {**config.model_dump(mode="json"), "overrides": [asdict(override) for override in overrides]}
        text = json.dumps(record, indent=1)
        try:
            files.replace_file(self.inside / CONFIG, text.encode())
        except OSError as error:
            raise self._refusal(error) from None
        self._say(self._status or Status(time.time(), restarts=self._restarts_before()))

    def _restarts_before(self) -> int:
        """Returns the number of restarts in the run's earlier lives. A supervisor that was killed counts as one
        more."""
        before = read_status(self.inside)
        if before is None:
            return 0
        return before.restarts + (before.ended is None)

    def restarted(self) -> None:
        """Counts the restart of a process in status.json."""
        if self._status is not None:
            self._say(replace(self._status, restarts=self._status.restarts + 1))

    def ended(self, exit_code: int, reason: str = "") -> None:
        """Writes to status.json how the run has ended, if it had begun."""
        if self._status is not None:
            self._say(replace(self._status, ended=time.time(), exit_code=exit_code, reason=reason))

    def note(self, text: str) -> None:
        """Adds a line for the user, which `take_notes` returns."""
        self._notes.append(text)

    def take_notes(self) -> list[str]:
        """Returns the new lines for the user. Each is returned once."""
        notes, self._notes = self._notes, []
        return notes

    def close(self) -> None:
        """Closes the folder and releases its lock."""
        for fd in (self._lock, self.fd):
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)

    def _say(self, status: Status) -> None:
        self._status = status
        write_status(self.inside, status)

    def _refusal(self, error: OSError) -> ConfigError:
        """Returns the error for the user about a path that can't be used."""
        text = access.shown(f"run.dir: {error.filename or self.path}: {error.strerror}")
        return ConfigError(text, exit_code_of(error))

    def _make_again(self) -> None:
        """Makes the folder again at the path in the config, if nothing or an empty folder is there. Raises OSError."""
        fd = access.hold(self.path)
        try:
            if any(access.inside(fd).iterdir()):
                raise FileExistsError(errno.EEXIST, "there is another folder with something in it", str(self.path))
            self._lock_again(access.inside(fd))
            os.dup2(fd, self.fd, inheritable=False)
        finally:
            os.close(fd)

    def _lock_again(self, folder: Path) -> None:
        """Locks the folder by a new lock file, after the old one was deleted and keeps no other run out. Raises
        OSError."""
        lock = locked(folder)
        os.close(self._lock)
        self._lock = lock

    def _check_no_run_yet(self) -> None:
        """Raises ConfigError if the folder holds checkpoints of a run."""
        if checkpoints(self.inside / FOLDER) or os.path.lexists(self.inside / FOLDER / LAST):
            raise ConfigError(
                f"run.dir: {self.path} holds a run already: go on with --resume, or choose another run.dir"
            )

    def _newest_good(self) -> Path | None:
        """Finds the newest intact checkpoint, renames damaged newer ones, and corrects the links `last` and `best`."""
        folder = self.inside / FOLDER
        newest = newest_good(folder)
        if newest.good is None:
            if newest.damaged:
                raise CheckpointError(f"{newest.damaged[0][1]}; there is no good checkpoint to resume from")
            return None
        for path, problem in newest.damaged:
            aside = set_aside(path)
            self._notes.append(f"{problem}; it is {aside.name} now, and the run goes on from {newest.good.name}")
        if not (folder / LAST).exists() or (folder / LAST).resolve() != newest.good.resolve():
            point(folder, LAST, newest.good)
        if linked_step(folder, BEST) < 0:
            files.remove_quietly(folder / BEST)
        return newest.good


def locked(folder: Path) -> int:
    """Locks a folder exclusively. Returns the descriptor of its lock file. Raises BlockingIOError if another run holds
    the lock."""
    fd = access.open_file(folder / LOCK, os.O_CREAT | os.O_RDWR)
    deadline = time.monotonic() + _LOOKING_SECONDS
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOKING_SECONDS / 100)
            else:
                return fd
    except OSError:
        os.close(fd)
        raise
