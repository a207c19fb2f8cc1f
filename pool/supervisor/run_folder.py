"""The folder of a run: made 0700, locked by its one supervisor, with a place for sockets.

config.json   checkpoints/   metrics.jsonl   tensorboard/   logs/   sockets/   lock
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from pathlib import Path

from pool.checkpoint.state import FOLDER, LAST
from pool.config import Config
from pool.errors import ConfigError

SOCKET_PATH_LIMIT = 107  # bytes of sun_path
LONGEST_SOCKET_NAME = len("coordinator")


class RunFolder:
    """Exclusive use of a run folder, until `close` or the end of the process. Raises ConfigError."""

    def __init__(self, config: Config, *, resume: bool) -> None:
        self.path = Path(config.run.dir).absolute()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
            self._lock = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"run.dir: {self.path} is in use by another run") from None
        except OSError as error:
            raise ConfigError(f"run.dir: {error.filename or self.path}: {error.strerror}") from None
        if self.last_checkpoint() is not None and not resume:
            raise ConfigError(
                f"run.dir: {self.path} holds a run already: go on with --resume, or choose another run.dir"
            )
        self.logs = self.path / "logs"
        self.logs.mkdir(exist_ok=True)
        self.sockets = self._make_sockets()
        (self.path / "config.json").write_text(json.dumps(config.model_dump(mode="json"), indent=1), encoding="utf-8")

    def last_checkpoint(self) -> Path | None:
        """The newest one, None before the first."""
        last = self.path / FOLDER / LAST
        return last.resolve() if last.exists() else None

    def close(self) -> None:
        shutil.rmtree(self.sockets, ignore_errors=True)
        os.close(self._lock)

    def _make_sockets(self) -> Path:
        """In the run folder; in a folder of its own under the system's temporary one if the path is too long."""
        sockets = self.path / "sockets"
        shutil.rmtree(sockets, ignore_errors=True)
        if len(os.fsencode(sockets)) + 1 + LONGEST_SOCKET_NAME > SOCKET_PATH_LIMIT:
            return Path(tempfile.mkdtemp(prefix="sparsepool-"))
        sockets.mkdir(mode=0o700)
        return sockets
