"""Errors that end a command, and the exit code each means. A user sees one line, never a traceback."""

from __future__ import annotations

from loader.errors import one_line

EXIT_DONE = 0
EXIT_FAILED = 1  # a file, a checkpoint, or a process of the run that can't go on
EXIT_USAGE = 2  # command line or config
EXIT_DATA = 65  # damaged data
EXIT_RESOURCES = 71  # not enough memory, disk or descriptors
EXIT_CRASH_LOOP = 75  # a process died again and again; another start may help
EXIT_INTERRUPTED = 130  # stopped by Ctrl-C; 128 + its number for another signal
EXIT_PIPE_CLOSED = 141  # nobody reads the output any more (`pool eval ... | head`)


class PoolError(Exception):
    """Ends the command with one line on stderr."""

    exit_code = EXIT_FAILED

    def __init__(self, reason: str, exit_code: int | None = None) -> None:
        super().__init__(reason)
        if exit_code is not None:
            self.exit_code = exit_code


class ConfigError(PoolError):
    """The config or the command line: names the key and what is allowed. One line, whatever it quotes."""

    exit_code = EXIT_USAGE

    def __init__(self, reason: str, exit_code: int | None = None) -> None:
        super().__init__(one_line(reason), exit_code)


class RunError(PoolError):
    """The run could not go on: names the process, what happened to it, and what to do."""


class ResourceError(RunError):
    """Too little of what the machine has: names how much, of what, and the setting that takes less."""

    exit_code = EXIT_RESOURCES


class CheckpointError(PoolError):
    """A checkpoint is missing, damaged or does not fit: names the file."""


class DamagedCheckpointError(CheckpointError):
    """Its bytes are not those that were written: a resume goes back to an older one."""


class ProtocolError(PoolError):
    """Bytes that are no well-formed message: names the kind and the field (I8)."""
