"""Defines the errors that end a command, and the exit code of each. The user sees one line, never a traceback."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from loader.errors import SPACE_ERRORS, CommandError, escape_to_one_line
from loader.exit_codes import EXIT_RESOURCES, EXIT_UNAVAILABLE, EXIT_USAGE

# errors of a disk or a mount that may come back
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
    """Ends a command with one line for the user. Base of the pool's errors."""

    def __init__(self, reason: str, exit_code: int | None = None) -> None:
        """Makes an error with a line for the user, `reason`. `exit_code`: replaces that of the class."""
        super().__init__(reason)
        if exit_code is not None:
            self.exit_code = exit_code


class ConfigError(PoolError):
    """Reports a mistake in the config or on the command line: the key, and what is allowed.

    The reason is made one line, whatever it quotes.
    """

    exit_code = EXIT_USAGE

    def __init__(self, reason: str, exit_code: int | None = None) -> None:
        super().__init__(escape_to_one_line(reason), exit_code)


class UnavailableError(ConfigError):
    """Reports that something the config names is not there now, or is in use. The same config may work at another
    start."""

    exit_code = EXIT_UNAVAILABLE


def exit_code_of(error: OSError) -> int:
    """Returns the exit code for an error at a path of the config: EXIT_RESOURCES for a full disk, EXIT_UNAVAILABLE for
    one that may come back, else EXIT_USAGE."""
    if error.errno in SPACE_ERRORS:
        return EXIT_RESOURCES
    return EXIT_UNAVAILABLE if error.errno in AWAY_ERRORS else EXIT_USAGE


class RunError(PoolError):
    """Reports why a run could not go on: the process, what happened to it, and what to do."""


class ResourceError(RunError):
    """Reports that the machine has too little of something: how much is needed, of what, and the setting that takes
    less."""

    exit_code = EXIT_RESOURCES


class LostDeviceError(RunError):
    """Reports that a device of the run can't be used any more. The run may go on with other devices."""

    def __init__(self, reason: str, suspects: Sequence[str]) -> None:
        """Makes an error about a device. `suspects`: its name in the run, or several if it is not known which of them
        failed."""
        super().__init__(reason)
        self.suspects = tuple(suspects)


class CheckpointError(PoolError):
    """Reports a checkpoint that is missing, damaged or does not fit. Names the file."""


class DamagedCheckpointError(CheckpointError):
    """Reports a checkpoint whose bytes have changed since they were written. A resumed run then takes an older
    checkpoint."""


class ProtocolError(PoolError):
    """Reports bytes that are no well-formed message: the kind of message and the field (I8)."""
