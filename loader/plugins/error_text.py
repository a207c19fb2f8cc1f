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
_MAX_RAW_LENGTH = 100_000  # characters of an exception's text that are read
_ELLIPSIS = " [...]"


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
    location = error_location(error)
    return f"{line} ({location})" if location else line


def error_location(error: BaseException) -> str:
    """Returns `FILE:LINE, in FUNCTION` of the innermost frame in the user's code, or in a library if there is none.
    Returns an empty text for an exception without a traceback."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{shorten(error.filename, MAX_MESSAGE_LENGTH)}:{error.lineno}"
    calls = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if not calls:
        return ""
    calls.reverse()  # the innermost first: the nearest one of several
    code, line = min(calls, key=lambda call: _distance_from_user_code(call[0].co_filename))
    return f"{shorten(code.co_filename, MAX_MESSAGE_LENGTH)}:{line}, in {code.co_name}"


def definition_location(function: Callable[..., Any]) -> str:
    """Returns where a function is defined, for a message about what it has returned."""
    code = getattr(function, "__code__", None)
    if code is None:
        return repr(function)
    return f"{code.co_filename}:{code.co_firstlineno}, in {code.co_name}"


def _distance_from_user_code(file: str) -> int:
    """Returns how far a source file is from the user's own code: 0 for that code, 1 for an installed library, 2 for
    Python, torch and this project."""
    if is_project_file(file) or is_standard_library_file(file) or _is_torch_file(file):
        return 2
    return 1 if is_installed_library_file(file) else 0


def _is_torch_file(file: str) -> bool:
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    return torch is not None and Path(file).is_relative_to(Path(torch).parent)


def error_message(error: BaseException) -> str:
    """Returns the exception's message, or a replacement if its class can't make one."""
    try:
        return str(error)[:_MAX_RAW_LENGTH]
    except BaseException as text_error:
        return f"its text can't be had: {type(text_error).__name__}"


def shorten(text: str, max_length: int) -> str:
    """Returns the text on one line, without characters that can't be printed, cut after `max_length` characters."""
    single_spaced = " ".join(text[:_MAX_RAW_LENGTH].split())
    line = escape_to_one_line(single_spaced[: max_length + 1])
    if len(line) <= max_length:
        return line
    return line[:max_length] + _ELLIPSIS
