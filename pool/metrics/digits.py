"""A loss or a metric as people read it. Free of torch."""

from __future__ import annotations

_WIDEST = 1e6  # from here on the digits before the point are more than anybody reads


def in_digits(value: float) -> str:
    """Six digits behind the point; of numbers that are too large for that, six in all."""
    return f"{value:.6g}" if abs(value) >= _WIDEST else f"{value:.6f}"
