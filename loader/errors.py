"""Errors that end a command of either program: each becomes one line on stderr, or silence."""

from __future__ import annotations

import errno
import signal
from collections.abc import Collection
from pathlib import Path

from loader.exit_codes import EXIT_FAILED, EXIT_PIPE_CLOSED, EXIT_SIGNALLED, EXIT_USAGE

SPACE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM)  # the same may succeed later


def one_line(text: str) -> str:
    """`text` for a message: line ends and other control characters as escapes."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def comes_from(error: BaseException | None, numbers: Collection[int]) -> bool:
    """Tells whether an error is, or was raised for, an OSError with one of these numbers."""
    while error is not None and not (isinstance(error, OSError) and error.errno in numbers):
        error = error.__cause__ or error.__context__
    return error is not None


class DataError(ValueError):
    """Damaged or unusable data: which file, where, and what is wrong (I8)."""

    def __init__(self, file: Path | str, reason: str, offset: int | None = None) -> None:
        self.file = str(file)
        self.offset = offset  # bytes from the start of the file; None if it is about the whole file
        self.reason = reason
        where = self.file if offset is None else f"{self.file}: offset {offset}"
        super().__init__(one_line(f"{where}: {reason}"))


class DataChangedError(DataError):
    """A file is not what it was when it was identified, or a chunk has other bytes than when it was first read."""


class CommandError(Exception):
    """Ends the command: what it says is for the user, its exit code for the caller."""

    exit_code = EXIT_FAILED


class UsageError(CommandError):
    """A command line that is refused before anything has been touched."""

    exit_code = EXIT_USAGE

    def __init__(self, reason: str) -> None:
        super().__init__(one_line(reason))


class InterruptedBySignalError(CommandError):
    """A signal has asked the command to stop."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number
        self.exit_code = EXIT_SIGNALLED + number
        super().__init__(f"interrupted by {number.name}" if number is not signal.SIGINT else "interrupted")


class EngineError(CommandError):
    """A UCI engine does not start, answer or live: names the program."""

    def __init__(self, reason: str) -> None:
        super().__init__(one_line(reason))


class EngineStartError(EngineError):
    """The system can't start an engine: no such program, or no processes, descriptors or memory left."""


class PipeClosedError(CommandError):
    """The reader of our output has closed it (`loader dump FILE | head`): not an error; the command stops silently."""

    exit_code = EXIT_PIPE_CLOSED
