"""Errors that the functions of this package raise for what a user can cause, with a message of one clear line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from loader.errors import CommandError, DataError
from loader.exit_codes import EXIT_DATA, EXIT_FAILED, EXIT_USAGE
from loader.section import describe_first_problem


class SparsepoolError(Exception):
    """Raised when settings, files or a run are at fault. The message says which, where, and what to do.

    `exit_code`: that of the command line for the same fault: 2 settings, 65 damaged data, 69 what they name is not
    there now or in use, 71 not enough memory or disk.

    The cause of an error about data is a `loader.DataError`, with file and offset.
    """

    def __init__(self, reason: str, exit_code: int = EXIT_USAGE) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


class RunFailedError(SparsepoolError):
    """Raised when a run has ended before its last step. The message is the line or lines with which the run ended.

    `run_dir`: the run's folder, with logs and checkpoints; None if the run ended before it had one.
    """

    def __init__(self, reason: str, exit_code: int, run_dir: Path | None) -> None:
        super().__init__(reason, exit_code)
        self.run_dir = run_dir


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turns errors of the packages `loader` and `pool` into a SparsepoolError. Errors of a user's own code pass
    unchanged, but for ValueError and OSError."""
    try:
        yield
    except DataError as error:
        raise SparsepoolError(str(error), EXIT_DATA) from error
    except CommandError as error:
        raise SparsepoolError(str(error), error.exit_code) from None
    except ValidationError as error:
        key, reason = describe_first_problem(error)
        raise SparsepoolError(": ".join([*key, reason])) from None
    except ValueError as error:
        raise SparsepoolError(str(error)) from None
    except OSError as error:
        name = f"{error.filename}: " if error.filename is not None else ""
        raise SparsepoolError(f"{name}{error.strerror or error}", EXIT_FAILED) from None
