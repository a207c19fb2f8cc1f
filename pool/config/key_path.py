"""Keys of the tree of settings: written as in TOML, and looked up in its classes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from loader.section import alternatives

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dotted(parts: Sequence[str]) -> str:
    """A key as TOML has it: parts that are no plain words in quotes."""
    return ".".join(part if _BARE.fullmatch(part) else json.dumps(part) for part in parts)


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """The class of a field that is a section, else None."""
    kinds = (kind for kind in alternatives(field.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel))
    return next(kinds, None)


def field_at(cls: type[BaseModel], parts: Sequence[str]) -> type[BaseModel] | FieldInfo | None:
    """Returns what lies at a key: a section's class, or the field; for a place inside of a field's value, the field.
    None if there is no such key."""
    for part in parts:
        if part not in cls.model_fields:
            return None
        field = cls.model_fields[part]
        section = section_of(field)
        if section is None:
            return field
        cls = section
    return cls


def section_at(cls: type[BaseModel], parts: Sequence[str]) -> type[BaseModel] | None:
    """The class of the section or of the table of a list that lies at a key; None if there is none."""
    field = field_at(cls, parts)
    if not isinstance(field, FieldInfo):
        return field
    kinds = (kind for tables in alternatives(field.annotation) for kind in getattr(tables, "__args__", ()))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def walk(cls: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key of the tree with its field, sections within sections included."""
    for name, field in cls.model_fields.items():
        section = section_of(field)
        if section is None:
            yield f"{prefix}{name}", field
        else:
            yield from walk(section, f"{prefix}{name}.")


def is_untyped(field: FieldInfo) -> bool:
    """Returns whether its values, or the values inside it, may be of any type."""
    return any(kind is Any or Any in getattr(kind, "__args__", ()) for kind in alternatives(field.annotation))
