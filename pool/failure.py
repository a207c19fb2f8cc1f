"""Why a process ends by an exception: in one line for its user, with the place in the user's own code.

The line is what `Failure` carries from a dying process to the supervisor, through its lifeline. Free of torch.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loader.errors import DataError, one_line
from loader.users_code import is_installed, is_ours, is_pythons
from pool.errors import EXIT_DATA, EXIT_FAILED, PoolError

LONGEST_TEXT = 300  # characters of an exception's own text
LONGEST_REASON = 4000  # of the line that ends a run
_READ = 100_000  # characters of an exception's text that are looked at
_CUT = " [...]"


class TaskError(RuntimeError):
    """The user's code (a task, a source) raises, or gives what can't be used: the text names the place."""


@dataclass(frozen=True)
class Failure:
    """What a process says of itself when it ends."""

    reason: str  # one line
    exit_code: int  # of the run, if this ends it
    started: bool  # it had got ready
    signature: str = ""  # of an exception that another life may not raise: type and place; empty: it would for certain

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Failure | None:
        """None for anything that is no failure: the user's code could reach the socket too."""
        try:
            failure = cls(**json.loads(data))
        except (ValueError, TypeError):
            return None
        kinds = (str, int, bool, str)
        fields = (failure.reason, failure.exit_code, failure.started, failure.signature)
        return failure if tuple(map(type, fields)) == kinds else None


def failure_of(error: BaseException, *, started: bool) -> Failure:
    """A PoolError or DataError is for its user to mend; of any other exception nobody knows before a second life."""
    if isinstance(error, PoolError | DataError):
        code = error.exit_code if isinstance(error, PoolError) else EXIT_DATA
        return Failure(_one_line(_text(error), LONGEST_REASON), code, started)
    return Failure(told(error), EXIT_FAILED, started, f"{type(error).__name__} {place_of(error)}")


def in_words(error: BaseException) -> str:
    """An exception in one line: its type and the beginning of its text. Raises nothing."""
    text = _one_line(_text(error), LONGEST_TEXT)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def told(error: BaseException) -> str:
    """An exception in one line: type, text, and where in the user's code it was raised. Raises nothing."""
    if isinstance(error, TaskError):
        return _one_line(_text(error), LONGEST_REASON)
    line = in_words(error)
    if isinstance(error, BaseExceptionGroup):
        return f"{line}; the first: {told(error.exceptions[0])}"
    place = place_of(error)
    return f"{line} ({place})" if place else line


def place_of(error: BaseException) -> str:
    """`FILE:LINE, in FUNCTION`: the innermost frame in the user's code; in a library's if there is none."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{_one_line(error.filename, LONGEST_TEXT)}:{error.lineno}"
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if not frames:
        return ""
    code, line = min(reversed(frames), key=lambda frame: _distance(frame[0].co_filename))
    return f"{_one_line(code.co_filename, LONGEST_TEXT)}:{line}, in {code.co_name}"


def definition_of(function: Callable[..., Any]) -> str:
    """The place of a function that gave back what it must not."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}, in {code.co_name}" if code is not None else repr(function)


def _distance(file: str) -> int:
    """From the user's own code: 0 for that, 1 for a library that is installed, 2 for Python's, torch's and ours."""
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    if is_ours(file) or is_pythons(file) or (torch is not None and Path(file).is_relative_to(Path(torch).parent)):
        return 2
    return int(is_installed(file))


def _text(error: BaseException) -> str:
    """What the exception says, whatever its class makes of that."""
    try:
        return str(error)[:_READ]
    except BaseException as second:
        return f"its text can't be had: {type(second).__name__}"


def _one_line(text: str, longest: int) -> str:
    """Printable, in UTF-8, and not too long."""
    words = " ".join(text[:_READ].split())
    plain = one_line(words[: longest + 1])
    return plain if len(plain) <= longest else plain[:longest] + _CUT
