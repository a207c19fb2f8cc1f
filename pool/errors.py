"""Errors that end a command, and the exit code each means. A user sees one line, never a traceback."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from loader.errors import SPACE_ERRORS, CommandError, one_line
from loader.exit_codes import EXIT_RESOURCES, EXIT_UNAVAILABLE, EXIT_USAGE

# of a disk or a mount that may come back
AWAY_ERRORS = (
    errno.ENOENT,
    errno.EIO,
    errno.ESTALE,
    errno.ENODEV,
    errno.ENOTCONN,
    errno.EHOSTDOWN,
    errno.ETIMEDOUT,
)


class PoolError(CommandError):
    """The base of the pool's errors; another exit code may be given."""

    def __init__(self, reason: str, exit_code: int | None = None) -> None:
        super().__init__(reason)
        if exit_code is not None:
            self.exit_code = exit_code


class ConfigError(PoolError):
    """The config or the command line: names the key and what is allowed. One line, whatever it quotes."""

    exit_code = EXIT_USAGE

    def __init__(self, reason: str, exit_code: int | None = None) -> None:
        super().__init__(one_line(reason), exit_code)


class UnavailableError(ConfigError):
    """Something that the config names is not there now, or in use: another start may find it, with the same config."""

    exit_code = EXIT_UNAVAILABLE


def exit_code_of(error: OSError) -> int:
    """The exit code for a path of the config: the disk is full, or away for a while, or the config is at fault."""
    if error.errno in SPACE_ERRORS:
        return EXIT_RESOURCES
    return EXIT_UNAVAILABLE if error.errno in AWAY_ERRORS else EXIT_USAGE


class RunError(PoolError):
    """The run could not go on: names the process, what happened to it, and what to do."""


class ResourceError(RunError):
    """Too little of what the machine has: names how much, of what, and the setting that takes less."""

    exit_code = EXIT_RESOURCES


class LostDeviceError(RunError):
    """A device of the run can't be used any more: names it, or those that it may be. The run may go on with
    the others."""

    def __init__(self, reason: str, suspects: Sequence[str]) -> None:
        """`suspects`: the device by its name in the run, or those that it may be."""
        super().__init__(reason)
        self.suspects = tuple(suspects)


class CheckpointError(PoolError):
    """A checkpoint is missing, damaged or does not fit: names the file."""


class DamagedCheckpointError(CheckpointError):
    """Its bytes are not those that were written: a resume goes back to an older one."""


class ProtocolError(PoolError):
    """Bytes that are no well-formed message: names the kind and the field (I8)."""
