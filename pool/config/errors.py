"""Formats errors in settings as one line: file, key, allowed values, actual value, and the meaning of the key."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from loader.section import WrongKeyError
from loader.stream.sources import SOURCES
from pool.config.key_path import field_at, format_key, section_at

_OF_MEMBERS = ["ensemble", "member"]
_TYPE = re.compile(r"^(constrained-|function-|literal\[|dict\[|tuple\[|list\[|(bool|int|float|str|none)$)")


def format_errors(cls: type[BaseModel], error: ValidationError, within: Sequence[str] = ()) -> str:
    """Returns a line with all errors that pydantic found in settings of class `cls`.

    `within`: key of the table that the settings belong to.
    """
    return "; ".join(_format_error(cls, items, within) for items in _group_by_key(error))


def _group_by_key(error: ValidationError) -> Iterable[list[Any]]:
    """Groups pydantic's errors by key, since a value that may have several types has an error for each type."""
    errors: dict[tuple[str, ...], list[Any]] = {}
    for item in error.errors():
        # pydantic names the type behind the key: `constrained-str`, `dict[str,constrained-int]`, `function-before[...]`
        parts = [str(part) for part in item["loc"]]
        key_end = len(parts)
        if item["type"] == "extra_forbidden":  # an unknown key is the user's, and may be called `str`
            key_end -= 1
        location = (*(part for part in parts[:key_end] if not _TYPE.search(part)), *parts[key_end:])
        errors.setdefault(location, []).append({**item, "loc": location})
    return errors.values()


def _format_error(cls: type[BaseModel], items: Sequence[Any], within: Sequence[str]) -> str:
    """Describes the error of one key. `items`: pydantic's errors for this key."""
    value_errors = [item for item in items if item["type"] == "value_error"]
    item = value_errors[0] if value_errors else items[0]
    location = list(item["loc"])
    key = format_key([*within, *location])
    if item["type"] == "value_error":  # raised by a section's own check, with a complete text
        problem = item["ctx"]["error"]
        if isinstance(problem, WrongKeyError):
            return f"{format_key([*within, *location, *problem.key])}: {problem.problem}"
        return f"{key}: {problem}"
    if item["type"] == "extra_forbidden":
        return f"{key}: {_format_unknown_key(cls, location)}"
    value = json.dumps(item["input"], default=str)
    messages = [item["msg"][:1].lower() + item["msg"][1:] for item in items]
    text = f"{key}: {' or '.join(dict.fromkeys(messages))}, not {value[:80]}"
    field = field_at(cls, location)
    if isinstance(field, FieldInfo) and field.description:
        text += f" ({field.description})"
    return text


def _format_unknown_key(cls: type[BaseModel], location: Sequence[str]) -> str:
    """Describes an unknown key, with those that are allowed in its place."""
    *section_path, name = location
    section = section_at(cls, section_path)
    names = [] if section is None else list(section.model_fields)
    allowed = ", ".join(names)
    if section_path[:2] == _OF_MEMBERS and len(section_path) == 3 and name in cls.model_fields:
        return f"can't differ between members, which share one stream and one run; allowed here: {allowed}"
    hint = suggest_name(name, names)
    if section_path == ["data"] and name in SOURCES.bundled:
        hint = f'; it needs data.source = "{name}"'
    return f"unknown key; allowed here: {allowed}{hint}"


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Returns a suggestion of the most similar of `names`, as the end of a message; "" if none is similar."""
    matches = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {matches[0]}?" if matches else ""
