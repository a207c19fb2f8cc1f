"""Handles keys of the settings: formats them as in TOML, and finds the fields and classes that they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from loader.section import union_types

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def format_key(parts: Sequence[str]) -> str:
    """Formats a key as in TOML, with parts in quotes that are not plain words."""
    return ".".join(part if _BARE.fullmatch(part) else json.dumps(part) for part in parts)


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Returns the class of a field that is a section; None for other fields."""
    for kind in union_types(field.annotation):
        if _is_section(kind):
            section: type[BaseModel] = kind
            return section
    return None


def field_at(cls: type[BaseModel], parts: Sequence[str]) -> type[BaseModel] | FieldInfo | None:
    """Returns the class of the section at a key, or the field at it.

    For a key inside a field's value, returns that field. Returns None if there is no such key.
    """
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
    """Returns the class of the section, or of a table in a list of tables, at a key; None if there is none."""
    field = field_at(cls, parts)
    if not isinstance(field, FieldInfo):
        return field
    for tables in union_types(field.annotation):
        for kind in getattr(tables, "__args__", ()):
            if _is_section(kind):
                section: type[BaseModel] = kind
                return section
    return None


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def walk_fields(cls: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yields every key of the settings with its field, including those of nested sections."""
    for name, field in cls.model_fields.items():
        section = section_of(field)
        if section is None:
            yield f"{prefix}{name}", field
        else:
            yield from walk_fields(section, f"{prefix}{name}.")


def is_untyped(field: FieldInfo) -> bool:
    """Tells whether the values of a field, or the values in them, may have any type."""
    return any(kind is Any or Any in getattr(kind, "__args__", ()) for kind in union_types(field.annotation))
