"""A line of JSON on standard output, for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any


def json_line(value: Any, *, ascii_only: bool = True, convert: Callable[[Any], object] | None = None) -> str:
    """Returns `value` as JSON text with a line end. A number that is not finite becomes null, since JSON has none and
    strict readers refuse the whole line.

    value: plain data; `convert` makes plain data of any other object in it. With `ascii_only` other characters are
    escaped.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=ascii_only, default=convert)
    except ValueError:
        text = json.dumps(_replace_non_finite(value), allow_nan=False, ensure_ascii=ascii_only, default=convert)
    return f"{text}\n"


def _replace_non_finite(value: Any) -> Any:
    """Returns plain data with each number that is not finite replaced by None."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _replace_non_finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_replace_non_finite(item) for item in value]
        case _:
            return value
