"""Formats a loss or a metric for people. Free of torch."""

from __future__ import annotations

_WIDEST = 1e6  # from here on significant digits are limited


def format_value(value: float) -> str:
    """Formats a value with six digits after the point, or with six significant digits if it is at least a million."""
    return f"{value:.6g}" if abs(value) >= _WIDEST else f"{value:.6f}"
