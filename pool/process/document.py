"""Documents that processes send once, as JSON: the one converter for dataclasses, settings and paths in them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter

T = TypeVar("T")


def to_json(value: object) -> bytes:
    """Encodes dataclasses, settings, paths, mappings, and plain data in them; `from_json` is its inverse."""
    return json.dumps(value, default=_plain).encode()


def from_json(kind: TypeAdapter[T], text: bytes) -> T:
    """Python's own parser: it takes infinities, and names of files that are no UTF-8."""
    return kind.validate_python(json.loads(text))


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        raise TypeError(f"{type(value).__name__} has no form in a document")
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
