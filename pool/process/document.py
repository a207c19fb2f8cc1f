"""Converts dataclasses, settings and paths to JSON and back, for documents that one process sends another once."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter

T = TypeVar("T")


def to_json(value: object) -> bytes:
    """Encodes dataclasses, settings, paths and mappings, with plain data in them, as JSON. `from_json` is the inverse.
    Raises TypeError for any other object."""
    return json.dumps(value, default=_plain).encode()


def from_json(kind: TypeAdapter[T], text: bytes) -> T:
    """Decodes JSON into the type of `kind`, and checks it. Raises ValueError for text that does not fit.

    Python's own parser is used, since it accepts infinities, and file names that are not valid UTF-8.
    """
    return kind.validate_python(json.loads(text))


def _plain(value: object) -> Any:
    """Returns the JSON form of an object that Python's encoder does not know."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        raise TypeError(f"{type(value).__name__} has no form in a document")
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
