"""Finds values of settings that can't be passed unchanged to processes, config.json and a checkpoint's state.json."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from pool.config.key_path import dotted

DEEPEST = 64  # tables and lists within one another
MOST_BITS = 13_000  # of an integer: Python reads and writes no more than 4300 digits


def unfit(tree: Any, within: Sequence[str] = ()) -> str | None:
    """Describes the first value of `tree` that can't be stored as JSON unchanged, with its key; None if there is none.

    `within`: key of the table `tree`.
    """
    pending: list[tuple[tuple[str, ...], Any]] = [(tuple(within), tree)]
    while pending:
        parts, value = pending.pop()
        if (problem := _problem(value, len(parts))) is not None:
            key = dotted(parts[:8]) + (" ..." if len(parts) > 8 else "")
            return f"{key}: {problem}" if key else problem
        if isinstance(value, Mapping):
            pending += [((*parts, str(key)), inner) for key, inner in value.items()]
            pending += [((*parts, str(key)), key) for key in value]  # a key is text, too
        elif isinstance(value, list | tuple):
            pending += [((*parts, str(index)), inner) for index, inner in enumerate(value)]
    return None


def _problem(value: Any, depth: int) -> str | None:
    """Describes what is wrong with a value at this depth of nesting; None if it can be stored."""
    if depth > DEEPEST:
        return f"nested too deeply; at most {DEEPEST} tables and lists within one another"
    if isinstance(value, datetime.date | datetime.time):
        return f"a date or time can't be a setting; write it as text, in quotes: {value}"
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"an integer of more than {MOST_BITS:,} bits"
    if isinstance(value, str) and not _is_unicode(value):
        return "text that is not UTF-8"
    return None


def _is_unicode(text: str) -> bool:
    """Returns whether text can be encoded as UTF-8. Text with bytes that were no UTF-8 (surrogates) can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
