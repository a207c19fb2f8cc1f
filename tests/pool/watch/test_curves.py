"""Curves of few points: each is the mean of its records, and none is lost."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool.watch.curves import MOST_POINTS, Curves


def curves(values: list[float]) -> list[float | None]:
    made = Curves()
    for value in values:
        made.add({"loss": value})
    return made.columns().get("loss", [])


@given(st.lists(st.floats(-10, 10), max_size=50))
def test_few_records_are_the_points_themselves(values: list[float]) -> None:
    assert curves(values) == values


@pytest.mark.parametrize("number", [MOST_POINTS, MOST_POINTS + 1, 3 * MOST_POINTS, 4 * MOST_POINTS, 10_007])
def test_many_records_are_means_over_equal_spans(number: int) -> None:
    points = curves([float(n) for n in range(number)])
    assert MOST_POINTS // 2 < len(points) <= MOST_POINTS
    span = 1
    while span * MOST_POINTS < number:
        span *= 2
    spans = [range(begin, min(begin + span, number)) for begin in range(0, number, span)]
    assert points == [sum(each) / len(each) for each in spans]


def test_what_is_no_finite_number_is_a_gap() -> None:
    assert curves([1.0, math.nan, math.inf, 10**400, 2.0]) == [1.0, None, None, None, 2.0]


def test_a_name_that_comes_later_has_gaps_before() -> None:
    made = Curves()
    made.add({"loss": 1.0})
    made.add({"loss": 2.0, "auc": 0.5})
    assert made.columns() == {"loss": [1.0, 2.0], "auc": [None, 0.5]}
