"""Builds the page: one HTML file that contains its styles, its scripts and the contents, and loads nothing from
elsewhere.

Its Content-Security-Policy lets these scripts run and no others, whatever text the contents hold. The charts are drawn
by uPlot (https://github.com/leeoniya/uPlot, MIT), a copy of which lies in `uplot` with its licence.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any


def as_json(contents: Mapping[str, Any]) -> str:
    """Formats the contents as JSON without any `<`, so that no text in it can end the page's script."""
    return json.dumps(contents, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def page_of(contents: Mapping[str, Any], *, live: bool = False) -> str:
    """Returns the page as HTML. With `live` it asks its server for new contents."""
    script, library, style = _text("page.js"), _text("uplot/uPlot.iife.min.js"), _style()
    policy = [
        "default-src 'none'",
        f"script-src {_hash(library)} {_hash(script)}",
        f"style-src {_hash(style)}",
        *(["connect-src 'self'"] if live else []),
    ]
    names = ", ".join(run["run"] for run in contents["runs"])
    return Template(_text("page.html")).substitute(
        policy=html.escape("; ".join(policy)),
        title=html.escape(f"sparsepool: {names}"),
        style=style,
        contents=as_json({**contents, "live": live}),
        library=library,
        script=script,
    )


def _style() -> str:
    return _text("uplot/uPlot.min.css") + _text("page.css")


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Returns the hash of a script or style in the form of a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
