"""Errors that end a command of either program, `loader` or `pool`. Each is shown as one line on stderr, or not at
all."""

from __future__ import annotations

import errno
import signal
from collections.abc import Collection
from pathlib import Path

from loader.exit_codes import EXIT_FAILED, EXIT_PIPE_CLOSED, EXIT_SIGNALLED, EXIT_USAGE

SPACE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)  # the same command may succeed later


def escape_to_one_line(text: str) -> str:
    """Returns `text` with line ends and other control characters escaped, for a message of one line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def has_error_number(error: BaseException | None, numbers: Collection[int]) -> bool:
    """Returns whether an error, or one that caused it, is an OSError with one of these error numbers."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in numbers:
            return True
        error = error.__cause__ or error.__context__
    return False


class DataError(ValueError):
    """Raised for damaged or unusable data; names the file, the offset and what is wrong (I8)."""

    def __init__(self, file: Path | str, reason: str, offset: int | None = None) -> None:
        self.file = str(file)
        self.offset = offset  # bytes from the start of the file; None if it is about the whole file
        self.reason = reason
        location = self.file if offset is None else f"{self.file}: offset {offset}"
        super().__init__(escape_to_one_line(f"{location}: {reason}"))


class DataChangedError(DataError):
    """Raised if a file is not what it was when it was identified, or a chunk has other bytes than when it was first
    read."""


class CommandError(Exception):
    """An error that ends the command. The message is for the user, the exit code for the caller."""

    exit_code = EXIT_FAILED


class UsageError(CommandError):
    """Raised for a command line that is refused before any file has been touched."""

    exit_code = EXIT_USAGE

    def __init__(self, reason: str) -> None:
        super().__init__(escape_to_one_line(reason))


class InterruptedBySignalError(CommandError):
    """Raised by a command that a signal has asked to stop."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number
        self.exit_code = EXIT_SIGNALLED + number
        super().__init__("interrupted" if number is signal.SIGINT else f"interrupted by {number.name}")


class EngineError(CommandError):
    """Raised if a UCI engine does not start, does not answer or dies. The message names the program."""

    def __init__(self, reason: str) -> None:
        super().__init__(escape_to_one_line(reason))


class EngineStartError(EngineError):
    """Raised if the system can't start an engine: no such program, or no processes, descriptors or memory left."""


class PipeClosedError(CommandError):
    """Raised if the reader of our output has closed it (`loader dump FILE | head`). This is no error for the user, so
    the command stops silently."""

    exit_code = EXIT_PIPE_CLOSED
