"""What is wrong with settings, in one line: where, key, what is allowed, what was given, what the key means."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from pool.config.keys import dotted, field_at, section_at

_OF_MEMBERS = ["ensemble", "member"]


def explained(cls: type[BaseModel], error: ValidationError, within: Sequence[str] = ()) -> str:
    """All that a tree of settings of class `cls` was refused for; `within`: the key of the table that they are of."""
    return "; ".join(_explain(cls, item, within) for item in error.errors())


def _explain(cls: type[BaseModel], item: Any, within: Sequence[str]) -> str:
    location = [str(part) for part in item["loc"]]
    key = dotted([*within, *location])
    if item["type"] == "extra_forbidden":
        section = section_at(cls, location[:-1])
        allowed = "" if section is None else ", ".join(section.model_fields)
        if location[:2] == _OF_MEMBERS and len(location) == 4 and location[3] in cls.model_fields:
            return f"{key}: can't differ between members, which share one stream and one run; allowed here: {allowed}"
        return f"{key}: unknown key; allowed here: {allowed}"
    given = json.dumps(item["input"], default=str)
    said = f"{key}: {item['msg'][:1].lower()}{item['msg'][1:]}, not {given[:80]}"
    field = field_at(cls, location)
    about = field.description if isinstance(field, FieldInfo) else None
    return f"{said} ({about})" if about else said
