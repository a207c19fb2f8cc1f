"""A line of JSON on standard output, for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any


def json_line(value: Any, *, ascii_only: bool = True, other: Callable[[Any], object] | None = None) -> str:
    """Returns `value` as JSON text with a line end. A number that is not finite becomes null, since JSON has none and
    strict readers refuse the whole line.

    value: plain data; `other` converts any other object to plain data. With `ascii_only` other characters are escaped.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=ascii_only, default=other)
    except ValueError:
        text = json.dumps(_finite(value), allow_nan=False, ensure_ascii=ascii_only, default=other)
    return f"{text}\n"


def _finite(value: Any) -> Any:
    """Returns plain data with each number that is not finite replaced by None."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case _:
            return value
