"""Shows the run's user warnings of torch and of the user's code, such as one of two shapes that are broadcast."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TextIO

from loader.plugins.error_text import MAX_MESSAGE_LENGTH, error_message, shorten

MOST = 8  # warnings of a process that the user is shown: those that each batch repeats are left to the log
_OF_META = "to a meta parameter in the current model, which is a no-op"  # not shown: the coordinator loads them
_FOR_USERS = (UserWarning, RuntimeWarning)  # others, such as deprecations, are for developers


def tell_of_warnings(say: Callable[[str], object]) -> None:
    """Installs a handler that shows warnings of this process to the run's user through `say`: the first MOST, each once
    and in one line. All of them still go to the log."""
    write = warnings.showwarning
    said = set[str]()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        write(message, category, filename, lineno, file, line)
        text = error_message(message) if isinstance(message, Warning) else message
        words = f"warning: {shorten(text, MAX_MESSAGE_LENGTH)} ({filename}:{lineno})"
        if category in _FOR_USERS and _OF_META not in text and words not in said and len(said) < MOST:
            said.add(words)
            say(words)

    warnings.showwarning = show
