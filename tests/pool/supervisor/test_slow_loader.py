"""What is said of a run whose workers wait for batches: once, when the first steps have shown it."""

from __future__ import annotations

import pytest

from pool.protocol.messages import RunReport, Shares
from pool.supervisor.slow_loader import BEGIN, END, SlowLoader


def report(seconds: float, waiting: float) -> RunReport:
    """Of a run that trains on 1,000 samples in each second."""
    samples = round(1000 * seconds)
    shares = Shares(compute=1 - waiting, loader=waiting)
    return RunReport(9, 12, 0, 32, samples, seconds, (0.1,), (), -1, 1e-3, shares, 1.0, -1, False)


def said(threads: int, waits: dict[float, float]) -> list[str]:
    loader = SlowLoader(threads)
    return list(filter(None, (loader.update(report(seconds, waiting)) for seconds, waiting in waits.items())))


@pytest.mark.parametrize(
    ("cores", "advice"),
    [(16, "raise data.threads (this run may use 16 cores), or read from a faster disk"), (2, "read from a faster")],
)
def test_a_run_that_waits_for_batches_is_told_once_with_what_to_do(
    cores: int, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pool.supervisor.slow_loader.allowed_cores", lambda: cores)
    (line,) = said(2, {BEGIN - 1: 0.0, BEGIN: 0.3, END - 1: 0.5, END: 0.9, END + 1: 0.9, END + 60: 0.9})
    assert line.startswith(
        f"the workers wait for batches in 40% of their time: the loader gives 1,000 samples/s with 2 threads; {advice}"
    )


@pytest.mark.parametrize(
    "waits",
    [{1.0: 0.9, BEGIN: 0.1, END: 0.9, END + 9: 0.9}, {1.0: 0.9, END: 0.9}, {1.0: 0.9}, {BEGIN: 0.9, BEGIN + 2: 0.9}],
    ids=["only while it begins", "not measured", "too short", "not long enough"],
)
def test_a_run_that_does_not_wait_or_is_over_is_told_nothing(waits: dict[float, float]) -> None:
    assert said(2, waits) == []
