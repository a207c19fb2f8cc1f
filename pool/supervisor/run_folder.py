"""The folder of a run: made 0700 if it is not there, locked by its one supervisor, with a place for sockets.

config.json   checkpoints/   metrics.jsonl   tensorboard/   logs/   sockets/   lock
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from pool.checkpoint import files
from pool.checkpoint.folder import checkpoints, linked_step, newest_good, point, set_aside
from pool.checkpoint.overrides import Override
from pool.checkpoint.state import BEST, FOLDER, LAST
from pool.config import Config
from pool.errors import CheckpointError, ConfigError, PoolError

SOCKET_PATH_LIMIT = 107  # bytes of sun_path
LONGEST_SOCKET_NAME = len("coordinator")
CONFIG = "config.json"
LONGEST_RECORD = 1 << 24  # bytes of it
_OVERRIDES = TypeAdapter(list[Override])


class RunFolder:
    """Exclusive use of a run folder, until `close` or the end of the process. Raises ConfigError."""

    def __init__(self, config: Config, *, resume: bool) -> None:
        self.path = Path(config.run.dir).expanduser().absolute()
        self.logs = self.path / "logs"
        self._notes: list[str] = []
        self._sockets: Path | None = None
        self._lock = -1
        try:
            self._enter()
            if not resume:
                self._check_no_run_yet()
            self.logs.mkdir(mode=0o700, exist_ok=True)
            self._sockets = self._make_sockets()
        except BlockingIOError:
            self.close()
            raise ConfigError(f"run.dir: {self.path} is in use by another run") from None
        except OSError as error:
            self.close()
            raise ConfigError(f"run.dir: {error.filename or self.path}: {error.strerror}") from None
        except PoolError:
            self.close()
            raise

    @property
    def sockets(self) -> Path:
        """A folder whose sockets have paths that are short enough."""
        assert self._sockets is not None
        return self._sockets

    def last_checkpoint(self) -> Path | None:
        """The newest good one, None before the first; `take_notes` says which damaged ones were passed over.

        Those are renamed, or they would be taken another time. Raises CheckpointError if none is good.
        """
        try:
            return self._newest_good()
        except OSError as error:
            raise CheckpointError(f"{error.filename or self.path}: {error.strerror}") from None

    def linked_step(self, name: str) -> int:
        """Of the checkpoint that `last` or `best` points to; -1 if there is none or the folder can't be read."""
        try:
            return linked_step(self.path / FOLDER, name)
        except OSError:
            return -1

    def recorded_overrides(self) -> list[Override]:
        """Those that `record` has written down; they may be newer than every checkpoint. Raises ConfigError."""
        path = self.path / CONFIG
        try:
            return _OVERRIDES.validate_python(json.loads(files.read_all(path, LONGEST_RECORD)).get("overrides", []))
        except FileNotFoundError:
            return []
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is no record of a run"
            raise ConfigError(f"{path}: {reason}; --override may be recorded there: mend it, or move it away") from None

    def record(self, config: Config, overrides: Sequence[Override] = ()) -> None:
        """Writes down what the run is done with, once nothing speaks against it. Raises ConfigError."""
        record = {**config.model_dump(mode="json"), "overrides": [asdict(override) for override in overrides]}
        text = json.dumps(record, indent=1)
        try:
            files.replace_file(self.path / CONFIG, text.encode())
        except OSError as error:
            raise ConfigError(f"run.dir: {error.filename or self.path}: {error.strerror}") from None

    def note(self, text: str) -> None:
        """Adds to `take_notes`."""
        self._notes.append(text)

    def take_notes(self) -> list[str]:
        """What the run's user has to know of what was found here, once."""
        taken, self._notes = self._notes, []
        return taken

    def close(self) -> None:
        if self._sockets is not None:
            files.remove_quietly(self._sockets)
        if self._lock >= 0:
            with contextlib.suppress(OSError):
                os.close(self._lock)

    def _enter(self) -> None:
        # The rights of a folder that is there already (/tmp, say) stay as they are.
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for folder in (self.path, self.path / FOLDER):
            files.sweep(folder)

    def _check_no_run_yet(self) -> None:
        if checkpoints(self.path / FOLDER) or os.path.lexists(self.path / FOLDER / LAST):
            raise ConfigError(
                f"run.dir: {self.path} holds a run already: go on with --resume, or choose another run.dir"
            )

    def _newest_good(self) -> Path | None:
        folder = self.path / FOLDER
        found = newest_good(folder)
        if found.good is None:
            if found.damaged:
                raise CheckpointError(f"{found.damaged[0][1]}; there is no good checkpoint to resume from")
            return None
        for path, problem in found.damaged:
            aside = set_aside(path)
            self._notes.append(f"{problem}; it is {aside.name} now, and the run goes on from {found.good.name}")
        if not (folder / LAST).exists() or (folder / LAST).resolve() != found.good.resolve():
            point(folder, LAST, found.good)
        if linked_step(folder, BEST) < 0:
            files.remove_quietly(folder / BEST)
        return found.good

    def _make_sockets(self) -> Path:
        """In the run folder; in a folder of its own under the system's temporary one if the path is too long."""
        sockets = self.path / "sockets"
        files.remove_quietly(sockets)
        if len(os.fsencode(sockets)) + 1 + LONGEST_SOCKET_NAME > SOCKET_PATH_LIMIT:
            return Path(tempfile.mkdtemp(prefix="sparsepool-"))
        sockets.mkdir(mode=0o700, exist_ok=True)
        return sockets
