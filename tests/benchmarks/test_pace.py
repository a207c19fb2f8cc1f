"""Rates of benchmarks: what is counted, and that a slow machine is measured for longer."""

from __future__ import annotations

from benchmarks.pace import enough, mean_rate, median_rate

MOMENTS = [10.0, 10.5, 11.5, 12.0, 12.5, 14.5]  # a second of warm-up, then steps of 0.5, 0.5 and 2 seconds


def test_steps_after_the_warm_up_make_the_rate() -> None:
    assert mean_rate(MOMENTS, 1.0) == 1.0
    assert median_rate(MOMENTS, 1.0) == 2.0


def test_time_and_steps_must_both_be_enough() -> None:
    assert not enough([], 1.0, 1.0)
    assert not enough([10.0, 30.0, 50.0], 1.0, 1.0)
    assert not enough(MOMENTS, 1.0, 4.0)
    assert enough(MOMENTS, 1.0, 3.0)
    assert enough([10.0, 30.0, 50.0, 70.0], 1.0, 1.0)
