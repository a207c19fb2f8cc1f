"""Settings given in Python, as plain data that a config can hold."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from sparsepool.errors import SparsepoolError


def as_json(settings: Mapping[str, Any]) -> bytes:
    """Raises SparsepoolError for a value that is no number, text, list or table, and can't be one."""
    try:
        return json.dumps(settings, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SparsepoolError(f"{error}: settings are numbers, texts, true or false, lists and tables") from None


def _plain(value: Any) -> Any:
    """Paths as text, numbers of numpy as numbers. Raises TypeError for what is no setting."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} is of type {type(value).__name__}")
