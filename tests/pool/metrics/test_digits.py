"""Losses and metrics as people read them."""

from __future__ import annotations

import math

import pytest

from pool.metrics.digits import format_value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0189394, "0.018939"),
        (-12.5, "-12.500000"),
        (999_999.25, "999999.250000"),
        (3.3e35, "3.3e+35"),
        (-1e6, "-1e+06"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_a_number_is_as_long_as_it_is_read(value: float, text: str) -> None:
    assert format_value(value) == text
