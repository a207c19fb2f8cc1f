"""Finds values of settings that can't be passed unchanged to processes, config.json and a checkpoint's state.json."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from pool.config.key_path import format_key

_MAX_SHOWN_PARTS = 8  # of a key in a message
MAX_DEPTH = 64  # tables and lists within one another
MAX_BITS = 13_000  # of an integer: Python reads and writes no more than 4300 digits


def find_unstorable(tree: Any, within: Sequence[str] = ()) -> str | None:
    """Describes the first value of `tree` that can't be stored as JSON unchanged, with its key; None if there is none.

    `within`: key of the table `tree`.
    """
    pending: list[tuple[tuple[str, ...], Any]] = [(tuple(within), tree)]
    while pending:
        parts, value = pending.pop()
        problem = _find_problem(value, len(parts))
        if problem is not None:
            key = format_key(parts[:_MAX_SHOWN_PARTS])
            if len(parts) > _MAX_SHOWN_PARTS:
                key += " ..."
            return f"{key}: {problem}" if key else problem
        if isinstance(value, Mapping):
            pending += [((*parts, str(key)), inner) for key, inner in value.items()]
            pending += [((*parts, str(key)), key) for key in value]  # a key is text, too
        elif isinstance(value, list | tuple):
            pending += [((*parts, str(index)), inner) for index, inner in enumerate(value)]
    return None


def _find_problem(value: Any, depth: int) -> str | None:
    """Describes what is wrong with a value at this depth of nesting; None if it can be stored."""
    if depth > MAX_DEPTH:
        return f"nested too deeply; at most {MAX_DEPTH} tables and lists within one another"
    if isinstance(value, datetime.date | datetime.time):
        return f"a date or time can't be a setting; write it as text, in quotes: {value}"
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return f"an integer of more than {MAX_BITS:,} bits"
    if isinstance(value, str) and not _is_unicode(value):
        return "text that is not UTF-8"
    return None


def _is_unicode(text: str) -> bool:
    """Tells whether text can be encoded as UTF-8. Text with bytes that were no UTF-8 (surrogates) can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
