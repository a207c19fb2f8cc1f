"""Shows the run's user warnings of torch and of the user's code, such as one of two shapes that are broadcast."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TextIO

from loader.plugins.error_text import MAX_MESSAGE_LENGTH, error_message, shorten

MAX_SHOWN = 8  # warnings of a process that the user is shown: those that each batch repeats are left to the log
_META_NO_OP = "to a meta parameter in the current model, which is a no-op"  # not shown: the coordinator loads them
_SHOWN_CATEGORIES = (UserWarning, RuntimeWarning)  # others, such as deprecations, are for developers


def show_warnings_to_user(notify_user: Callable[[str], object]) -> None:
    """Installs a handler that shows this process's warnings to the run's user: the first MAX_SHOWN, each once and in
    one line. All of them still go to the log."""
    write_to_log = warnings.showwarning
    shown_lines = set[str]()

    def show_warning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        write_to_log(message, category, filename, lineno, file, line)
        text = error_message(message) if isinstance(message, Warning) else message
        if category not in _SHOWN_CATEGORIES or _META_NO_OP in text:
            return
        user_line = f"warning: {shorten(text, MAX_MESSAGE_LENGTH)} ({filename}:{lineno})"
        if user_line in shown_lines or len(shown_lines) >= MAX_SHOWN:
            return
        shown_lines.add(user_line)
        notify_user(user_line)

    warnings.showwarning = show_warning
