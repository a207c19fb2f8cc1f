"""Reads a checkpoint's JSON strictly, and formats errors as one line. Free of torch.

If a file's checksums are right but its content is not valid, the file is not damaged. Another program has written
it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pool.errors import CheckpointError

NOT_OURS = "its sums are right, so it is not damaged: no run of sparsepool has written it like this"
LONGEST = 80  # characters of a value in a message
ABSENT = object()


def parse(text: bytes, where: Path | str) -> Any:
    """Parses JSON in which no object may have a name twice. Raises CheckpointError."""
    try:
        return json.loads(text, object_pairs_hook=_names_given_once)
    except RecursionError:
        raise foreign_content_error(where, "nested too deeply") from None
    except ValueError as error:
        raise foreign_content_error(where, f"no JSON: {error}") from None


def foreign_content_error(where: Path | str, what: str) -> CheckpointError:
    """Returns the error for content with right checksums that no run writes."""
    return CheckpointError(f"{where}: {what}; {NOT_OURS}")


def describe_validation_error(error: ValidationError) -> str:
    """Describes the first error that pydantic found: the field, what is allowed, and its value."""
    first = error.errors(include_url=False)[0]
    field = printable(".".join(str(part) for part in first["loc"])) if first["loc"] else "the whole"
    actual = "" if first["type"] == "missing" else f", not {printable(repr(first['input']))}"
    return f"{field}: {first['msg'][:1].lower()}{first['msg'][1:]}{actual}"


def value_at(tree: Any, key: str) -> Any:
    """Returns the value at a dotted key; None if there is none."""
    for part in key.split("."):
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def are_equal(one: Any, other: Any) -> bool:
    """Returns whether two plain values are equal. NaN equals NaN here, since it means no change."""
    return bool(one == other) or json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def find_changed_entry(key: str, now: Any, then: Any) -> tuple[str, Any, Any]:
    """Returns the first dotted key at or below `key` whose values differ, and both values (ABSENT for a missing one).

    The values `now` and `then` must differ.
    """
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        now = {str(index): value for index, value in enumerate(now)}
        then = {str(index): value for index, value in enumerate(then)}
    if not (isinstance(now, dict) and isinstance(then, dict)):
        return key, now, then
    name = next(name for name in {**now, **then} if not have_equal_entry(now, then, name))
    return find_changed_entry(f"{key}.{printable(name)}", now.get(name, ABSENT), then.get(name, ABSENT))


def have_equal_entry(one: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    """Returns whether both mappings have equal values for a name, or both have none."""
    return (name in one) == (name in other) and are_equal(one.get(name), other.get(name))


def format_value(value: Any) -> str:
    """Formats a value for the user; "not set" for ABSENT."""
    return "not set" if value is ABSENT else printable(str(value), 500)


def printable(text: str, longest: int = LONGEST) -> str:
    """Shortens text to `longest` characters, with characters that can't be printed replaced by ?."""
    short = text if len(text) <= longest else f"{text[:longest]}..."
    return "".join(letter if letter.isprintable() else "?" for letter in short)


def _names_given_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Makes a dictionary of an object's entries. Raises ValueError if a name occurs twice."""
    entries = dict(pairs)
    if len(entries) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{printable(repr(next(name for name in names if names.count(name) > 1)))} is given twice")
    return entries
