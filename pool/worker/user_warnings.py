"""Warnings of torch and of the user's code, such as that of two shapes that are broadcast, reach the run's user."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TextIO

from loader.plugins.error_text import LONGEST_TEXT, shortened, text_of

MOST = 8  # of one process: what each batch says anew is left to the log
_OF_META = "to a meta parameter in the current model, which is a no-op"  # of weights that the coordinator does load
_FOR_USERS = (UserWarning, RuntimeWarning)  # others, such as deprecations, are for developers


def tell_of_warnings(say: Callable[[str], object]) -> None:
    """From now on `say` gets the first warnings of this process, each once and in one line; all of them go to its log,
    as before."""
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
        text = text_of(message) if isinstance(message, Warning) else message
        words = f"warning: {shortened(text, LONGEST_TEXT)} ({filename}:{lineno})"
        if category in _FOR_USERS and _OF_META not in text and words not in said and len(said) < MOST:
            said.add(words)
            say(words)

    warnings.showwarning = show
