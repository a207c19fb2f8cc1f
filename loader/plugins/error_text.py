"""Formats an exception as one line for the user, with the place in the user's own code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loader.errors import escape_to_one_line
from loader.plugins.modules import is_installed_library_file, is_project_file, is_standard_library_file

MAX_MESSAGE_LENGTH = 300  # characters of an exception's own text
MAX_REASON_LENGTH = 4000  # characters of the line that ends a run
_READ = 100_000  # characters of an exception's text that are looked at
_CUT = " [...]"


class PluginError(RuntimeError):
    """Raised when a user's code (a task, a source) raises an exception, or returns what can't be used. The message
    names the place in that code."""


def format_error(error: BaseException) -> str:
    """Returns the exception's type and the beginning of its text, as one line. Never raises."""
    text = shorten(error_message(error), MAX_MESSAGE_LENGTH)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def format_error_with_location(error: BaseException) -> str:
    """Returns the exception's type, its text, and where in the user's code it was raised, as one line. Never raises."""
    if isinstance(error, PluginError):
        return shorten(error_message(error), MAX_REASON_LENGTH)
    line = format_error(error)
    if isinstance(error, BaseExceptionGroup):
        return f"{line}; the first: {format_error_with_location(error.exceptions[0])}"
    place = error_location(error)
    return f"{line} ({place})" if place else line


def error_location(error: BaseException) -> str:
    """Returns `FILE:LINE, in FUNCTION` of the innermost frame in the user's code, or in a library if there is none.
    Returns an empty text for an exception without a traceback."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{shorten(error.filename, MAX_MESSAGE_LENGTH)}:{error.lineno}"
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if not frames:
        return ""
    code, line = min(reversed(frames), key=lambda frame: _distance(frame[0].co_filename))
    return f"{shorten(code.co_filename, MAX_MESSAGE_LENGTH)}:{line}, in {code.co_name}"


def definition_location(function: Callable[..., Any]) -> str:
    """Returns where a function is defined, for a message about what it has returned."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}, in {code.co_name}" if code is not None else repr(function)


def _distance(file: str) -> int:
    """Returns how far a source file is from the user's own code: 0 for that code, 1 for an installed library, 2 for
    Python, torch and this project."""
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    if (
        is_project_file(file)
        or is_standard_library_file(file)
        or (torch is not None and Path(file).is_relative_to(Path(torch).parent))
    ):
        return 2
    return int(is_installed_library_file(file))


def error_message(error: BaseException) -> str:
    """Returns the exception's message, or a replacement if its class can't make one."""
    try:
        return str(error)[:_READ]
    except BaseException as second:
        return f"its text can't be had: {type(second).__name__}"


def shorten(text: str, longest: int) -> str:
    """Returns the text on one line, without characters that can't be printed, cut after `longest` characters."""
    words = " ".join(text[:_READ].split())
    plain = escape_to_one_line(words[: longest + 1])
    return plain if len(plain) <= longest else plain[:longest] + _CUT
