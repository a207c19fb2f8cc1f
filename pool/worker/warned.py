"""Warnings of torch and of the user's code, such as that of two shapes that are broadcast, reach the run's user."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from loader.plugins.words import LONGEST_TEXT, shortened, text_of

MOST = 8  # of one process: what each batch says anew is left to the log
_FOR_USERS = (UserWarning, RuntimeWarning)  # others, such as deprecations, are for developers


def tell_of_warnings(say: Callable[[str], object]) -> None:
    """From now on `say` gets the first warnings of this process, each once and in one line; all of them go to its log,
    as before."""
    write = warnings.showwarning
    told = set[str]()

    def show(message: Any, category: type[Warning], filename: str, lineno: int, *rest: Any) -> None:
        write(message, category, filename, lineno, *rest)
        line = f"warning: {shortened(text_of(message), LONGEST_TEXT)} ({filename}:{lineno})"
        if category in _FOR_USERS and line not in told and len(told) < MOST:
            told.add(line)
            say(line)

    warnings.showwarning = show
