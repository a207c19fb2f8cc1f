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
from pool.config.key_path import dotted, field_at, section_at

_OF_MEMBERS = ["ensemble", "member"]
_TYPE = re.compile(r"^(constrained-|function-|literal\[|dict\[|tuple\[|list\[|(bool|int|float|str|none)$)")


def explained(cls: type[BaseModel], error: ValidationError, within: Sequence[str] = ()) -> str:
    """Returns a line with all errors that pydantic found in settings of class `cls`.

    `within`: key of the table that the settings belong to.
    """
    return "; ".join(_explain(cls, items, within) for items in _by_key(error))


def _by_key(error: ValidationError) -> Iterable[list[Any]]:
    """Groups pydantic's errors by key, since a value that may have several types has an error for each type."""
    errors: dict[tuple[str, ...], list[Any]] = {}
    for item in error.errors():
        # pydantic names the type behind the key: `constrained-str`, `dict[str,constrained-int]`, `function-before[...]`
        parts = [str(part) for part in item["loc"]]
        end = len(parts) - (item["type"] == "extra_forbidden")  # an unknown key is the user's, and may be called `str`
        location = (*(part for part in parts[:end] if not _TYPE.search(part)), *parts[end:])
        errors.setdefault(location, []).append({**item, "loc": location})
    return errors.values()


def _explain(cls: type[BaseModel], items: Sequence[Any], within: Sequence[str]) -> str:
    """Describes the error of one key. `items`: pydantic's errors for it."""
    item = next((each for each in items if each["type"] == "value_error"), items[0])
    location = list(item["loc"])
    key = dotted([*within, *location])
    if item["type"] == "value_error":  # raised by a section's own check, with a complete text
        problem = item["ctx"]["error"]
        if isinstance(problem, WrongKeyError):
            return f"{dotted([*within, *location, *problem.key])}: {problem.problem}"
        return f"{key}: {problem}"
    if item["type"] == "extra_forbidden":
        section = section_at(cls, location[:-1])
        names = [] if section is None else list(section.model_fields)
        allowed = ", ".join(names)
        if location[:2] == _OF_MEMBERS and len(location) == 4 and location[3] in cls.model_fields:
            return f"{key}: can't differ between members, which share one stream and one run; allowed here: {allowed}"
        of_source = location[:-1] == ["data"] and location[-1] in SOURCES.bundled
        hint = f'; it needs data.source = "{location[-1]}"' if of_source else meant(location[-1], names)
        return f"{key}: unknown key; allowed here: {allowed}{hint}"
    value = json.dumps(item["input"], default=str)
    expected = " or ".join(dict.fromkeys(f"{each['msg'][:1].lower()}{each['msg'][1:]}" for each in items))
    said = f"{key}: {expected}, not {value[:80]}"
    field = field_at(cls, location)
    about = field.description if isinstance(field, FieldInfo) else None
    return f"{said} ({about})" if about else said


def meant(name: str, names: Iterable[str]) -> str:
    """Returns a suggestion of the most similar of `names`, as the end of a message; "" if none is similar."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]}?" if close else ""
